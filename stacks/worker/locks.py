"""Locks of stacks in another backend than a folder. The command line's refusal names their holders."""

from __future__ import annotations

import hashlib
import re
import socket
import time
from contextlib import suppress

from stacks.common.config import EngineConfig
from stacks.common.files import write_private
from stacks.common.processes import LOCKING, alive, command_name

__all__ = ["is_abandoned", "is_stale"]

_LOCK = re.compile(r"created by \S*@(?P<host>\S+) \(pid (?P<pid>\d{1,10})\)")


def is_stale(refusal: str) -> bool:
    """Whether every lock named in `refusal` belongs to a dead process of this machine.

    A lock of another machine is none, nor one whose text is unknown.
    """
    if "currently locked" not in refusal:
        return False
    owners = [(found["host"], int(found["pid"])) for found in _LOCK.finditer(refusal)]
    return bool(owners) and all(host == socket.gethostname() and not _runs(pid) for host, pid in owners)


def is_abandoned(config: EngineConfig, stack: str, refusal: str) -> bool:
    """Whether this machine has seen the locks named in `refusal` for `config.foreign_lock_seconds`. Always false unless
    something else makes sure that one engine works on the stack.

    Clocks of two machines are not compared, so the time in a lock says nothing.
    """
    if not config.exclusive or "currently locked" not in refusal or not _LOCK.search(refusal):
        return False
    locks = sorted(found[0] for found in _LOCK.finditer(refusal))
    mark, now = hashlib.sha256("\n".join(locks).encode()).hexdigest(), time.monotonic()
    note = config.folder(stack) / "foreign-lock"
    with suppress(OSError, ValueError):
        seen, _, at = note.read_text("ascii").partition(" ")
        if seen == mark and float(at) <= now:  # a later time is of a boot before
            return now - float(at) >= config.foreign_lock_seconds
    write_private(note, f"{mark} {now}")
    return False


def _runs(pid: int) -> bool:
    """Whether the process is a program that locks stacks; any other process only has the same id."""
    return alive(pid) and command_name(pid) in LOCKING
