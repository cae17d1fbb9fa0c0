"""The storage that the inventory operator publishes: how much each class of the cluster can hold.

The market reads it every two seconds. An operator that does not answer leaves the sizes as they were: a restart of it
changes nothing that is sold (field problem B8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import aiohttp
import structlog

from provider.errors import ClusterError
from provider.protocols import Clock
from provider.protocols.cluster import SERVICE, Kind
from provider.repeats import Repeats
from provider.units import parse_quantity
from provider.waits import GrowingPause

__all__ = ["OFF", "PublishedStorage", "ReadStorage", "storage_reader"]

_log = structlog.get_logger(__name__)
_AGAIN_S = 2.0
_ABSENT_S = 30.0
_PAUSE = GrowingPause(first=2.0, longest=30.0)
_TIMEOUT_S = 10.0
_NAME, _NAMESPACE, _PORT = "operator-inventory", "akash-services", "rest"
_PATHS = ("v1/storage", "v1/inventory")
"""The Go provider's operator has the second one only."""
OFF = "off"
ReadStorage: TypeAlias = Callable[[], Awaitable[Mapping[str, Any] | None]]
"""The document of the operator, None if there is no operator. Raises `ClusterError`."""


class Through(Protocol):
    """A cluster whose Services can be asked through its API server."""

    async def through(self, kind: Kind, name: str, path: str, *, namespace: str, port: int | str) -> dict[str, Any]: ...


class PublishedStorage:
    """`pools`: storage class → bytes that its volumes may take together. `tried` is set after the first question. `run`
    must run as a task; `changed` is called when the sizes differ.
    """

    def __init__(self, read: ReadStorage, *, clock: Clock, changed: Callable[[], None] = lambda: None) -> None:
        self._read = read
        self._clock = clock
        self._repeats = Repeats(clock.monotonic)
        self._failures = 0
        self.changed = changed
        self.pools: Mapping[str, int] = {}
        self.tried = asyncio.Event()

    async def run(self) -> None:
        """For ever."""
        while True:
            pause = await self._ask()
            self._failures = self._failures + 1 if pause is None else 0
            pause = _PAUSE.after(self._failures) if pause is None else pause
            self.tried.set()
            await self._clock.sleep(pause)

    async def _ask(self) -> float | None:
        """Seconds until the next question; None after a failure."""
        try:
            document = await self._read()
            pools = {} if document is None else _pools(document)
        except (ClusterError, ValueError) as error:
            if self._repeats.is_news("storage", str(error)):
                _log.warning("inventory.storage_unreadable", problem=str(error), used="the sizes known so far")
            return None
        if self._repeats.ended("storage"):
            _log.info("inventory.storage_readable")
        if pools != self.pools:
            self.pools = pools
            self.changed()
        return _ABSENT_S if document is None else _AGAIN_S


def _pools(document: Mapping[str, Any]) -> dict[str, int]:
    """Raises ValueError for a document of another form."""
    try:
        listed = document["storage"] or ()
        return {str(one["info"]["class"]): int(parse_quantity(one["quantity"]["allocatable"])) for one in listed}
    except (KeyError, TypeError) as error:
        raise ValueError(f"the inventory operator answered another form: {error!r}") from error


def storage_reader(cluster: Through, endpoint: str) -> ReadStorage | None:
    """`endpoint`: empty for the Service `operator-inventory` of the cluster, an address such as http://10.0.0.1:8080,
    or `off`, for which there is no reader.
    """
    if endpoint == OFF:
        return None

    async def service(path: str) -> Mapping[str, Any]:
        return await cluster.through(SERVICE, _NAME, path, namespace=_NAMESPACE, port=_PORT)

    async def address(path: str) -> Mapping[str, Any]:
        return await _get(f"{endpoint.rstrip('/')}/{path}")

    async def read() -> Mapping[str, Any] | None:
        for path in _PATHS:
            try:
                return await (address if endpoint else service)(path)
            except ClusterError as error:
                if error.status != 404:
                    raise
        return None

    return read


async def _get(address: str) -> Mapping[str, Any]:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(address) as response:
            if response.status != 200:
                raise ClusterError(address, f"HTTP {response.status}", status=response.status)
            document = await response.json()
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise ClusterError(address, f"{type(error).__name__}: {error}") from error
    if not isinstance(document, dict):
        raise ClusterError(address, f"answered {type(document).__name__} instead of an object")
    return document
