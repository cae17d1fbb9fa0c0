"""Locks of stacks that live in another backend than a folder: whose they are stands in the command line's refusal."""

from __future__ import annotations

import re
import socket

from stacks.common.processes import alive, command_name

__all__ = ["is_stale"]

_LOCK = re.compile(r"created by \S*@(?P<host>\S+) \(pid (?P<pid>\d{1,10})\)")


def is_stale(refusal: str) -> bool:
    """Whether every lock named in `refusal` is of a process of this machine that lives no more.

    A lock of another machine is never ours to break, nor one that is not understood.
    """
    if "currently locked" not in refusal:
        return False
    owners = [(found["host"], int(found["pid"])) for found in _LOCK.finditer(refusal)]
    return bool(owners) and all(host == socket.gethostname() and not _runs(pid) for host, pid in owners)


def _runs(pid: int) -> bool:
    """Process ids are used again: only a Pulumi command line counts."""
    return alive(pid) and command_name(pid) == "pulumi"
