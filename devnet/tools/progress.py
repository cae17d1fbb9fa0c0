"""What a long build tells: how far it is, and how long the rest may take. On a terminal one living line, else one line
a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape

__all__ = ["Clock", "Meter", "Progress", "Voice", "once_a_minute", "voice"]

Progress = Callable[[str], None]
"""Told one line at a time what is going on."""
Clock = Callable[[], float]
"""Seconds that only grow."""

_MINUTE = 60.0
_JUDGED_CPU_SECONDS = 60.0
"""Before that much was used, the recipes' own estimates are not corrected by what was seen."""
_SLOWEST, _FASTEST = 0.2, 64.0
"""Bounds of the pace: CPU seconds used in one second."""
_LEFT_OF_AN_OVERDUE = 0.05
"""Of its estimate, what a recipe that has used it up is thought to need still."""


@dataclass(frozen=True, slots=True)
class Voice:
    """`line` is said once and stays; `live` is what is true now, and the next one takes its place."""

    line: Progress
    live: Progress


@dataclass(slots=True)
class Meter:
    """What is to be built (recipe → CPU seconds estimated), and what it took so far.

    The remaining time is the CPU seconds not yet used, corrected by how finished recipes compare with their estimates,
    at the pace seen so far.
    """

    clock: Clock = time.monotonic
    pace: float = 2.0
    """CPU seconds used in one second: seen, or before anything was seen a guess."""
    _waiting: dict[str, float] = field(default_factory=dict)
    _current: str = ""
    _began: float = 0.0
    _used: float = 0.0
    _finished: list[tuple[float, float]] = field(default_factory=list)
    _spent: float = 0.0

    def plan(self, estimates: Mapping[str, float]) -> None:
        """All that is going to be built."""
        self._waiting = dict(estimates)

    def begin(self, name: str, *, estimate: float) -> None:
        """This one is being built from now on."""
        self._waiting.pop(name, None)
        self._current, self._began, self._used = name, self.clock(), 0.0
        self._waiting = {name: estimate, **self._waiting}

    def drop(self, name: str) -> None:
        """This one needs no building any more."""
        self._waiting.pop(name, None)

    def use(self, cpu_seconds: float) -> None:
        """What the current one has used so far."""
        self._used = cpu_seconds
        wall = self._spent + self.elapsed
        if wall > 1 and self._all_used() > 1:
            self.pace = min(_FASTEST, max(_SLOWEST, self._all_used() / wall))

    def finish(self) -> None:
        """The current one is built."""
        estimate = self._waiting.pop(self._current, 0.0)
        self._finished.append((self._used, estimate))
        self._spent += self.elapsed
        self._current, self._used = "", 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the current one was begun."""
        return self.clock() - self._began if self._current else 0.0

    @property
    def remaining(self) -> float:
        """Seconds that all of the rest may take."""
        correction = self._correction()
        current = self._waiting.get(self._current, 0.0) * correction
        rest = sum(each for name, each in self._waiting.items() if name != self._current) * correction
        left = max(current - self._used, current * _LEFT_OF_AN_OVERDUE)
        return (left + rest) / self.pace

    def told(self) -> str:
        """One line, without the end of it."""
        others = len(self._waiting) - 1
        beside = f" and {others} more" if others else ""
        return f"{self._current}: building for {_span(self.elapsed)}; this{beside} may take {_about(self.remaining)}"

    def _all_used(self) -> float:
        return self._used + sum(used for used, _ in self._finished)

    def _correction(self) -> float:
        used, estimated = (sum(each) for each in zip(*self._finished, strict=True)) if self._finished else (0.0, 0.0)
        return used / estimated if used >= _JUDGED_CPU_SECONDS and estimated else 1.0


def _span(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _about(seconds: float) -> str:
    """Rounded to what an estimate can mean."""
    minutes = round(seconds / _MINUTE)
    return f"about {minutes} min more" if minutes > 1 else "a minute more"


def once_a_minute(line: Progress, *, clock: Clock = time.monotonic) -> Progress:
    """Passes on the first of what it is told after each minute, and never the very first at once."""
    last = clock()

    def live(text: str) -> None:
        nonlocal last
        if clock() - last >= _MINUTE:
            last = clock()
            line(text)

    return live


@contextmanager
def voice(console: Console, *, indent: str = "") -> Iterator[Voice]:
    """On a terminal a living line below what stays; elsewhere whole lines, however long, one a minute at most."""

    def line(text: str) -> None:
        console.print(f"{indent}{text}", markup=False, highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield Voice(line, once_a_minute(line))
        return
    status = console.status("")

    def live(text: str) -> None:
        status.update(escape(text))
        status.start()

    try:
        yield Voice(line, live)
    finally:
        status.stop()
