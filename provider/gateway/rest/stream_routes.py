"""Routes of streams: logs, events and shells of a lease (gateway.md §3.8–3.9)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from aiohttp import web
from wsproto.frame_protocol import CloseReason, Opcode

from lease.ids import LeaseId, namespace_name
from provider.gateway.auth.claims import Scope
from provider.gateway.lease_objects import LeaseObjects, ReadLease
from provider.gateway.lease_status import service_status
from provider.gateway.rest.open_streams import INTERNAL, NO_CLOSE_FRAME, NO_LEASE, OpenStreams
from provider.gateway.rest.queries import ShellQuery, StreamQuery, shell_query, stream_query
from provider.gateway.rest.routes import Call, Route
from provider.gateway.rest.websocket import Receive, WebSocket, frame
from provider.gateway.streams.kept_events import KeptEvents
from provider.gateway.streams.lease_events import lease_events
from provider.gateway.streams.log_lines import line_frames
from provider.gateway.streams.pod_logs import LogSource, NoPodsError, follow_logs, pods_of, read_logs
from provider.gateway.streams.shell import (
    ExecProblem,
    Inbox,
    Output,
    UnknownFailure,
    chosen_pod,
    result_json,
    run_command,
)
from provider.protocols import Clock, Cluster
from provider.protocols.pods import Command, Pods

__all__ = ["StreamParts", "stream_routes"]

_LEASE = "/lease/{dseq}/{gseq}/{oseq}"
_RESULT, _FAILURE = 102, 103
_log = structlog.get_logger("gateway")


@dataclass(frozen=True, slots=True)
class StreamParts:
    """What the streams read from. `read`: the objects of a lease. `kept`: what happened in it for a week."""

    cluster: Cluster
    pods: Pods
    clock: Clock
    read: ReadLease
    kept: KeptEvents | None = None


def stream_routes(parts: StreamParts, streams: OpenStreams) -> list[Route]:
    async def get_logs(call: Call) -> web.StreamResponse:
        query = _stream_query(call)

        async def talk(socket: WebSocket) -> int:
            return await _logs(parts, call, query, socket)

        return await streams.serve(call, talk, kind="logs")

    async def get_events(call: Call) -> web.StreamResponse:
        query = _stream_query(call)

        async def talk(socket: WebSocket) -> int:
            return await _events(parts, call, query, socket)

        return await streams.serve(call, talk, kind="events")

    async def get_shell(call: Call) -> web.StreamResponse:
        query = shell_query(call.query)
        call.require_service(query.service)
        return await _Shell(parts, call, query, streams).serve()

    return [
        Route(f"{_LEASE}/logs", get_logs, scope=Scope.LOGS, check=stream_query),
        Route(f"{_LEASE}/kubeevents", get_events, scope=Scope.EVENTS, check=stream_query),
        Route(f"{_LEASE}/shell", get_shell, methods=frozenset(), scope=Scope.SHELL),
    ]


def _stream_query(call: Call) -> StreamQuery:
    """The query, its services narrowed to those of the token."""
    query = stream_query(call.query)
    return StreamQuery(query.follow, query.tail, call.narrowed(query.services))


async def _logs(parts: StreamParts, call: Call, query: StreamQuery, socket: WebSocket) -> int:
    if not (await parts.read(call.lease)).namespace:
        return NO_LEASE

    async def send(pod: str, messages: Iterable[bytes]) -> None:
        for frames in line_frames(pod, messages):
            await socket.send(frames)

    began = "" if query.tail is None else datetime.fromtimestamp(parts.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    namespace = namespace_name(call.lease)
    source = LogSource(parts.cluster, parts.pods, namespace, query.services, query.tail, began)
    try:
        await (follow_logs if query.follow else read_logs)(source, send)
    except NoPodsError:
        await socket.send(frame(Opcode.CLOSE, INTERNAL.to_bytes(2, "big") + b"no running pods"))
    return NO_CLOSE_FRAME


async def _events(parts: StreamParts, call: Call, query: StreamQuery, socket: WebSocket) -> int:
    objects = await parts.read(call.lease)
    if not objects.namespace:
        return NO_LEASE
    every = [str(workload["metadata"]["name"]) for workload in objects.workloads]
    events = lease_events(
        parts.cluster,
        namespace_name(call.lease),
        follow=query.follow,
        services=query.services,
        every_service=every,
        kept=parts.kept.of(namespace_name(call.lease)) if parts.kept is not None else (),
    )
    async with aclosing(events):
        async for event in events:
            await socket.send(frame(Opcode.TEXT, event))
    return CloseReason.NORMAL_CLOSURE


class _Shell:
    """One shell of a tenant."""

    def __init__(self, parts: StreamParts, call: Call, query: ShellQuery, streams: OpenStreams) -> None:
        self._parts = parts
        self._call = call
        self._query = query
        self._streams = streams
        self._inbox: Inbox | None = None

    async def serve(self) -> web.StreamResponse:
        receiver = self._receiver if self._query.stdin else None
        return await self._streams.serve(self._call, self._talk, kind="shell", receiver=receiver)

    def _receiver(self, socket: WebSocket) -> Receive:
        self._inbox = Inbox(socket.hold)
        return self._inbox.receive

    async def _talk(self, socket: WebSocket) -> int:
        async def output(code: int, data: bytes) -> None:
            await socket.send(frame(Opcode.BINARY, bytes((code,)) + data))

        try:
            await output(_RESULT, await self._result(output))
        except UnknownFailure as error:
            _log.warning("gateway.shell_failed", problem=str(error))
            await output(_FAILURE, b"")
        return NO_CLOSE_FRAME

    async def _result(self, output: Output) -> bytes:
        query = self._query
        if problem := shell_problem(await self._parts.read(self._call.lease), query.service):
            return result_json(0, problem)
        try:
            command = await _command(self._parts, self._call.lease, query)
            idle = self._streams.limits.shell_idle_seconds
            return result_json(await run_command(self._parts.pods, command, output, self._inbox, idle_seconds=idle))
        except ExecProblem as error:
            return result_json(0, str(error))


def shell_problem(objects: LeaseObjects, service: str) -> str:
    """Why the service can run no command, empty when it may. An unknown lease has a text here; the Go provider reports
    success (gateway.md §12 g).
    """
    if not objects.namespace:
        return "kube: lease not found"
    status = service_status(service, objects)
    if status is None:
        return "kube: no service for that lease"
    return "" if status["ready_replicas"] else "no active replicase for service"


async def _command(parts: StreamParts, lease: LeaseId, query: ShellQuery) -> Command:
    namespace = namespace_name(lease)
    source = LogSource(parts.cluster, parts.pods, namespace, frozenset((query.service,)))
    try:
        pods = await pods_of(source)
    except NoPodsError:
        pods = []
    pod = chosen_pod(pods, query.pod_index)
    return Command(namespace, pod, query.service, query.command, tty=query.tty, stdin=query.stdin)
