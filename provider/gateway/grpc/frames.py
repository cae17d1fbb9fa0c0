"""The frames of an HTTP/2 connection, counted as they pass: the server behind the relay keeps a header block without an
end, and works for each frame, however empty.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from provider.budgets import Budget

__all__ = ["FrameGuard"]

_PREFACE_BYTES = 24
_HEAD_BYTES = 9
_DATA, _HEADERS, _CONTINUATION = 0, 1, 9
_END_HEADERS = 4
_MAX_FRAME_BYTES = 128 * 1024
_MAX_BLOCK_BYTES = 32 * 1024
_RATE, _BURST = 200.0, 2000.0
"""Frames that carry no data, a second in the long run and at once; a call has about six."""


class FrameGuard:
    """Reads the heads of frames (RFC 9113 §4.1) in the bytes of one connection, from its preface on."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._skip = _PREFACE_BYTES
        self._head = b""
        self._block_bytes = 0
        self._budget = Budget(rate=_RATE, burst=_BURST, now=now)

    def admits(self, data: bytes) -> bool:
        """Whether the connection may go on after these bytes."""
        at, end = 0, len(data)
        while at < end:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
                at += step
                continue
            part = data[at : at + _HEAD_BYTES - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == _HEAD_BYTES and not self._admits_frame():
                return False
        return True

    def _admits_frame(self) -> bool:
        length, kind, flags = int.from_bytes(self._head[:3], "big"), self._head[3], self._head[4]
        self._head, self._skip = b"", length
        if length > _MAX_FRAME_BYTES:
            return False
        if kind in (_HEADERS, _CONTINUATION):
            self._block_bytes += length
            if self._block_bytes > _MAX_BLOCK_BYTES:
                return False
            if flags & _END_HEADERS:
                self._block_bytes = 0
        return (kind == _DATA and length > 0) or self._budget.take()
