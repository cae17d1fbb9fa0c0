"""The pace of blocks: the seconds per block, learned from block times, and the silence that is abnormal at
that pace.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pace"]

_DEFAULT_S = 6.0
"""Average block time of the real networks (chain.md §6)."""
_MIN_S, _MAX_S = 0.05, 30.0
_WEIGHT = 0.3
_SILENT_BLOCKS = 3
_MIN_SILENCE_S = 2.0


@dataclass(slots=True)
class Pace:
    """`seconds`: the running mean of seconds per block."""

    seconds: float = _DEFAULT_S
    _height: int = 0
    _time: float = 0.0

    def observe(self, height: int, time: float) -> None:
        """Take in a block's height and time (Unix seconds). A height or time that does not rise is ignored."""
        blocks, passed = height - self._height, time - self._time
        if self._height and blocks > 0 and passed > 0:
            each = min(_MAX_S, max(_MIN_S, passed / blocks))
            self.seconds += _WEIGHT * (each - self.seconds)
        if not self._height or (blocks > 0 and passed > 0):
            self._height, self._time = height, time

    @property
    def silence(self) -> float:
        """Seconds without a new block that mean a fault: the time of three blocks, at least two seconds."""
        return max(_MIN_SILENCE_S, _SILENT_BLOCKS * self.seconds)
