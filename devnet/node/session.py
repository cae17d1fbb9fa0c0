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

    Ctrl-C and SIGTERM reach the command, which ends in its own order. Raises EnclosureFailed.
    """
    clear_leftovers(folder)
    shutil.rmtree(folder, ignore_errors=True)
    with _signals_left_to_the_command(), Enclosure.start(folder) as enclosure:
        return enclosure.run(argv)


def lessor_command() -> list[str | Path]:
    """The running `lessor` command with its arguments, for the same command inside."""
    return [Path(sys.executable).with_name("lessor"), *sys.argv[1:]]


@contextmanager
def _signals_left_to_the_command() -> Iterator[None]:
    """A handler that does nothing, instead of SIG_IGN: the command would inherit that and hear no Ctrl-C."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
