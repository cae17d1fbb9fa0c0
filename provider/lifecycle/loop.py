"""The lease loop: from what happens to which lease is looked at; one look at a time a lease, many leases at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from lease.ids import LeaseId
from provider.bus.memory import CHAIN_BLOCK, LEASE_CHANGED, MANIFEST_ACCEPTED, Overflow
from provider.chain.events import LEASE_CLOSED, LEASE_RECLAIM_STARTED, lease_id
from provider.errors import ClusterError
from provider.lifecycle.drift import Drift
from provider.lifecycle.parts import Parts
from provider.lifecycle.queue import LeaseQueue
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.sources import find_leases
from provider.lifecycle.state import LeaseStatus, Phase
from provider.lifecycle.survey import take_survey
from provider.lifecycle.volume_restore import restore_volumes
from provider.lifecycle.watches import Watcher, watched
from provider.protocols import Chain, Clock
from provider.protocols.chain import Block
from provider.volumes.restore import Wish
from provider.volumes.words import volume_document
from provider.waits import wait_for_event

__all__ = ["LeaseLoop"]

_INCOMPLETE_S = 10.0
_log = structlog.get_logger(__name__)


class LeaseLoop:
    """`await loop.run()` until cancelled. Cancelling removes nothing: what runs keeps running.

    Everything is looked at when it starts, every `resync_s`, and when the bus dropped events or blocks were missed; a
    source that cannot be read is asked again after ten seconds.
    """

    def __init__(self, reconciler: Reconciler, parts: Parts, *, chain: Chain, clock: Clock) -> None:
        self._reconciler = reconciler
        self._parts = parts
        self._chain = chain
        self._clock = clock
        self._queue = LeaseQueue(clock)
        config = parts.config
        self._watcher = Watcher(
            parts.cluster,
            records=config.records,
            look=self._noticed,
            drift_of=self._drift_of,
            metallb=config.metallb_namespace,
        )
        self._all = asyncio.Event()
        self._unknown_stacks: tuple[str, ...] = ()
        self._since: set[LeaseId] | None = None

    @property
    def statuses(self) -> Mapping[LeaseId, LeaseStatus]:
        return self._reconciler.statuses

    @property
    def unknown_stacks(self) -> tuple[str, ...]:
        """Stacks in the backend that belong to no lease anybody knows; an operator decides about them."""
        return self._unknown_stacks

    @property
    def braked(self) -> frozenset[LeaseId]:
        """Leases that are proven closed, and kept because too many were to go at once without a word of the chain."""
        return self._reconciler.memories.held()

    def release_brake(self) -> tuple[LeaseId, ...]:
        """An operator's word: what the brake holds is removed. Returns these leases."""
        released = self._reconciler.release_brake()
        for lease in released:
            self._look(lease, 0.0)
        return released

    @property
    def suspects(self) -> Mapping[LeaseId, str]:
        """Leases that look closed without proof; only an operator's word removes them."""
        return self._reconciler.memories.suspects()

    def close(self, lease: LeaseId) -> str:
        """An operator's word: this suspect has ended. Why not, empty when it goes now."""
        if not self._reconciler.call_closed(lease):
            return f"{lease} does not look closed; the chain's own word ends it"
        self._look(lease, 0.0)
        return ""

    async def recreate(self, lease: LeaseId) -> str:
        """An operator's word: what other code made is made anew, pods too. Why not, empty when it is done now."""
        if not await self._reconciler.recreate(lease):
            return f"nothing was applied for {lease} yet"
        self.look(lease)
        return ""

    async def retry(self, lease: LeaseId) -> str:
        """An operator's word: try the refused version again."""
        await self._reconciler.retry_refused(lease)
        self.look(lease)
        return ""

    @property
    def quarantined(self) -> list[dict[str, Any]]:
        """Volumes that outlived their lease, as `volumes.words.volume_document` tells of each."""
        quarantine = self._reconciler.quarantine
        return [volume_document(volume, quarantine.problem(volume)) for volume in quarantine.volumes]

    async def restore(self, wish: Wish) -> str:
        """An operator's word: see `restoring.restore_volumes`. What was done, in a line; raises `NotRestored`."""
        into, done = await restore_volumes(
            self._parts, wish, statuses=self.statuses, quarantine=self._reconciler.quarantine, clock=self._clock
        )
        for lease in {wish.lease, into}:
            self.look(lease)
        return done

    async def remember(self) -> bool:
        """Whether operators' words and the brake would outlive a restart now."""
        return await self._reconciler.record.write()

    def look(self, lease: LeaseId) -> None:
        """Look at this lease as soon as possible. Another provider's lease is none of our business."""
        if lease.provider == self._parts.config.provider:
            self._look(lease, 0.0)

    async def run(self) -> None:
        """Subscribes before it looks for leases, so that nothing falls between."""
        topics = (CHAIN_BLOCK, LEASE_CHANGED, MANIFEST_ACCEPTED)
        async with self._parts.bus.subscribe(*topics) as events, asyncio.TaskGroup() as group:
            self._watcher.hold()
            await self._reconciler.record.restore()
            group.create_task(self._resync())
            config = self._parts.config
            for kind in watched(gateway_api=config.gateway_api, addresses=bool(config.ip_ranges)):
                group.create_task(self._watcher.follow(kind))
            group.create_task(self._reconciler.quarantine.run(self.look))
            for _ in range(self._parts.config.concurrency):
                group.create_task(self._work())
            async for event in events:
                self._heed(event)

    def _heed(self, event: object) -> None:
        match event:
            case LeaseId():
                self._reconciler.fresh(event)
                self.look(event)
            case Block():
                if event.missed_from:
                    self._all.set()
                self._reconciler.judge.saw(event.height)
                self._hear(event)
                for lease in self._reconciler.unproven():
                    self._look(lease, 0.0)
            case Overflow():
                self._all.set()

    def _hear(self, block: Block) -> None:
        """Check each lease of ours that an event says was closed or begins its notice. The brake lets every closed
        one go, however many they are.
        """
        for event in block.events:
            lease = lease_id(event) if event.type in (LEASE_CLOSED, LEASE_RECLAIM_STARTED) else None
            if lease is None or lease.provider != self._parts.config.provider:
                continue
            if event.type == LEASE_CLOSED:
                self._reconciler.announce_end(lease)
            self._reconciler.fresh(lease)
            self.look(lease)

    def _drift_of(self, lease: LeaseId) -> Drift | None:
        memory = self._reconciler.memories.get(lease)
        return memory.drift if memory is not None else None

    def _noticed(self, lease: LeaseId, after: float) -> None:
        """Something moved in the cluster. A lease that waits to be tried again keeps waiting: what moved may be the
        traces of its own failed tries.
        """
        status = self.statuses.get(lease)
        if status is None or not status.attempts:
            self._look(lease, after)

    def _look(self, lease: LeaseId, after: float, *, happened: bool = True) -> None:
        if lease.provider == self._parts.config.provider:
            if happened:
                self._happened(lease)
            self._watcher.know(lease)
            self._queue.add(lease, after=after)

    async def _work(self) -> None:
        while True:
            lease = await self._queue.take()
            if self._since is not None:
                self._happened(lease)
            try:
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
            complete = await self._look_at_all()
            await self._remove_unused_pools()
            await self._rest(self._parts.config.resync_s if complete else _INCOMPLETE_S)

    async def _look_at_all(self) -> bool:
        """Whether every source could be read."""
        await self._survey()
        found = await find_leases(self._chain, self._parts.cluster, self._parts.engine, config=self._parts.config)
        for lease in sorted(found.leases):
            self._look(lease, 0.0, happened=False)
        self._unknown_stacks = found.unknown_stacks
        self._reconciler.brake.knows(len(found.leases) - found.only_volumes)
        if not found.problems:
            self._reconciler.memories.only(found.leases)
            await self._reconciler.record.write()
        if found.problems or found.unknown_stacks:
            _log.warning("lifecycle.leases_incomplete", problems=found.problems, unknown_stacks=found.unknown_stacks)
        return not found.problems

    async def _remove_unused_pools(self) -> None:
        """Whoever gives an address back removes its pool, and does not come again when that met a conflict, an error
        or a crash: the claim that led to the pool is gone.
        """
        try:
            removed = await self._parts.claims.remove_unused_pools()
        except ClusterError as error:
            _log.warning("lifecycle.pools_unreadable", problem=str(error))
            return
        if removed:
            _log.info("lifecycle.unused_pools_removed", removed=removed)

    async def _survey(self) -> None:
        """What happened to a lease while the lists were read makes its part of them old."""
        self._since = set()
        survey = await take_survey(self._parts.cluster, self._parts.config)
        for lease in self._since | self._queue.busy:
            survey.drop(lease)
        self._since, self._reconciler.survey = None, survey
        self._watcher.surveyed(survey.knows)

    def _happened(self, lease: LeaseId) -> None:
        if self._since is not None:
            self._since.add(lease)
        if self._reconciler.survey is not None:
            self._reconciler.survey.drop(lease)

    async def _rest(self, seconds: float) -> None:
        """Until the time is over or something asks for everything."""
        await wait_for_event(self._all, clock=self._clock, seconds=seconds)
        self._all.clear()
