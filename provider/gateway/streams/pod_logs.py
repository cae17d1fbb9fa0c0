"""The logs of a lease's pods, for one reader: as they are, or followed through restarts and replacements of pods.

The Go provider ends a stream when the containers that it began with have ended, and a reader does not notice that lines
are missing (field problem K6). Here a followed container is read again from the last line that was sent, the container
after it and the pods that replace it are followed too, and a message marks the place where lines may be missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import structlog

from components.labels import MANIFEST_SERVICE
from provider.errors import ClusterError
from provider.gateway.streams.log_lines import LineSplitter, Place
from provider.kube.labels import MANAGED
from provider.protocols import Cluster
from provider.protocols.cluster import NAMESPACE, POD
from provider.protocols.pods import LogRequest, Pods
from provider.waits import GrowingPause

__all__ = ["LogSource", "NoPodsError", "Send", "follow_logs", "pods_of", "read_logs", "service_of"]

Send: TypeAlias = Callable[[str, Iterable[bytes]], Awaitable[None]]
"""Called with the name of a pod and messages of its log; returns when the reader can take more."""
_GAP = b"lessor: the container was restarted; lines may be missing here"
_AGAIN = GrowingPause(first=0.3, longest=10.0)
_LEASE_CHECK_S = 30.0
_LAST_LINES_S = 5.0
"""How long the stream of a deleted pod may still give lines."""
_log = structlog.get_logger("gateway")


class NoPodsError(Exception):
    """The lease has no pods of these services."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """What of which lease is read. `services`: None for all; a pod belongs to the service that its label names.
    `tail`: the number of last lines of the pods that are there at the beginning, None for all. `began`: when the reader
    came, an RFC 3339 time: with a tail, what was written before is not sent.
    """

    cluster: Cluster
    pods: Pods
    namespace: str
    services: frozenset[str] | None = None
    tail: int | None = None
    began: str = ""


def service_of(pod: Mapping[str, Any]) -> str:
    """The service of a pod; its container has the same name."""
    return str((pod["metadata"].get("labels") or {}).get(MANIFEST_SERVICE, ""))


async def pods_of(source: LogSource) -> list[dict[str, Any]]:
    """The pods of the selected services, by name. Raises `ClusterError`, and `NoPodsError` when there are none."""
    found = await source.cluster.list(POD, namespace=source.namespace, labels=MANAGED)
    chosen = [pod for pod in found if selected(source, pod)]
    if not chosen:
        raise NoPodsError
    return sorted(chosen, key=lambda pod: str(pod["metadata"]["name"]))


async def read_logs(source: LogSource, send: Send) -> None:
    """Send what the logs hold now, the pods at the same time. Raises `NoPodsError`, and `ClusterError` when no log can
    be opened; pods whose container has not started are left out beside others.
    """
    chosen = await pods_of(source)
    outcomes = await asyncio.gather(*(_read(source, pod, send) for pod in chosen), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ClusterError):
            raise outcome
    problems = [outcome for outcome in outcomes if isinstance(outcome, ClusterError)]
    if len(problems) == len(chosen):
        raise problems[0]


async def _read(source: LogSource, pod: Mapping[str, Any], send: Send) -> None:
    name = str(pod["metadata"]["name"])
    request = LogRequest(source.namespace, name, service_of(pod), tail=source.tail)
    async with source.pods.log(request) as pieces:
        lines = LineSplitter()
        async for piece in pieces:
            await send(name, lines.feed(piece))
        await send(name, lines.end())


async def follow_logs(source: LogSource, send: Send) -> None:
    """Send the logs and what is added to them, until the lease's namespace ends. Raises `NoPodsError` when there are no
    pods at the beginning, `ClusterError` when none of their logs can be opened, and what `send` raises.
    """
    first = {_key(pod) for pod in await pods_of(source)}
    followed = _Followed(source, send, first)
    tasks = [asyncio.create_task(followed.watch()), asyncio.create_task(followed.until_lease_ends())]
    try:
        await asyncio.wait({followed.outcome, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for each in (followed.outcome, *tasks):
            if each.done():
                each.result()
    finally:
        await _cancelled([*tasks, *followed.tasks.values()])
        followed.outcome.cancel()


@dataclass(slots=True)
class _Container:
    """What is known of the container of a followed pod. `id`: of the newest container, empty before the first."""

    pod: str
    service: str
    id: str = ""
    ended: bool = False
    restarts: int = 0
    deleted: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, pod: Mapping[str, Any]) -> None:
        """Take what a pod's status says; a pod without a status of its container says nothing."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        for status in statuses:
            if status.get("name") == self.service:
                self._note(status)

    def _note(self, status: Mapping[str, Any]) -> None:
        running = "running" in (status.get("state") or {})
        now = (str(status.get("containerID") or ""), not running, int(status.get("restartCount", 0)))
        if now != (self.id, self.ended, self.restarts):
            self.id, self.ended, self.restarts = now
            self.changed.set()

    def delete(self) -> None:
        self.deleted = True
        self.changed.set()

    async def changes(self, *, within: float | None = None) -> None:
        """Return at the next change, or after `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self.changed.wait()


class _Followed:
    """The followed pods of one reader, by uid. `first`: the pods that are there at the beginning; the tail is theirs.
    `outcome` has the error that ends the stream.
    """

    def __init__(self, source: LogSource, send: Send, first: set[str]) -> None:
        self._source = source
        self._send = send
        self._first = first
        self._refused: set[str] = set()
        self._opened: set[str] = set()
        self._containers: dict[str, _Container] = {}
        self._left = asyncio.Event()
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def watch(self) -> None:
        """Follow each pod that is there and each that comes."""
        async for event in self._source.cluster.watch(POD, namespace=self._source.namespace, labels=MANAGED):
            if not selected(self._source, event.object):
                continue
            key = _key(event.object)
            if event.type == "DELETED":
                self._delete(key)
            else:
                self._note(key, event.object)

    async def until_lease_ends(self) -> None:
        """Return when no pod is left and the namespace is gone or ending."""
        ended = False
        while not ended:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEASE_CHECK_S):
                    await self._left.wait()
            self._left.clear()
            ended = not self.tasks and await self._lease_ended()

    async def _lease_ended(self) -> bool:
        try:
            found = await self._source.cluster.get(NAMESPACE, self._source.namespace)
        except ClusterError:
            return False
        return found is None or "deletionTimestamp" in found["metadata"]

    def _note(self, key: str, pod: Mapping[str, Any]) -> None:
        if key in self._containers:
            self._containers[key].note(pod)
            return
        container = self._containers[key] = _Container(str(pod["metadata"]["name"]), service_of(pod))
        container.note(pod)
        self.tasks[key] = asyncio.create_task(self._follow(key, container))
        self.tasks[key].add_done_callback(lambda task: self._finished(key, task))

    def _delete(self, key: str) -> None:
        """The stream of a deleted pod ends by itself, unless its node does not answer."""
        if (container := self._containers.pop(key, None)) is not None:
            container.delete()
            if (task := self.tasks.get(key)) is not None:
                asyncio.get_running_loop().call_later(_LAST_LINES_S, task.cancel)

    def _finished(self, key: str, task: asyncio.Task[None]) -> None:
        self.tasks.pop(key, None)
        self._left.set()
        if not task.cancelled() and (error := task.exception()) is not None and not self.outcome.done():
            self.outcome.set_exception(error)

    async def _follow(self, key: str, container: _Container) -> None:
        """Read the pod's containers one after the other, each from where it was left."""
        reader = _Reader(self._source, self._send, container, tail=self._source.tail if key in self._first else None)
        failures = 0
        while not container.deleted:
            container.changed.clear()
            if not container.id or (container.ended and reader.finished == container.id):
                await container.changes()
                continue
            began = asyncio.get_running_loop().time()
            try:
                await reader.read()
            except ClusterError as error:
                _log.info("gateway.log_interrupted", problem=str(error), status=error.status)
                self._refuse(key, error, opened=reader.opened)
            else:
                if container.ended:
                    continue
            failures = 1 if asyncio.get_running_loop().time() - began > _AGAIN.longest else failures + 1
            await container.changes(within=_AGAIN.after(failures))

    def _refuse(self, key: str, error: ClusterError, *, opened: bool) -> None:
        """Raise `error` when no log of the pods at the beginning can be opened."""
        (self._opened if opened else self._refused).add(key)
        if not self._opened and self._refused >= self._first:
            raise error


class _Reader:
    """Reads the containers of one pod. `finished`: the container whose log was read to its end, as far as known."""

    def __init__(self, source: LogSource, send: Send, container: _Container, *, tail: int | None) -> None:
        self._source = source
        self._send = send
        self._container = container
        self._tail = tail
        self._place = Place(began=source.began if tail is not None else "")
        self._id = ""
        self._restarts = 0
        self.opened = False
        self.finished = ""

    async def read(self) -> None:
        """Send the log of the newest container to its end. Raises `ClusterError` when it breaks off.

        A stream that begins again asks for the pod first: the log of a container that the watch has not reported yet
        would hide the last lines of the container before.
        """
        if self.opened:
            pod = await self._source.cluster.get(POD, self._container.pod, namespace=self._source.namespace)
            self._container.note(pod or {})
        newest, restarts = self._container.id, self._container.restarts
        if self._id and newest != self._id:
            await self._catch_up(lost=restarts - self._restarts > 1)
        self._id, self._restarts = newest, restarts
        since, tail = (self._place.since, None) if self.opened else ("", self._tail)
        await self._copy(follow=True, since=since, tail=tail)
        self.finished = newest

    async def _catch_up(self, *, lost: bool) -> None:
        """Send what the container before the newest wrote after the last line that was sent; mark what may be lost."""
        try:
            await self._copy(previous=True, since=self._place.since)
        except ClusterError:
            lost = True
        if lost:
            await self._send(self._container.pod, (_GAP,))

    async def _copy(self, **options: Any) -> None:
        self._place.begin_again()
        where = (self._source.namespace, self._container.pod, self._container.service)
        lines = LineSplitter()
        async with self._source.pods.log(LogRequest(*where, timestamps=True, **options)) as pieces:
            self.opened = True
            async for piece in pieces:
                await self._send(self._container.pod, self._place.new(lines.feed(piece)))
            await self._send(self._container.pod, self._place.new(lines.end()))


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait for their end."""
    for task in (ending := list(tasks)):
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)


def _key(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("uid") or pod["metadata"]["name"])


def selected(source: LogSource, pod: Mapping[str, Any]) -> bool:
    name = service_of(pod)
    return bool(name) and (source.services is None or name in source.services)
