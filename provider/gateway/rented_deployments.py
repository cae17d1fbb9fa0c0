"""What the chain says of deployments with a lease here, read when the lease is won, so that a manifest waits for no
query.

An answer counts until a block has an event of its deployment, and for five minutes at most (decision 36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from lease.ids import DeploymentId
from provider.bus import CHAIN_BLOCK, Overflow
from provider.chain.events import DEPLOYMENT_UPDATED, LEASE_CREATED, deployment_id, lease_id
from provider.errors import ChainError
from provider.protocols import Bus, Chain, Clock
from provider.protocols.chain import Block, Deployment, Event, Lease, LeaseState

__all__ = ["LIVE", "Rented", "RentedDeployments"]

LIVE = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
_KEPT_S = 300.0
_SILENT_S = 60.0
"""After this time without a block nothing kept counts: an event may have been missed."""
_AT_ONCE = 4
_MOST = 10_000
_log = structlog.get_logger(__name__)
_Spawn = Callable[[Coroutine[Any, Any, None]], object]


@dataclass(frozen=True, slots=True)
class Rented:
    """A deployment and its live leases at this provider, as one node reported them at `at` (monotonic seconds)."""

    deployment: Deployment
    leases: Sequence[Lease]
    at: float


class RentedDeployments:
    """`get` answers from memory; `run` must run as a task."""

    def __init__(self, chain: Chain, *, provider: str, bus: Bus, clock: Clock) -> None:
        self._chain = chain
        self._provider = provider
        self._bus = bus
        self._clock = clock
        self._kept: dict[DeploymentId, Rented] = {}
        self._reading: dict[DeploymentId, object] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._block_at = -_SILENT_S

    def get(self, id_: DeploymentId) -> Rented | None:
        """What is known of the deployment; None when nothing is, or it may have changed."""
        found, now = self._kept.get(id_), self._clock.monotonic()
        if found is None or now - found.at > _KEPT_S or now - self._block_at > _SILENT_S:
            return None
        return found

    async def run(self) -> None:
        """Follow the blocks; for ever."""
        async with self._bus.subscribe(CHAIN_BLOCK) as blocks, asyncio.TaskGroup() as group:
            async for value in blocks:
                self._handle(value, group.create_task)

    def _handle(self, value: object, spawn: _Spawn) -> None:
        match value:
            case Block():
                self._block_at = self._clock.monotonic()
                if value.missed_from:
                    self._forget_all()
                for event in value.events:
                    self._on_event(event, spawn)
            case Overflow():
                self._forget_all()

    def _forget_all(self) -> None:
        self._kept.clear()
        self._reading.clear()

    def _on_event(self, event: Event, spawn: _Spawn) -> None:
        """Drop what is known of the event's deployment. A manifest is expected after a new lease and an update."""
        if (id_ := deployment_id(event)) is None:
            return
        known = self._kept.pop(id_, None) is not None or id_ in self._reading
        self._reading.pop(id_, None)
        lease = lease_id(event) if event.type == LEASE_CREATED else None
        won = lease is not None and lease.provider == self._provider
        if won or (known and event.type == DEPLOYMENT_UPDATED):
            mark = self._reading[id_] = object()
            spawn(self._read(id_, mark))

    async def _read(self, id_: DeploymentId, mark: object) -> None:
        """Ask the chain. The answer is dropped when an event of the deployment came meanwhile."""
        try:
            async with self._slots:
                at = self._clock.monotonic()
                leases = await self._chain.leases(provider=self._provider, states=LIVE, deployment=id_)
                deployment = await self._chain.deployment(id_)
        except ChainError as error:
            _log.debug("gateway.deployment_not_read", deployment=str(id_), problem=str(error))
            leases, deployment, at = (), None, 0.0
        if self._reading.get(id_) is mark:
            del self._reading[id_]
            if leases and deployment is not None:
                self._keep(Rented(deployment, tuple(leases), at))

    def _keep(self, rented: Rented) -> None:
        while len(self._kept) >= _MOST:
            del self._kept[next(iter(self._kept))]
        self._kept[rented.deployment.id] = rented
