"""The progress of a long build: what is being built, and how long the rest may take. A terminal shows one line that is
updated; other outputs get at most one line a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape

__all__ = ["Clock", "Line", "Meter", "Progress", "once_a_minute", "progress_output"]

Line = Callable[[str], None]
"""Prints one line."""
Clock = Callable[[], float]
"""Monotonic seconds."""

_MINUTE_S = 60.0
_CORRECTION_CPU_S = 60.0
"""CPU seconds that builds must have used before their measured costs correct the estimates of the rest."""
_SLOWEST, _FASTEST = 0.2, 64.0
"""Bounds of the pace, in CPU seconds per second."""
_OVERDUE_SHARE = 0.05
"""The share of its estimate that a recipe beyond its estimate is assumed to need still."""


@dataclass(frozen=True, slots=True)
class Progress:
    """`line` prints a line that stays; `live` prints a status that the next one replaces."""

    line: Line
    live: Line


@dataclass(slots=True)
class Meter:
    """The planned builds (recipe → estimated CPU seconds) and their costs so far.

    The remaining time is the estimate of the rest, corrected by the ratio of measured to estimated costs of finished
    recipes, at the measured pace.
    """

    clock: Clock = time.monotonic
    pace: float = 2.0
    """CPU seconds per second: measured, or a guess before the first measurement."""
    _waiting: dict[str, float] = field(default_factory=dict)
    _current: str = ""
    _began: float = 0.0
    _used: float = 0.0
    _finished: list[tuple[float, float]] = field(default_factory=list)
    _spent: float = 0.0

    def plan(self, estimates: Mapping[str, float]) -> None:
        """Set the builds to come."""
        self._waiting = dict(estimates)

    def begin(self, name: str, *, estimate: float) -> None:
        """Note that the build of `name` begins."""
        self._waiting.pop(name, None)
        self._current, self._began, self._used = name, self.clock(), 0.0
        self._waiting = {name: estimate, **self._waiting}

    def drop(self, name: str) -> None:
        """Remove `name` from the plan."""
        self._waiting.pop(name, None)

    def use(self, cpu_seconds: float) -> None:
        """Set the CPU seconds of the current build so far."""
        self._used = cpu_seconds
        wall = self._spent + self.elapsed
        if wall > 1 and self._all_used() > 1:
            self.pace = min(_FASTEST, max(_SLOWEST, self._all_used() / wall))

    def finish(self) -> None:
        """Note that the current build is complete."""
        estimate = self._waiting.pop(self._current, 0.0)
        self._finished.append((self._used, estimate))
        self._spent += self.elapsed
        self._current, self._used = "", 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the current build began."""
        return self.clock() - self._began if self._current else 0.0

    @property
    def remaining(self) -> float:
        """Estimated seconds until all builds are complete."""
        correction = self._correction()
        current = self._waiting.get(self._current, 0.0) * correction
        rest = sum(each for name, each in self._waiting.items() if name != self._current) * correction
        left = max(current - self._used, current * _OVERDUE_SHARE)
        return (left + rest) / self.pace

    def status(self) -> str:
        """The current build and the remaining time, as one line."""
        others = len(self._waiting) - 1
        beside = f" and {others} more" if others else ""
        return f"{self._current}: building for {_span(self.elapsed)}; this{beside} may take {_about(self.remaining)}"

    def _all_used(self) -> float:
        return self._used + sum(used for used, _ in self._finished)

    def _correction(self) -> float:
        used, estimated = (sum(each) for each in zip(*self._finished, strict=True)) if self._finished else (0.0, 0.0)
        return used / estimated if used >= _CORRECTION_CPU_S and estimated else 1.0


def _span(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _about(seconds: float) -> str:
    """`seconds` in whole minutes, the precision of an estimate."""
    minutes = round(seconds / _MINUTE_S)
    return f"about {minutes} min more" if minutes > 1 else "a minute more"


def once_a_minute(line: Line, *, clock: Clock = time.monotonic) -> Line:
    """A function that passes at most one text a minute to `line`, the first one after a minute."""
    last = clock()

    def live(text: str) -> None:
        nonlocal last
        if clock() - last >= _MINUTE_S:
            last = clock()
            line(text)

    return live


@contextmanager
def progress_output(console: Console, *, indent: str = "") -> Iterator[Progress]:
    """A `Progress` that prints to `console`. On a terminal the status is below the lines that stay; elsewhere it is a
    line a minute.
    """

    def line(text: str) -> None:
        console.print(f"{indent}{text}", markup=False, highlight=False, soft_wrap=True)

    if not console.is_terminal:
        yield Progress(line, once_a_minute(line))
        return
    status = console.status("")

    def live(text: str) -> None:
        status.update(escape(text))
        status.start()

    try:
        yield Progress(line, live)
    finally:
        status.stop()
