"""The members of a real node as a client sees them: started, signalled and asked for through the first process."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devnet.errors import EnclosureFailed
from devnet.node.first import SOCKET

__all__ = ["kill_member", "member_pid", "start_member"]

_ANSWER_S = 10.0
_END_S = 10.0


def start_member(name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> int:
    """Start a member, or start one again that has ended; its process id. EnclosureFailed when it cannot be started."""
    answer = _ask({"start": name, "argv": [str(part) for part in argv], "env": dict(env or {})})
    return int(answer[name]["pid"])


def member_pid(name: str) -> int | None:
    """The process id of a running member; None when it has ended or was never started."""
    found = _ask({}).get(name)
    return None if found is None or found["status"] is not None else int(found["pid"])


def kill_member(name: str, *, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a member and, where it ends processes, wait for its end."""
    _ask({"signal": name, "number": int(number)})
    deadline = time.monotonic() + _END_S
    while number in (signal.SIGKILL, signal.SIGTERM) and member_pid(name) is not None:
        if time.monotonic() > deadline:
            raise EnclosureFailed(f"{name} did not end within {_END_S:g} s of {number.name}")
        time.sleep(0.02)


def _ask(request: Mapping[str, object]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_ANSWER_S)
        try:
            client.connect(str(SOCKET))
        except OSError as error:
            raise EnclosureFailed(f"no first process answers at {SOCKET}: {error}; run this inside") from None
        client.sendall(json.dumps(request).encode() + b"\n")
        line = client.makefile().readline()
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise EnclosureFailed(str(answer["error"]))
    return answer
