"""Lines of a pod's log: out of the bytes of the API server, into WebSocket frames of the Go provider's form, and
without those that a stream has sent before.

What waits for the end of its line is at most 64 KiB: a longer line goes out in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lease.go_json import go_json

__all__ = ["LONGEST_LINE", "LineSplitter", "Place", "line_frames", "message_json"]

LONGEST_LINE = 64 * 1024
_UNSAFE = re.compile(rb"[^\x20\x21\x23-\x25\x27-\x3b\x3d\x3f-\x5b\x5d-\x7e]")
"""A byte that JSON writes otherwise, or that is not ASCII."""
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?")
_TEXT_FRAME = 0x81
_TAIL = b'"}\n'
_BATCH = 64 * 1024


class LineSplitter:
    """Splits pieces of bytes into lines, as Go's `bufio.ScanLines`: without the line feed and one carriage return."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in `piece`, and the pieces of a line that is too long to wait for its end."""
        first, *others = piece.split(b"\n")
        begun = self._rest + first
        lines: list[bytes] = []
        for other in others:
            lines += _parts(begun)
            begun = other
        whole = len(begun) - len(begun) % LONGEST_LINE
        lines += [begun[at : at + LONGEST_LINE] for at in range(0, whole, LONGEST_LINE)]
        self._rest = begun[whole:]
        return lines

    def end(self) -> list[bytes]:
        """The last line when no line feed ends it."""
        rest, self._rest = self._rest, b""
        return _parts(rest) if rest else []


def _parts(line: bytes) -> list[bytes]:
    line = line.removesuffix(b"\r")
    if len(line) <= LONGEST_LINE:
        return [line]
    return [line[at : at + LONGEST_LINE] for at in range(0, len(line), LONGEST_LINE)]


@dataclass(slots=True)
class Place:
    """How far the log of a container was read, so that a stream that begins again repeats nothing.

    `stamp`: the time of the last line, without its zone. `lines`: how many lines of that time were read. Two lines
    rarely have one time; then the log has them in the same order each time.
    `began`: where a log goes on of which no line was read.
    """

    stamp: bytes = b""
    lines: int = 0
    began: str = ""
    _again: int = 0
    _behind: bool = False

    @property
    def since(self) -> str:
        """The `since` of the request that goes on from here; the kubelet goes back to the whole second."""
        return f"{self.stamp.decode()}Z" if self.stamp else self.began

    def begin_again(self) -> None:
        """The next lines may have been read before."""
        self._behind, self._again = bool(self.stamp), 0

    def new(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The messages of those `lines` with timestamps that were not read before."""
        for line in lines:
            found = _STAMP.match(line)
            if found is None:  # the second piece of a long line
                if not self._behind:
                    yield line
                continue
            if self._is_new(found[0]):
                yield line.partition(b" ")[2]

    def _is_new(self, stamp: bytes) -> bool:
        if not self._behind:
            self.lines = self.lines + 1 if stamp == self.stamp else 1
            self.stamp = stamp
            return True
        if stamp < self.stamp:
            return False
        if stamp == self.stamp:
            self._again += 1
            if self._again <= self.lines:
                return False
        self._behind = False
        return self._is_new(stamp)


def message_json(message: bytes) -> bytes:
    """The message as a JSON string without its quotes, as Go writes it."""
    if _UNSAFE.search(message) is None:
        return message
    return go_json(message.decode("utf-8", errors="lessor-go-json"))[1:-1].encode()


def line_frames(pod: str, messages: Iterable[bytes]) -> Iterator[bytes]:
    """One text frame for each message: `{"name":…,"message":…}` and a line feed. Frames come in batches of about
    64 KiB: a piece of a hundred thousand empty lines becomes a hundred times as many bytes.
    """
    head = b'{"name":' + go_json(pod).encode() + b',"message":"'
    batch: list[bytes] = []
    size = 0
    for message in messages:
        text = message_json(message)
        length = len(head) + len(text) + len(_TAIL)
        batch += (_frame_head(length), head, text, _TAIL)
        size += length
        if size >= _BATCH:
            yield b"".join(batch)
            batch, size = [], 0
    if batch:
        yield b"".join(batch)


def _frame_head(size: int) -> bytes:
    if size < 126:
        return bytes((_TEXT_FRAME, size))
    if size < 1 << 16:
        return bytes((_TEXT_FRAME, 126, size >> 8, size & 0xFF))
    return bytes((_TEXT_FRAME, 127)) + size.to_bytes(8, "big")
