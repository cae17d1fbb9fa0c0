"""A command in a pod of a lease, with its stdin, its outputs and its result (gateway.md §3.9)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from lease.go_json import go_json
from provider.errors import ClusterError
from provider.protocols.pods import Channel, Command, Execution, Pods

__all__ = [
    "RESIZE",
    "STDERR",
    "STDIN",
    "STDOUT",
    "ExecProblem",
    "Inbox",
    "Output",
    "UnknownFailure",
    "chosen_pod",
    "result_json",
    "run_command",
]

_PREFIX = "remote command execute error: "
STDOUT, STDERR = 100, 101
STDIN, RESIZE = 104, 105
_INBOX_BYTES = 64 * 1024
_MISSING = ("executable file not found", "no such file or directory")
_FAILED = ("error executing command in container", "failed to exec in container")

Output: TypeAlias = Callable[[int, bytes], Awaitable[None]]
"""Called with the code of a frame and its payload; returns when the reader can take more."""


class ExecProblem(Exception):
    """Why a command did not run, in the words of the Go provider."""

    def __init__(self, text: str) -> None:
        super().__init__(_PREFIX + text)


class UnknownFailure(Exception):
    """The command ended without a result, or could not be run for a reason that is not the tenant's."""


@dataclass(frozen=True, slots=True)
class _Size:
    width: int
    height: int


class _End(Enum):
    """The end of stdin."""

    STDIN = "end"


class Inbox:
    """What a client sends to its command, in the order of its frames. `hold` is called with True when it holds 64 KiB,
    and with False when they were taken.
    """

    def __init__(self, hold: Callable[[bool], None]) -> None:
        self._hold = hold
        self._waiting: deque[bytes | _Size | _End] = deque()
        self._bytes = 0
        self._code = 0
        self._size = b""
        self._closed = False
        self._there = asyncio.Event()

    def receive(self, piece: bytes, first: bool, last: bool) -> None:
        """Take a piece of a binary frame. The first byte of a frame is its code; an unknown code closes the inbox."""
        if first:
            self._code, self._size = 0, b""
        if self._closed or not piece:
            return
        if not self._code:
            self._code, piece = piece[0], piece[1:]
            self._closed = self._code not in (STDIN, RESIZE)
        if self._code == STDIN and piece:
            self._add(piece)
        elif self._code == RESIZE:
            self._size = (self._size + piece)[:4]
            if last and len(self._size) == 4:
                self._add(_Size(int.from_bytes(self._size[:2], "big"), int.from_bytes(self._size[2:], "big")))

    def end(self) -> None:
        """Nothing follows. Clients of the gateway cannot say so; an operator's pipe can."""
        self._closed = True
        self._add(_End.STDIN)

    async def forward(self, execution: Execution, active: Callable[[], None]) -> None:
        """Give everything to the command, for ever; `active` is called for each piece."""
        while True:
            await self._there.wait()
            piece = self._waiting.popleft()
            if not self._waiting:
                self._there.clear()
            active()
            if isinstance(piece, _Size):
                await execution.resize(piece.width, piece.height)
                continue
            if isinstance(piece, _End):
                await execution.end_input()
                continue
            self._bytes -= len(piece)
            await execution.write(piece)
            if self._bytes < _INBOX_BYTES:
                self._hold(False)

    def _add(self, piece: bytes | _Size | _End) -> None:
        if isinstance(piece, _Size) and self._waiting and isinstance(self._waiting[-1], _Size):
            self._waiting.pop()  # only the newest size counts, and a client may send many
        self._waiting.append(piece)
        self._there.set()
        self._bytes += len(piece) if isinstance(piece, bytes) else 0
        if self._bytes >= _INBOX_BYTES:
            self._hold(True)


def chosen_pod(pods: Sequence[Mapping[str, Any]], index: int) -> str:
    """The name of the pod with this index among the service's pods by name. Raises `ExecProblem`."""
    if not pods:
        raise ExecProblem("no such service exists with that name")
    if index >= len(pods):
        raise ExecProblem(f"pod index out of range: valid range is [0, {len(pods) - 1}]")
    pod = sorted(pods, key=lambda each: str(each["metadata"]["name"]))[index]
    status = pod.get("status") or {}
    if state := {"Succeeded": "has completed", "Failed": "has failed"}.get(status.get("phase", "")):
        raise ExecProblem(f"service with that name is not running: the service {state}")
    conditions = {each.get("type"): each.get("status") for each in status.get("conditions") or ()}
    if conditions.get("Ready") != "True":
        raise ExecProblem("service with that name is not running: the service is not ready")
    return str(pod["metadata"]["name"])


async def run_command(pods: Pods, command: Command, output: Output, inbox: Inbox | None, *, idle_seconds: float) -> int:
    """Run the command to its end and return its exit code. Without input and output for `idle_seconds` it is ended.
    Raises `ExecProblem`, `UnknownFailure`, and what `output` raises.
    """
    try:
        async with asyncio.timeout(idle_seconds) as idle, pods.execute(command) as execution:

            def active() -> None:
                idle.reschedule(asyncio.get_running_loop().time() + idle_seconds)

            return _exit_code(await _conversation(execution, output, inbox, active))
    except TimeoutError:
        raise ExecProblem(f"the shell was ended after {idle_seconds:g} seconds without input and output") from None
    except ClusterError as error:
        if error.status == 404:
            raise ExecProblem("service with that name is not running") from error
        raise UnknownFailure(str(error)) from error


async def _conversation(
    execution: Execution, output: Output, inbox: Inbox | None, active: Callable[[], None]
) -> Mapping[str, Any]:
    """Forward both ways until the command ends; its result, empty when there is none."""
    feeding = asyncio.create_task(inbox.forward(execution, active)) if inbox is not None else None
    try:
        async for channel, data in execution:
            if channel is Channel.RESULT:
                return _status(data)
            active()
            await output(STDOUT if channel is Channel.STDOUT else STDERR, data)
        return {}
    finally:
        if feeding is not None:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


def _status(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _exit_code(status: Mapping[str, Any]) -> int:
    """The exit code that a Kubernetes Status says. Raises `ExecProblem` and `UnknownFailure`."""
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((str(cause.get("message", "")) for cause in causes if cause.get("reason") == "ExitCode"), "")
    if code.isascii() and code.isdigit():
        return int(code)
    text = str(status.get("message", ""))
    if any(part in text for part in _MISSING):
        raise ExecProblem("command could not be executed because it does not exist")
    if any(part in text for part in _FAILED):
        raise ExecProblem("command execution failed")
    raise UnknownFailure(text or "the command ended without a result")


def result_json(exit_code: int, message: str = "") -> bytes:
    """The payload of the result frame."""
    document = {"exit_code": exit_code} | ({"message": message} if message else {})
    return go_json(document).encode(errors="replace") + b"\n"
