"""Commands that run inside an enclosure from beginning to end: the demo, the tests, `lessor devnet up --node real`."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devnet.node.enclosure import Enclosure, clear_leftovers

__all__ = ["lessor_command", "run_enclosed"]


def run_enclosed(folder: Path, argv: Sequence[str | Path]) -> int:
    """Run `argv` in a fresh enclosure below `folder` and return its exit status; the enclosure ends with it.

    Ctrl-C reaches the command, which ends in its own order. SIGTERM ends the enclosure, which ends the command and
    leaves no cgroup. Raises EnclosureFailed.
    """
    clear_leftovers(folder)
    shutil.rmtree(folder, ignore_errors=True)
    with _signals_handled(), Enclosure.start(folder) as enclosure:
        return enclosure.run(argv)


def lessor_command() -> list[str | Path]:
    """The running `lessor` command with its arguments, for the same command inside."""
    return [Path(sys.executable).with_name("lessor"), *sys.argv[1:]]


@contextmanager
def _signals_handled() -> Iterator[None]:
    """Do nothing on SIGINT, and leave the block on SIGTERM with status 143.

    SIGINT has a handler instead of SIG_IGN: the command would inherit that and hear no Ctrl-C.
    """
    handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: sys.exit(128 + signal.SIGTERM)}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
