"""An operator for hostnames or addresses as a process: watches, timers, HTTP and gRPC, until it is cancelled
(operators.md §1.3, §1.4, §1.6).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import structlog
from aiohttp import web
from akash.lessor.v1 import operator_pb2
from google.protobuf.empty_pb2 import Empty

from provider.errors import SettingsError
from provider.operators.ignore_list import IgnoreLimits, IgnoreList
from provider.operators.prepared import Barrier, PreparedBodies
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import Kind, WatchEvent

__all__ = ["News", "OperatorOptions", "Watched", "listening", "operator_methods", "repeat", "watch"]

_SERVICE = "lessor.operator.v1.Operator"
_MOST_WATCHERS = 64
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OperatorOptions:
    """The flags of the Go provider's operators. Port 0 lets the system choose. Times in seconds."""

    address: str = "0.0.0.0"  # noqa: S104  a pod's own address
    rest_port: int = 8080
    grpc_port: int = 8081
    prune_s: float = 600.0
    refresh_s: float = 5.0
    limits: IgnoreLimits = field(default_factory=IgnoreLimits)


@dataclass(frozen=True, slots=True)
class Watched:
    """One kind to watch, and what takes its events."""

    kind: Kind
    namespace: str
    take: Callable[[WatchEvent], None]


class News:
    """Marks the prepared bodies of an operator and wakes those who watch its state."""

    def __init__(self, bodies: PreparedBodies, *paths: str) -> None:
        self._bodies = bodies
        self._paths = paths
        self._version = 0
        self._changed = asyncio.Condition()
        self._waking: set[asyncio.Task[None]] = set()

    def __call__(self) -> None:
        self._bodies.mark(*self._paths)
        self._version += 1
        task = asyncio.get_running_loop().create_task(self._wake())
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def changes(self) -> AsyncIterator[None]:
        """Once now, then after each change; changes in between count as one."""
        seen = -1
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._version != seen)  # noqa: B023 (waits here)
            seen = self._version
            yield


async def watch(cluster: Cluster, watched: Sequence[Watched], *, barrier: Barrier | None = None) -> None:
    """Watch until cancelled. The barrier is open while every kind is known completely."""
    known = dict.fromkeys(range(len(watched)), False)

    def mark(index: int, current: bool) -> None:
        known[index] = current
        if barrier is not None:
            barrier.set(all(known.values()))

    async def follow(index: int, one: Watched) -> None:
        async for event in cluster.watch(one.kind, namespace=one.namespace, current=lambda now: mark(index, now)):
            try:
                one.take(event)
            except (KeyError, TypeError, ValueError, AttributeError):
                _log.exception("operator.object_unreadable", kind=one.kind.kind)

    async with asyncio.TaskGroup() as group:
        for index, one in enumerate(watched):
            group.create_task(follow(index, one))


async def repeat(clock: Clock, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` now and after each pause, until cancelled. A failure is logged and stops nothing."""
    while True:
        try:
            await work()
        except Exception:
            _log.exception("operator.work_failed")
        await clock.sleep(seconds)


def operator_methods(
    state: Callable[[], operator_pb2.State], ignored: IgnoreList, news: News
) -> Mapping[str, grpc.RpcMethodHandler[Any, Any]]:
    """The methods of `lessor.operator.v1.Operator`."""
    watchers = 0

    async def get_state(_: Empty, context: grpc.aio.ServicerContext[Any, Any]) -> operator_pb2.State:
        return state()

    async def list_ignored(_: Empty, context: grpc.aio.ServicerContext[Any, Any]) -> operator_pb2.IgnoredLeases:
        return ignored.message()

    async def watch_state(_: Empty, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[operator_pb2.State]:
        nonlocal watchers
        if watchers >= _MOST_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{_MOST_WATCHERS} others watch")
        watchers += 1
        try:
            async for _change in news.changes():
                yield state()
        finally:
            watchers -= 1

    form = {"request_deserializer": Empty.FromString, "response_serializer": _serialized}
    return {
        "GetState": grpc.unary_unary_rpc_method_handler(get_state, **form),
        "ListIgnored": grpc.unary_unary_rpc_method_handler(list_ignored, **form),
        "Watch": grpc.unary_stream_rpc_method_handler(watch_state, **form),
    }


@asynccontextmanager
async def listening(
    options: OperatorOptions, app: web.Application, methods: Mapping[str, grpc.RpcMethodHandler[Any, Any]]
) -> AsyncIterator[tuple[int, int]]:
    """Serve HTTP and gRPC in clear text; yields the two ports. Raises `SettingsError` for a port that is taken."""
    host = options.address
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=30.0)
    await runner.setup()
    server = grpc.aio.server()
    try:
        try:
            await web.TCPSite(runner, host, options.rest_port).start()
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, dict(methods)),))
            shown = f"[{host}]" if ":" in host else host
            port = server.add_insecure_port(f"{shown}:{options.grpc_port}")
        except (OSError, RuntimeError) as error:
            ports = f"--rest-port={options.rest_port} --grpc-port={options.grpc_port}"
            raise SettingsError(f"{ports}: {error}; choose other ports") from error
        await server.start()
        yield runner.addresses[0][1], port
    finally:
        await server.stop(1.0)
        await runner.cleanup()


def _serialized(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
