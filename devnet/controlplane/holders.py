"""Who holds a control plane: each holder tells its process through a FIFO, and the supervisor watches the processes.

The open end of the FIFO alone would not do: a process that a holder forked has it too, and may outlive him.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable

from devnet.children import started_at

__all__ = ["FIFO", "Holders", "announce", "retract", "watch_process"]

FIFO = "holders"
_CHUNK = 4096


def announce(fifo: int) -> None:
    """Tell the supervisor that this process holds."""
    os.write(fifo, _line("+"))


def retract(fifo: int) -> None:
    """Tell the supervisor that this process lets go, and close the FIFO."""
    with contextlib.suppress(BrokenPipeError):  # the supervisor is gone
        os.write(fifo, _line("-"))
    os.close(fifo)


def _line(sign: str) -> bytes:
    pid = os.getpid()
    return f"{sign} {pid} {started_at(pid)}\n".encode()  # shorter than PIPE_BUF: never mixed with another's


def watch_process(pid: int, ended: Callable[[], None]) -> Callable[[], None]:
    """Call `ended` once that process is gone; returns what stops the watch. ProcessLookupError."""
    pidfd, loop = os.pidfd_open(pid), asyncio.get_running_loop()

    def forget() -> None:
        if loop.remove_reader(pidfd):
            os.close(pidfd)

    def gone() -> None:
        forget()
        ended()

    loop.add_reader(pidfd, gone)
    return forget


class Holders:
    """The supervisor's side: reads `fifo`, and calls `none_left` whenever it may be that nobody holds any more."""

    def __init__(self, fifo: int, none_left: Callable[[], None]) -> None:
        self._fifo = fifo
        self._none_left = none_left
        self._rest = b""
        self._holds: Counter[int] = Counter()
        self._watches: dict[int, Callable[[], None]] = {}
        asyncio.get_running_loop().add_reader(fifo, self._told)

    def anybody(self) -> bool:
        """Whether somebody holds, after all that was told until now."""
        return self._read() and bool(self._holds)

    def close(self) -> None:
        """Watch nobody any more."""
        asyncio.get_running_loop().remove_reader(self._fifo)
        for forget in self._watches.values():
            forget()
        self._watches.clear()

    def _told(self) -> None:
        if not self.anybody():
            self._none_left()

    def _read(self) -> bool:
        """Take in what was told; False when nobody has the FIFO open for writing."""
        while True:
            try:
                told = os.read(self._fifo, _CHUNK)
            except BlockingIOError:
                return True
            if not told:
                return False
            *lines, self._rest = (self._rest + told).split(b"\n")
            for line in lines:
                self._take(line.decode().split())

    def _take(self, words: list[str]) -> None:
        sign, pid, since = words[0], int(words[1]), int(words[2])
        if sign == "+":
            self._add(pid, since=since)
        elif self._holds[pid] > 1:
            self._holds[pid] -= 1
        else:
            self._drop(pid)

    def _add(self, pid: int, *, since: int) -> None:
        if started_at(pid) != since:
            return  # gone already
        with contextlib.suppress(ProcessLookupError):
            if pid not in self._watches:
                self._watches[pid] = watch_process(pid, lambda: self._died(pid))
            self._holds[pid] += 1

    def _drop(self, pid: int) -> None:
        self._holds.pop(pid, None)
        if forget := self._watches.pop(pid, None):
            forget()

    def _died(self, pid: int) -> None:
        self._drop(pid)
        self._told()
