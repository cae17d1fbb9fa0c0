"""Pods in memory: logs that a test writes to while they are read, and commands that a test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from components.labels import MANIFEST_SERVICE
from provider.errors import ClusterError
from provider.protocols.pods import Channel, Command, LogRequest

__all__ = ["FakeExecution", "FakeLog", "FakePods", "Play", "exit_status", "pod_object"]

_SECONDS = 60


@dataclass
class FakeLog:
    """The log of one container: lines with their times. An open stream ends with `end`, or breaks with `cut`."""

    lines: list[tuple[str, bytes]] = field(default_factory=list)
    ended: bool = False
    cuts: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, *lines: bytes, stamp: str = "") -> None:
        for line in lines:
            number = len(self.lines)
            minute, second = divmod(number, _SECONDS)
            self.lines.append((stamp or f"2026-11-29T01:{minute:02}:{second:02}.{number:09}Z", line))
        self._wake()

    def end(self) -> None:
        """The container has ended."""
        self.ended = True
        self._wake()

    def cut(self) -> None:
        """Break every open stream of the log."""
        self.cuts += 1
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def pod_object(
    namespace: str,
    name: str,
    service: str,
    *,
    container: str = "c1",
    restarts: int = 0,
    running: bool = True,
    **status: Any,
) -> dict[str, Any]:
    """A pod as the API server has it. `container`: the id of the newest container, empty before the first."""
    state: dict[str, Any] = {"running": {}} if running else {"terminated": {}}
    statuses = [{"name": service, "containerID": container, "restartCount": restarts, "state": state}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"akash.network": "true", MANIFEST_SERVICE: service},
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": statuses if container else [],
            **status,
        },
    }


class FakeExecution:
    """A command that a test plays: `say` and `finish` are its side, `stdin` and `sizes` what the client sent."""

    def __init__(self) -> None:
        self.stdin = bytearray()
        self.sizes: list[tuple[int, int]] = []
        self.closed = False
        self._out: asyncio.Queue[tuple[Channel, bytes] | None] = asyncio.Queue()
        self.written = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[tuple[Channel, bytes]]:
        while (item := await self._out.get()) is not None:
            yield item

    async def write(self, data: bytes) -> None:
        self.stdin += data
        self.written.set()

    async def end_input(self) -> None:
        self.written.set()

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))
        self.written.set()

    async def has_read(self, size: int) -> bytes:
        while len(self.stdin) < size:
            self.written.clear()
            await self.written.wait()
        return bytes(self.stdin)

    def say(self, data: bytes, channel: Channel = Channel.STDOUT) -> None:
        self._out.put_nowait((channel, data))

    def finish(self, status: Mapping[str, Any] | None) -> None:
        """End with this result; None ends without one."""
        if status is not None:
            self._out.put_nowait((Channel.RESULT, json.dumps(status).encode()))
        self._out.put_nowait(None)


Play: TypeAlias = Callable[[Command, FakeExecution], Awaitable[None]]


def exit_status(code: int) -> dict[str, Any]:
    """The result of a command that ended with `code`."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


class FakePods:
    """`protocols.Pods`. `logs`: by pod and container number, 0 the newest; `play` plays each command."""

    def __init__(self) -> None:
        self.logs: dict[str, list[FakeLog]] = {}
        self.requests: list[LogRequest] = []
        self.commands: list[Command] = []
        self.executions: list[FakeExecution] = []
        self.refuse: Callable[[LogRequest], ClusterError | None] = lambda _: None
        self.play: Play | None = None
        self.open = 0
        self.endless: dict[str, Callable[[], AsyncIterator[bytes]]] = {}
        """Logs without an end, by pod."""

    def log_of(self, pod: str) -> FakeLog:
        return self.logs.setdefault(pod, [FakeLog()])[0]

    def restart(self, pod: str) -> FakeLog:
        """A new container: the log before becomes the previous one."""
        self.log_of(pod).end()
        self.logs[pod].insert(0, FakeLog())
        return self.logs[pod][0]

    @asynccontextmanager
    async def log(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)
        if (problem := self.refuse(request)) is not None:
            raise problem
        logs = self.logs.get(request.pod, [])
        if len(logs) <= request.previous:
            raise ClusterError("https://fake", "no log (HTTP 400)", status=400)
        self.open += 1
        try:
            endless = self.endless.get(request.pod)
            yield endless() if endless else _pieces(logs[request.previous], request)
        finally:
            self.open -= 1

    @asynccontextmanager
    async def execute(self, command: Command) -> AsyncIterator[FakeExecution]:
        self.commands.append(command)
        execution = FakeExecution()
        self.executions.append(execution)
        playing = asyncio.ensure_future(self.play(command, execution)) if self.play else None
        try:
            yield execution
        finally:
            execution.closed = True
            if playing is not None:
                playing.cancel()
                await asyncio.gather(playing, return_exceptions=True)


async def _pieces(log: FakeLog, request: LogRequest) -> AsyncIterator[bytes]:
    since = request.since.rstrip("Z").partition(".")[0]  # the kubelet goes back to the whole second
    cuts, at = log.cuts, 0
    if request.tail is not None:
        at = max(0, len(log.lines) - request.tail)
    while True:
        changed = log.changed
        for stamp, line in log.lines[at:]:
            if stamp >= since:
                yield (f"{stamp} ".encode() if request.timestamps else b"") + line + b"\n"
        at = len(log.lines)
        if log.cuts > cuts:
            raise ClusterError("https://fake", "the connection was lost")
        if log.ended or not request.follow:
            return
        await changed.wait()
