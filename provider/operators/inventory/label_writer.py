"""Writes the labels of nodes: one merge patch a node, several nodes at a time, tried again until it succeeds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from provider.errors import ClusterError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import NODE
from provider.repeats import Repeats
from provider.waits import GrowingPause

__all__ = ["LabelWriter"]

_log = structlog.get_logger(__name__)
_AT_ONCE = 8
_PAUSE = GrowingPause(first=1.0, longest=30.0)


class LabelWriter:
    """`run` must run as a task."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._pending: dict[str, Mapping[str, Any]] = {}
        self._news = asyncio.Event()
        self._repeats = Repeats(clock.monotonic)

    def want(self, node: str, changes: Mapping[str, Any] | None) -> None:
        """The patch that the node needs now; None if it needs none. An older patch of the node is forgotten."""
        if changes is None:
            self._pending.pop(node, None)
        else:
            self._pending[node] = changes
            self._news.set()

    async def run(self) -> None:
        """For ever. What failed is tried again after a pause, with the patch that is right by then."""
        failures = 0
        while True:
            await self._news.wait()
            self._news.clear()
            batch, self._pending = self._pending, {}
            failed = await self._write(batch)
            failures = failures + 1 if failed else 0
            if failed:
                await self._clock.sleep(_PAUSE.after(failures))
                for node, changes in failed.items():
                    self._pending.setdefault(node, changes)
                self._news.set()

    async def _write(self, batch: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """The patches that failed."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(node: str) -> bool:
            async with turns:
                return await self._patch(node, batch[node])

        done = await asyncio.gather(*(one(node) for node in batch))
        return {node: changes for (node, changes), ok in zip(batch.items(), done, strict=True) if not ok}

    async def _patch(self, node: str, changes: Mapping[str, Any]) -> bool:
        try:
            await self._cluster.patch(NODE, node, changes)
        except ClusterError as error:
            if error.status == 404:
                return True
            if self._repeats.is_news(node, str(error)):
                _log.warning("inventory.labels_not_written", node=node, problem=str(error))
            return False
        self._repeats.ended(node)
        return True
