"""Commands that run inside an enclosure from beginning to end: the demo, the tests, `lessor devnet up --node real`."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devnet.errors import EnclosureStopped
from devnet.node.enclosure import Enclosure, remove_ended

__all__ = ["lessor_command", "run_enclosed", "temporary_folder"]

_PREFIX = "lessor-enclosure-"
_ENDS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end the enclosure: a request, and the end of the terminal."""


def run_enclosed(folder: Path, argv: Sequence[str | Path]) -> int:
    """Run `argv` in a fresh enclosure below `folder` and return its exit status; the enclosure ends with it.

    Ctrl-C and SIGINT reach the command, which ends in its own order. SIGTERM and SIGHUP end the enclosure, which ends
    the command and leaves no cgroup; a second signal changes nothing. `nohup` keeps its effect. Raises
    EnclosureStopped when another process has stopped the enclosure, and EnclosureFailed.
    """
    ends = [number for number in _ENDS if signal.getsignal(number) is not signal.SIG_IGN]
    with (
        _handled(_leave, *ends),
        _restored(signal.SIGINT),
        Enclosure.start(folder, fresh=True) as enclosure,
    ):
        try:
            status = enclosure.run(argv, forwarded=[signal.SIGINT])
        finally:
            signal.signal(signal.SIGINT, _ignore)  # the end of the enclosure is not cut short
        if enclosure.was_stopped:
            raise EnclosureStopped
        return status


def lessor_command() -> list[str | Path]:
    """The running `lessor` command with its arguments, for the same command inside."""
    return [Path(sys.executable).with_name("lessor"), *sys.argv[1:]]


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for an enclosure, which goes at the end. What killed commands left in such folders is removed first."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if left.is_dir() and not left.is_symlink() and left.stat().st_uid == os.geteuid():
            _remove(left)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield made / "enclosure"
    finally:
        if not (made / "enclosure").exists():
            made.rmdir()
        _remove(made)


def _remove(made: Path) -> None:
    if remove_ended(made / "enclosure"):
        with contextlib.suppress(OSError):
            made.rmdir()


def _leave(number: int, _frame: object) -> None:
    for each in (*_ENDS, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)  # an ending interpreter takes handlers of its own away, and this one stays
    sys.exit(128 + number)


def _ignore(_number: int, _frame: object) -> None:
    """Let the command, or the end that has begun, go on."""


@contextmanager
def _restored(number: signal.Signals) -> Iterator[None]:
    """Restore the signal's present handler at the end of the block."""
    before = signal.getsignal(number)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _handled(handler: Callable[[int, object], None], *numbers: signal.Signals) -> Iterator[None]:
    """Handle the signals in the block. After a SystemExit the handlers stay, so that a late signal does not change the
    status with which the process ends.
    """
    before = {number: signal.signal(number, handler) for number in numbers}
    leaves = False
    try:
        yield
    except SystemExit:
        leaves = True
        raise
    finally:
        for number, each in () if leaves else before.items():
            signal.signal(number, each)
