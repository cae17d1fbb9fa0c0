"""The holders of a control plane: each sends its pid through a FIFO, and the supervisor watches these processes.

The open end of the FIFO is not enough: a child that a holder forked has it too, and may outlive the holder. The
supervisor itself holds a file lock, which every process of the machine sees, whatever its PID namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from devnet.children import started_at

__all__ = [
    "FIFO",
    "Holders",
    "announce",
    "holders_lock",
    "is_supervised",
    "retract",
    "supervisor_lock",
    "watch_process",
]

FIFO = "holders"
_LOCK = "holders.lock"
_SUPERVISOR_LOCK = "supervisor.lock"
_LOCK_S = 1.0
_CHUNK = 4096


@contextlib.contextmanager
def holders_lock(data: Path) -> Iterator[None]:
    """Hold the file lock of `data`, under which a control plane is started, joined, or closed to new holders."""
    with (data / _LOCK).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def supervisor_lock(data: Path) -> Iterator[int | None]:
    """A descriptor with the lock of the control plane's supervisor; None while one runs.

    The supervisor inherits the descriptor and so has the lock until it ends. `is_supervised` takes it for a moment.
    """
    descriptor = os.open(data / _SUPERVISOR_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + _LOCK_S
        while not (locked := _try_lock(descriptor)) and time.monotonic() < deadline:
            time.sleep(0.02)
        yield descriptor if locked else None
    finally:
        os.close(descriptor)


def is_supervised(data: Path) -> bool:
    """Whether a supervisor runs in this folder, even in an enclosure, where its process cannot be seen from outside."""
    try:
        descriptor = os.open(data / _SUPERVISOR_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def announce(fifo: int) -> None:
    """Register this process as a holder with the supervisor."""
    os.write(fifo, _line("+"))


def retract(fifo: int) -> None:
    """Withdraw this process as a holder, and close the FIFO."""
    with contextlib.suppress(BrokenPipeError):  # the supervisor has ended
        os.write(fifo, _line("-"))
    os.close(fifo)


def _line(sign: str) -> bytes:
    pid = os.getpid()
    return f"{sign} {pid} {started_at(pid)}\n".encode()  # shorter than PIPE_BUF, so that lines of holders never mix


def watch_process(pid: int, ended: Callable[[], None]) -> Callable[[], None]:
    """Call `ended` when the process ends; returns a function that stops the watch. Raises `ProcessLookupError`."""
    pidfd, loop = os.pidfd_open(pid), asyncio.get_running_loop()

    def stop_watch() -> None:
        if loop.remove_reader(pidfd):
            os.close(pidfd)

    def on_end() -> None:
        stop_watch()
        ended()

    loop.add_reader(pidfd, on_end)
    return stop_watch


class Holders:
    """The supervisor's side: reads `fifo` and calls `none_left` when there may be no holder left."""

    def __init__(self, fifo: int, none_left: Callable[[], None]) -> None:
        self._fifo = fifo
        self._none_left = none_left
        self._rest = b""
        self._holds: Counter[int] = Counter()
        self._watches: dict[int, Callable[[], None]] = {}
        asyncio.get_running_loop().add_reader(fifo, self._check)

    def any_left(self) -> bool:
        """Whether there is a holder, after reading all messages so far."""
        return self._read() and bool(self._holds)

    def close(self) -> None:
        """Stop all watches."""
        asyncio.get_running_loop().remove_reader(self._fifo)
        for stop_watch in self._watches.values():
            stop_watch()
        self._watches.clear()

    def _check(self) -> None:
        if not self.any_left():
            self._none_left()

    def _read(self) -> bool:
        """Read all messages; False if no process has the FIFO open for writing."""
        while True:
            try:
                chunk = os.read(self._fifo, _CHUNK)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._take(line.decode().split())

    def _take(self, fields: list[str]) -> None:
        sign, pid, since = fields[0], int(fields[1]), int(fields[2])
        if sign == "+":
            self._add(pid, since=since)
        elif self._holds[pid] > 1:
            self._holds[pid] -= 1
        else:
            self._drop(pid)

    def _add(self, pid: int, *, since: int) -> None:
        if started_at(pid) != since:
            return  # the process has ended
        with contextlib.suppress(ProcessLookupError):
            if pid not in self._watches:
                self._watches[pid] = watch_process(pid, lambda: self._died(pid))
            self._holds[pid] += 1

    def _drop(self, pid: int) -> None:
        self._holds.pop(pid, None)
        if stop_watch := self._watches.pop(pid, None):
            stop_watch()

    def _died(self, pid: int) -> None:
        self._drop(pid)
        self._check()
