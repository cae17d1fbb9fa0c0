"""Locks of stacks in another backend than a folder. The command line's refusal names their holders."""

from __future__ import annotations

import re
import socket

from stacks.common.processes import LOCKING, alive, command_name

__all__ = ["is_stale"]

_LOCK = re.compile(r"created by \S*@(?P<host>\S+) \(pid (?P<pid>\d{1,10})\)")


def is_stale(refusal: str) -> bool:
    """Whether every lock named in `refusal` belongs to a dead process of this machine.

    A lock of another machine must never be broken, nor one whose text is unknown.
    """
    if "currently locked" not in refusal:
        return False
    owners = [(found["host"], int(found["pid"])) for found in _LOCK.finditer(refusal)]
    return bool(owners) and all(host == socket.gethostname() and not _runs(pid) for host, pid in owners)


def _runs(pid: int) -> bool:
    """Whether the process is a program that locks stacks; any other process only has the same id."""
    return alive(pid) and command_name(pid) in LOCKING
