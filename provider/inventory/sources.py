"""Objects of the cluster that are kept in memory, each reduced at once to the data that counts: a list, then a watch,
and a new list every few minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import structlog

from provider.errors import ClusterError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import Kind, WatchEvent
from provider.repeats import Repeats

__all__ = ["Key", "Source", "SourceReader", "key_of"]

_log = structlog.get_logger(__name__)
_RELIST_S = 300.0
_RETRY_S = 5.0
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(slots=True)
class Source:
    """One kind of object: `trim` reduces an object, `known` holds the results by (namespace, name)."""

    kind: Kind
    trim: Callable[[Mapping[str, Any]], object | None]
    namespace: str | None = None
    labels: Mapping[str, str | None] | None = None
    known: dict[Key, object] = field(default_factory=dict)
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    absent: bool = False
    """The API server does not know the kind."""
    built_in: bool = False
    """Every API server knows the kind. Its watch begins with a list of its own, so that no other list is read, and the
    objects are never in memory together.
    """


class Readings(Protocol):
    """Where a reader notes which kinds could be read."""

    def read(self, kind: str) -> None: ...

    def failed(self, kind: str, error: str) -> None: ...


class SourceReader:
    """Keeps sources. `changed` is called with the source and the keys whose data may differ; it must not wait."""

    def __init__(
        self, cluster: Cluster, *, clock: Clock, readings: Readings, changed: Callable[[Source, Iterable[Key]], None]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._readings = readings
        self._changed = changed
        self._repeats = Repeats(clock.monotonic)

    async def keep(self, source: Source) -> None:
        """For ever. An API server that does not answer is logged and asked again; the data stays as it was."""
        while True:
            try:
                if source.built_in:
                    await self._follow(source)
                listed = iter(await self._list(source))  # an iterator read to its end keeps no object in memory
                async with asyncio.timeout(_RELIST_S):
                    await self._watch(source, listed)
            except TimeoutError:
                continue
            except ClusterError as error:
                await self._failed(source, error)

    async def _follow(self, source: Source) -> None:
        """For ever: a watch that is begun anew every few minutes. What a new list does not have is gone."""
        while True:
            listed: set[Key] = set()
            whole = False

            def current(connected: bool, listed: set[Key] = listed) -> None:
                nonlocal whole
                if not connected:
                    self._readings.failed(source.kind.plural, "the connection to the API server was lost")
                elif not whole:
                    whole = True
                    self._complete(source, listed)
                else:
                    self._readings.read(source.kind.plural)

            events = self._cluster.watch(source.kind, namespace=source.namespace, labels=source.labels, current=current)
            with suppress(TimeoutError):
                async with asyncio.timeout(_RELIST_S):
                    async for event in events:
                        if not whole:
                            listed.add(key_of(event.object))
                        self._take(source, event)

    def _complete(self, source: Source, listed: set[Key]) -> None:
        """The list that a watch begins with was read to its end."""
        gone = source.known.keys() - listed
        for key in gone:
            del source.known[key]
        self._readings.read(source.kind.plural)
        source.listed.set()
        self._changed(source, gone)

    async def _failed(self, source: Source, error: ClusterError) -> None:
        """A kind that the server does not know (its CRD is missing) counts as listed, without objects."""
        if error.status == 404:
            gone, source.known, source.absent = source.known, {}, True
            source.listed.set()
            self._changed(source, gone)
        else:
            self._readings.failed(source.kind.plural, str(error))
        if self._repeats.is_news(source.kind.plural, str(error)):
            _log.warning("inventory.unreadable", kind=source.kind.plural, problem=str(error))
        await self._clock.sleep(_RETRY_S)

    async def _list(self, source: Source) -> list[dict[str, Any]]:
        objects = await self._cluster.list(source.kind, namespace=source.namespace, labels=source.labels)
        before = source.known
        source.known = {key_of(obj): trimmed for obj in objects if (trimmed := _trimmed(source, obj)) is not None}
        source.absent = False
        self._readings.read(source.kind.plural)
        if self._repeats.ended(source.kind.plural):
            _log.info("inventory.readable", kind=source.kind.plural)
        source.listed.set()
        self._changed(source, before.keys() | source.known.keys())
        return objects

    async def _watch(self, source: Source, listed: Iterable[Mapping[str, Any]]) -> None:
        """The watch lists again when it begins, and reports the objects of `known` that vanished between the two
        lists.
        """
        events = self._cluster.watch(source.kind, namespace=source.namespace, labels=source.labels, known=listed)
        async for event in events:
            self._take(source, event)

    def _take(self, source: Source, event: WatchEvent) -> None:
        trimmed = None if event.type == "DELETED" else _trimmed(source, event.object)
        key = key_of(event.object)
        if source.known.get(key) != trimmed:
            source.known.pop(key, None)
            if trimmed is not None:
                source.known[key] = trimmed
            self._changed(source, (key,))


def _trimmed(source: Source, obj: Mapping[str, Any]) -> object | None:
    """The data of an object; None for one that does not count, and for a malformed one, which is named in the log."""
    try:
        return source.trim(obj)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        _log.warning("inventory.malformed", kind=source.kind.plural, name=key_of(obj)[1], problem=repr(error))
        return None


def key_of(obj: Mapping[str, Any]) -> Key:
    meta = obj.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return str(meta.get("namespace", "")), str(meta.get("name", ""))
