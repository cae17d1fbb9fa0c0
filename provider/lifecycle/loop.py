"""The lease loop: events, watches and timers name leases, and each named lease is checked.

A lease has one check at a time; many leases are checked at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any

import structlog

from lease.ids import LeaseId
from provider.bus import CHAIN_BLOCK, LEASE_CHANGED, MANIFEST_ACCEPTED, Overflow
from provider.chain.events import LEASE_CLOSED, LEASE_RECLAIM_STARTED, lease_id
from provider.errors import ClusterError
from provider.lifecycle.cluster_lists import list_cluster
from provider.lifecycle.drift import Drift
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.parts import Parts
from provider.lifecycle.queue import LeaseQueue
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.sources import find_leases
from provider.lifecycle.state import LeaseStatus, Phase
from provider.lifecycle.volume_restore import restore_volumes
from provider.lifecycle.watches import Observer, Watcher, watched
from provider.protocols import Chain, Clock
from provider.protocols.chain import Block
from provider.repeats import Repeats
from provider.volumes.restore import RestoreRequest
from provider.volumes.texts import volume_document
from provider.waits import wait_for_event

__all__ = ["LeaseLoop"]

_INCOMPLETE_S = 10.0
_log = structlog.get_logger(__name__)


async def _at_once() -> None:
    """Return at once."""


class LeaseLoop:
    """`await loop.run()` until cancelled. Cancelling removes nothing: what runs keeps running.

    Every lease is checked at the start, every `resync_s`, and when the bus dropped events or blocks were missed. A
    source that cannot be read is asked again after ten seconds. The start and every check first await `may_begin`.
    """

    def __init__(
        self,
        reconciler: Reconciler,
        parts: Parts,
        *,
        chain: Chain,
        clock: Clock,
        observer: Observer | None = None,
        may_begin: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self._reconciler = reconciler
        self._parts = parts
        self._chain = chain
        self._clock = clock
        self._may_begin = may_begin
        self._queue = LeaseQueue(clock)
        config = parts.config
        self._watcher = Watcher(
            parts.cluster,
            records=config.records,
            check=self._cluster_changed,
            drift_of=self._drift_of,
            metallb=config.metallb_namespace,
            observer=observer,
            waiting_for=reconciler.memories.waiting_for,
        )
        self._all = asyncio.Event()
        self._repeats = Repeats(clock.monotonic)
        self._unknown_stacks: tuple[str, ...] = ()
        self._changed_since: set[LeaseId] | None = None

    @property
    def statuses(self) -> Mapping[LeaseId, LeaseStatus]:
        return self._reconciler.statuses

    @property
    def claims(self) -> LeaseClaims:
        """The claims of all leases; the gateway has them migrated."""
        return self._parts.claims

    @property
    def unknown_stacks(self) -> tuple[str, ...]:
        """Stacks in the backend that belong to no known lease; an operator decides about them."""
        return self._unknown_stacks

    @property
    def braked(self) -> frozenset[LeaseId]:
        """Leases that are proven closed and that the teardown brake holds."""
        return self._reconciler.memories.held()

    def limit_removals(self, *, leases: int, percent: float, window_s: float) -> None:
        """Give the teardown brake other limits."""
        self._reconciler.brake.limit(leases=leases, percent=percent, window_s=window_s)

    def release_brake(self) -> tuple[LeaseId, ...]:
        """Remove the leases that the brake holds, at an operator's request. Returns them."""
        released = self._reconciler.release_brake()
        for lease in released:
            self._queue_check(lease, 0.0)
        return released

    @property
    def suspects(self) -> Mapping[LeaseId, str]:
        """Leases that look closed without proof, and why. Only an operator's request removes them."""
        return self._reconciler.memories.suspects()

    def close(self, lease: LeaseId) -> str:
        """Mark a suspect, or a lease that the brake holds, as ended because an operator says so, and queue its check.
        Returns why it is not marked, else nothing.
        """
        if not self._reconciler.call_closed(lease):
            return f"{lease} does not look closed; only the chain ends it"
        self._queue_check(lease, 0.0)
        return ""

    async def recreate(self, lease: LeaseId) -> str:
        """Make anew what another builder made, pods too, at an operator's request. Returns why not, else nothing."""
        if not await self._reconciler.recreate(lease):
            return f"nothing was applied for {lease} yet"
        self.check(lease)
        return ""

    async def retry(self, lease: LeaseId) -> str:
        """Try the refused version again, at an operator's request. Returns nothing: it is always done."""
        await self._reconciler.retry_refused(lease)
        self.check(lease)
        return ""

    @property
    def quarantined(self) -> list[dict[str, Any]]:
        """A `volumes.texts.volume_document` for each volume that outlived its lease."""
        quarantine = self._reconciler.quarantine
        return [volume_document(volume, quarantine.problem(volume)) for volume in quarantine.volumes]

    async def restore(self, request: RestoreRequest) -> str:
        """Do `volume_restore.restore_volumes` at an operator's request. Returns what was done; raises `NotRestored`."""
        into, done = await restore_volumes(
            self._parts, request, statuses=self.statuses, quarantine=self._reconciler.quarantine, clock=self._clock
        )
        for lease in {request.lease, into}:
            self.check(lease)
        return done

    async def write_directives(self) -> bool:
        """Write the directives. Returns whether they would outlive a restart now."""
        return await self._reconciler.record.write()

    async def write_directives_again(self) -> bool:
        """Write the directives to a store that is an empty one now. Returns whether they are written."""
        return await self._reconciler.record.write_again()

    def check(self, lease: LeaseId) -> None:
        """Check this lease as soon as possible. Another provider's lease is ignored."""
        self._queue_check(lease, 0.0)

    def recall(self, statuses: Iterable[LeaseStatus]) -> None:
        """Take over the last statuses from before a restart, before any check: a state that goes on keeps its time, and
        an application that has run once is not called starting.
        """
        self._reconciler.memories.before = {status.lease: status for status in statuses}

    def check_all(self) -> None:
        """Check every lease as soon as possible: something that concerns all of them has changed."""
        self._all.set()

    async def run(self) -> None:
        """Run until cancelled. Subscribes before it searches for leases, so that no event is lost in between."""
        bus = self._parts.bus
        async with (
            bus.subscribe(CHAIN_BLOCK, LEASE_CHANGED) as events,
            bus.subscribe(MANIFEST_ACCEPTED) as manifests,
            asyncio.TaskGroup() as group,
        ):
            self._watcher.pause()
            await self._may_begin()
            await self._reconciler.record.restore()
            group.create_task(self._resync())
            group.create_task(self._take_manifests(manifests))
            config = self._parts.config
            for kind in watched(gateway_api=config.gateway_api, addresses=bool(config.ip_ranges or config.ip_pools)):
                group.create_task(self._watcher.follow(kind))
            group.create_task(self._reconciler.quarantine.run(self.check))
            for _ in range(self._parts.config.concurrency):
                group.create_task(self._work())
            async for event in events:
                self._handle(event)

    async def _take_manifests(self, manifests: AsyncIterable[object]) -> None:
        async for event in manifests:
            if isinstance(event, LeaseId):
                self._reconciler.manifest_sent(event)
            self._handle(event)

    def _handle(self, event: object) -> None:
        match event:
            case LeaseId():
                self._reconciler.fresh(event)
                self.check(event)
            case Block():
                if event.missed_from:
                    self._all.set()
                self._reconciler.judge.saw(event.height)
                self._handle_events(event)
                for lease in self._reconciler.unproven():
                    self._queue_check(lease, 0.0)
            case Overflow():
                self._all.set()

    def _handle_events(self, block: Block) -> None:
        """Check each lease of this provider that a block closes, or whose notice begins in it. An event proves nothing:
        the node that lies about leases can fake it too.
        """
        for event in block.events:
            lease = lease_id(event) if event.type in (LEASE_CLOSED, LEASE_RECLAIM_STARTED) else None
            if lease is None or lease.provider != self._parts.config.provider:
                continue
            self._reconciler.fresh(lease)
            self.check(lease)

    def _drift_of(self, lease: LeaseId) -> Drift | None:
        memory = self._reconciler.memories.get(lease)
        return memory.drift if memory is not None else None

    def _cluster_changed(self, lease: LeaseId, after: float) -> None:
        """An object of the lease changed. A lease that waits for another try keeps waiting: the change may come from
        its own failed tries.
        """
        status = self.statuses.get(lease)
        if status is None or not status.attempts:
            self._queue_check(lease, after)

    def _queue_check(self, lease: LeaseId, after: float, *, changed: bool = True) -> None:
        if lease.provider == self._parts.config.provider:
            if changed:
                self._changed(lease)
            self._watcher.know(lease)
            self._queue.add(lease, after=after)

    async def _work(self) -> None:
        while True:
            lease = await self._queue.take()
            if self._changed_since is not None:
                self._changed(lease)
            try:
                await self._may_begin()
                outcome = await self._reconciler.reconcile(lease)
            finally:
                self._queue.done(lease)
            if outcome.phase is Phase.CLOSED:
                self._watcher.forget(lease)
                self._queue.drop(lease)
            elif outcome.again_in is not None:
                self._queue.add(lease, after=outcome.again_in)

    async def _resync(self) -> None:
        while True:
            complete = await self._check_all()
            await self._remove_unused_pools()
            await self._rest(self._parts.config.resync_s if complete else _INCOMPLETE_S)

    async def _check_all(self) -> bool:
        """Queue a check of every lease that can be found. Returns whether every source could be read."""
        await self._list_cluster()
        found = await find_leases(self._chain, self._parts.cluster, self._parts.engine, config=self._parts.config)
        for lease in sorted(found.leases):
            self._queue_check(lease, 0.0, changed=False)
        self._unknown_stacks = found.unknown_stacks
        self._reconciler.brake.knows(len(found.leases) - found.only_volumes)
        if not found.problems:
            self._reconciler.memories.only(found.leases)
            await self._reconciler.record.write()
        if not (found.problems or found.unknown_stacks):
            self._repeats.ended("leases")
        elif self._repeats.is_news("leases", f"{found.problems} {found.unknown_stacks}"):
            _log.warning("lifecycle.leases_incomplete", problems=found.problems, unknown_stacks=found.unknown_stacks)
        return not found.problems

    async def _remove_unused_pools(self) -> None:
        """The check that gives an address back removes its pool, but only once: after a conflict, an error or a crash
        the claim that led to the pool is gone, and nothing else names the pool.
        """
        try:
            removed = await self._parts.claims.remove_unused_pools()
        except ClusterError as error:
            _log.warning("lifecycle.pools_unreadable", problem=str(error))
            return
        if removed:
            _log.info("lifecycle.unused_pools_removed", removed=removed)

    async def _list_cluster(self) -> None:
        """Read the lists of all objects. The part of a lease that changed while they were read is not used."""
        self._changed_since = set()
        lists = await list_cluster(self._parts.cluster, self._parts.config)
        for lease in self._changed_since | self._queue.busy:
            lists.drop(lease)
        self._changed_since, self._reconciler.lists = None, lists
        self._watcher.resume(lists.versions())

    def _changed(self, lease: LeaseId) -> None:
        if self._changed_since is not None:
            self._changed_since.add(lease)
        if self._reconciler.lists is not None:
            self._reconciler.lists.drop(lease)

    async def _rest(self, seconds: float) -> None:
        """Wait until the time is over or something asks for a check of all leases."""
        await wait_for_event(self._all, clock=self._clock, seconds=seconds)
        self._all.clear()
