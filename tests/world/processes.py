"""Processes that a test starts: each is ended and collected when the test is over, whatever the test did."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["ending_processes", "ends_with_test", "kill_processes_of", "line_of", "processes_of", "start_process"]

_started: list[subprocess.Popen[Any]] = []


def start_process(argv: Any, **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen(argv, **options)`."""
    return ends_with_test(subprocess.Popen(argv, **options))


def ends_with_test(process: subprocess.Popen[Any]) -> subprocess.Popen[Any]:
    """`process`, which an uncollected `Popen` would otherwise make another test fail for (`ResourceWarning`)."""
    _started.append(process)
    return process


def line_of(process: subprocess.Popen[Any]) -> str:
    """The next line of its output, which is a pipe."""
    assert process.stdout is not None
    line = process.stdout.readline()
    return line if isinstance(line, str) else line.decode()


@contextmanager
def ending_processes() -> Iterator[None]:
    """Kill and collect whatever was started inside and still runs."""
    try:
        yield
    finally:
        while _started:
            _end(_started.pop())


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def processes_of(data: Path) -> dict[int, str]:
    """The living processes that name the folder in their command or their first environment, by pid."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(data).encode() in text and state not in "ZX" and int(entry.name) != os.getpid():
            found[int(entry.name)] = text[:200].replace(b"\0", b" ").decode(errors="replace")
    return found


def kill_processes_of(data: Path) -> dict[int, str]:
    """The processes that `processes_of` found, and that are killed now."""
    found = processes_of(data)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found
