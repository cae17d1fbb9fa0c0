"""Discovery pods: one on each node, which answers what hardware the node has (operators.md §2.3).

A pod that dies, is deleted or is replaced is made again, for as long as its node exists. The Go provider watches a pod
only until it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import structlog

from provider.errors import ClusterError
from provider.operators.inventory.answers import Hardware, hardware
from provider.operators.inventory.discovery_pod import DiscoveryOptions, discovery_pod, pod_name
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import POD
from provider.repeats import Repeats
from provider.waits import GrowingPause

__all__ = ["Ask", "Discovery", "PodState", "pod_state"]

_log = structlog.get_logger(__name__)
Ask: TypeAlias = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""(pod, its namespace) → the answers of its hardware server by kind. Raises `ClusterError`."""
_PAUSE = GrowingPause(first=1.0, longest=30.0)
_AGAIN_S = 600.0
"""Hardware changes without a word: a card that falls off the bus, a disk that is added."""
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class PodState:
    """A discovery pod. `dead`: its phase has ended, as after an eviction, so that it never runs again. A restart of its
    container changes `restarts`.
    """

    node: str
    uid: str
    running: bool
    dead: bool
    restarts: int


def pod_state(obj: Mapping[str, Any]) -> PodState:
    meta, status = obj["metadata"], obj.get("status") or {}
    listed = status.get("containerStatuses") or ()
    going = "deletionTimestamp" in meta
    phase = status.get("phase")
    return PodState(
        node=(obj.get("spec") or {}).get("nodeName", ""),
        uid=str(meta.get("uid", "")),
        running=phase == "Running" and not going and all(one.get("ready", True) for one in listed),
        dead=phase in ("Failed", "Succeeded") and not going,
        restarts=sum(int(one.get("restartCount") or 0) for one in listed),
    )


class Discovery:
    """Keeps a pod on each node of `want` and the newest answer of each in `found`. `run` must run as a task.

    `changed` is called with the name of a node whose hardware differs from the last answer.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: DiscoveryOptions,
        *,
        ask: Ask,
        clock: Clock,
        changed: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._ask = ask
        self._clock = clock
        self._changed = changed
        self._pods: dict[str, PodState] = {}
        self._wanted: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._wake = asyncio.Event()
        self._repeats = Repeats(clock.monotonic)
        self.found: dict[str, Hardware] = {}

    def want(self, node: str, *, wanted: bool) -> None:
        """Whether the node is to have a pod: a node that is not ready could not start it."""
        if wanted == (node in self._wanted):
            return
        (self._wanted.add if wanted else self._wanted.discard)(node)
        self._wake.set()

    def forget(self, node: str) -> None:
        """The node is gone, and so is what it had."""
        self.want(node, wanted=False)
        self.found.pop(node, None)

    def seen(self, name: str, state: PodState | None) -> None:
        """A discovery pod as the API server shows it now; None if it is gone."""
        before = self._pods.pop(name, None)
        if state == before and state is not None:
            self._pods[name] = state
            return
        if state is not None:
            self._pods[name] = state
        known = state or before
        if known is not None and known.node in self._news:
            self._news[known.node].set()
        elif state is not None:
            self._wake.set()

    async def run(self) -> None:
        """Starts and ends one task a node. At its own end every pod is deleted."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    self._start_and_end(group)
                    await self._remove_leftovers()
                    await self._wake.wait()
                    self._wake.clear()
        finally:
            await self._remove_all()

    def _start_and_end(self, group: asyncio.TaskGroup) -> None:
        for node in self._wanted - self._tasks.keys():
            self._news[node] = asyncio.Event()
            self._tasks[node] = group.create_task(self._keep(node), name=f"discovery {node}")
        for node in self._tasks.keys() - self._wanted:
            self._tasks.pop(node).cancel()
            self._news.pop(node, None)

    async def _remove_leftovers(self) -> None:
        """Pods of nodes that want none: of an earlier run, and of nodes that have gone."""
        for name, state in list(self._pods.items()):
            if state.node not in self._wanted:
                with suppress(ClusterError):
                    await self._cluster.delete(POD, name, namespace=self._options.namespace)

    async def _remove_all(self) -> None:
        async def remove(name: str) -> None:
            with suppress(ClusterError):
                await self._cluster.delete(POD, name, namespace=self._options.namespace)

        await asyncio.gather(*(remove(name) for name in list(self._pods)))

    async def _keep(self, node: str) -> None:
        """Level-triggered: each round does the one next thing for the node's pod."""
        failures = 0
        while True:
            news = self._news[node]
            news.clear()
            pause = _AGAIN_S
            try:
                state = self._pods.get(pod_name(node))
                if state is None or state.dead:
                    await self._make(node, state)
                    pause = _PAUSE.after(failures := failures + 1)
                elif state.running:
                    await self._read(node)
                    failures = 0
            except (ClusterError, ValueError) as error:
                pause = _PAUSE.after(failures := failures + 1)
                self._log(node, str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await news.wait()

    async def _make(self, node: str, state: PodState | None) -> None:
        if state is not None:
            await self._cluster.delete(POD, pod_name(node), namespace=self._options.namespace)
        async with self._slots:
            await self._cluster.apply(discovery_pod(node, self._options))

    async def _read(self, node: str) -> None:
        async with self._slots:
            answers = await self._ask(pod_name(node), self._options.namespace)
        found = hardware(answers)
        if self._repeats.ended(node):
            _log.info("inventory.hardware_readable", node=node)
        if self.found.get(node) != found:
            self.found[node] = found
            self._changed(node)

    def _log(self, node: str, problem: str) -> None:
        if self._repeats.is_news(node, problem):
            _log.warning("inventory.hardware_unreadable", node=node, problem=problem)
