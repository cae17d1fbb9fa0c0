"""Logs of a lease's services as messages: what there is, and what follows (gateway.md §5).

The lines come from the same source as those of REST. A message has lines of one service, each with its line feed; a
reader that takes nothing makes the API server wait.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from akash.provider.lease.v1 import service_pb2, types_pb2

from lease.ids import LeaseId, namespace_name
from provider.gateway.errors import RequestError
from provider.gateway.rest.stream_routes import StreamParts
from provider.gateway.streams.pod_logs import LogSource, NoPodsError, follow_logs, pods_of, read_logs, service_of

__all__ = ["followed_logs", "last_logs"]

_TAIL = 1000
_MOST_BYTES = 1024 * 1024
"""What one answer holds of each service: its newest lines. gRPC's clients take 4 MiB by default."""
_MESSAGE_BYTES = 64 * 1024
_WAITING = 8
"""Messages that wait for a slow reader."""
_T = TypeVar("_T")


async def last_logs(parts: StreamParts, lease: LeaseId, services: frozenset[str] | None) -> Any:
    """The newest lines of the services. Raises `ClusterError`, and `RequestError` 404 without running pods."""
    source = await _source(parts, lease, services, tail=_TAIL)
    names = await _services(source)
    found: dict[str, bytearray] = defaultdict(bytearray)

    async def keep(pod: str, messages: Iterable[bytes]) -> None:
        kept = found[names.get(pod, pod)]
        for message in messages:
            kept += message + b"\n"
            if len(kept) > 2 * _MOST_BYTES:
                del kept[:-_MOST_BYTES]

    await _read(read_logs(source, keep))
    rows = [types_pb2.ServiceLogs(name=name, logs=bytes(found[name][-_MOST_BYTES:])) for name in sorted(found)]
    return service_pb2.ServiceLogsResponse(services=rows)


async def followed_logs(
    parts: StreamParts, lease: LeaseId, services: frozenset[str] | None
) -> AsyncGenerator[Any, None]:
    """Messages with the lines, from the first on. Raises as `last_logs`."""
    source = await _source(parts, lease, services)
    names = await _services(source)
    waiting: asyncio.Queue[Any] = asyncio.Queue(_WAITING)

    async def send(pod: str, messages: Iterable[bytes]) -> None:
        if pod not in names:
            with suppress(RequestError):
                names.update(await _services(source))
        for text in _batches(messages):
            row = types_pb2.ServiceLogs(name=names.get(pod, pod), logs=text)
            await waiting.put(service_pb2.ServiceLogsResponse(services=[row]))

    reading = asyncio.create_task(_read(follow_logs(source, send)))
    try:
        while not (reading.done() and waiting.empty()):
            message = asyncio.ensure_future(waiting.get())
            try:
                await asyncio.wait({message, reading}, return_when=asyncio.FIRST_COMPLETED)
            finally:  # also when the reader leaves
                message.cancel()
            if message.done():
                yield message.result()
        reading.result()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _source(
    parts: StreamParts, lease: LeaseId, services: frozenset[str] | None, *, tail: int | None = None
) -> LogSource:
    if not (await parts.read(lease)).namespace:
        raise RequestError(404, "kube: lease not found")
    return LogSource(parts.cluster, parts.pods, namespace_name(lease), services, tail)


async def _services(source: LogSource) -> dict[str, str]:
    """The service of each pod, by the name of the pod."""
    return {str(pod["metadata"]["name"]): service_of(pod) for pod in await _read(pods_of(source))}


async def _read(reading: Awaitable[_T]) -> _T:
    try:
        return await reading
    except NoPodsError as error:
        raise RequestError(404, "no running pods") from error


def _batches(messages: Iterable[bytes]) -> Iterator[bytes]:
    """The lines with their line feeds, together about 64 KiB each time."""
    batch = bytearray()
    for message in messages:
        batch += message + b"\n"
        if len(batch) >= _MESSAGE_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)
