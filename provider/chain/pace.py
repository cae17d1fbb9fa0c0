"""How long blocks take on this chain, learned from their times; what "silent" means follows from it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pace"]

_DEFAULT_SECONDS = 6.0
"""Average block time of the real networks (chain.md §6)."""
_SHORTEST, _LONGEST = 0.05, 30.0
_WEIGHT = 0.3
_SILENT_BLOCKS = 3
_SHORTEST_SILENCE_SECONDS = 2.0


@dataclass(slots=True)
class Pace:
    """`seconds` a block; a running mean over what was seen."""

    seconds: float = _DEFAULT_SECONDS
    _height: int = 0
    _time: float = 0.0

    def saw(self, height: int, time: float) -> None:
        """A block's height and time (Unix seconds). What goes backwards or stands still teaches nothing."""
        blocks, passed = height - self._height, time - self._time
        if self._height and blocks > 0 and passed > 0:
            each = min(_LONGEST, max(_SHORTEST, passed / blocks))
            self.seconds += _WEIGHT * (each - self.seconds)
        if not self._height or (blocks > 0 and passed > 0):
            self._height, self._time = height, time

    @property
    def silence(self) -> float:
        """Seconds without a new block after which something is wrong: three blocks, but never below two seconds."""
        return max(_SHORTEST_SILENCE_SECONDS, _SILENT_BLOCKS * self.seconds)
