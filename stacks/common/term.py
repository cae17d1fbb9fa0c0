"""The end of the daemon's term, for every process of its engine: a file in the data folder.

It exists only where several processes of a provider elect a leader. A daemon that is suspended cannot stop its workers;
they read the file themselves. The clock is the machine's own (CLOCK_MONOTONIC), which all its processes share; the id
of the boot tells a file of an earlier one.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from stacks.common.errors import OperationRefused
from stacks.common.files import write_private

__all__ = ["forget_term", "refuse_after_term", "term_is_over", "write_term"]

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def write_term(data: Path, until: float) -> None:
    """`until`: the monotonic second at which the term ends. Raises OSError."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(_file(data), f"{until} {_boot()}\n")


def forget_term(data: Path) -> None:
    """There is no election any more. Raises OSError."""
    _file(data).unlink(missing_ok=True)


def term_is_over(data: Path) -> bool:
    """Whether this engine may have no effect any more. A file that cannot be read ends the term too."""
    try:
        until, _, boot = _file(data).read_text("ascii").strip().partition(" ")
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    with suppress(ValueError):
        return boot != _boot() or time.monotonic() >= float(until)
    return True


def refuse_after_term(data: Path) -> None:
    """Raise `OperationRefused` when the term is over."""
    if term_is_over(data):
        raise OperationRefused("this process leads no longer: its term is over, and nothing is begun after it")


def _file(data: Path) -> Path:
    return data / "term"


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text("ascii").strip()
    return ""
