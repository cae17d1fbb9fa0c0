"""One life of the provider's process: the parts of `provider/daemon/app.py` over the fakes, until it is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from random import Random

from lease.ids import OrderId
from lease.spec import ClusterFacts
from provider.bus import MemoryBus
from provider.daemon.pump import pump_blocks
from provider.inventory.cards import cards_of
from provider.inventory.ledger import Ledger
from provider.inventory.watcher import InventoryWatcher
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.parts import Parts
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.spec_maker import SpecMaker
from provider.market.book import Market
from provider.market.loop import run_market
from provider.protocols import Chain, Cluster, StackEngine
from provider.runs.history import History, RecordedEngine
from provider.settings import Settings
from provider.store import Database
from provider.store.sealing import KeyRing
from provider.units import Coin, parse_address_range
from tests.laws.simulation.liars import NAMES, STATIC
from tests.provider.lifecycle.world import PROVIDER
from tests.provider.market.world import RULES
from tests.world.virtual import VirtualClock

__all__ = ["CHAIN_ID", "SPECS", "Around", "Daemon"]

CHAIN_ID = "simnet-1"
_RANGES = (parse_address_range("203.0.113.1-203.0.113.4"),)
_FACTS = ClusterFacts(api_server_endpoints=("10.0.0.1:6443",))
_RING = KeyRing.of(["c2ltdWxhdGlvbi1zaW11bGF0aW9uLXNpbXVsYXRpby0="])


@cache
def _settings() -> Settings:
    """Read once: reading them takes longer than a life."""
    return Settings(ip_ranges=_RANGES, storage_classes={"beta2": 4 << 30})


SPECS = SpecMaker(_FACTS, STATIC)


@dataclass(frozen=True)
class Around:
    """What a daemon runs over and what survives it; `life` counts from 1, `recorded`: every run of the
    engine is written down, which takes a fifth of the time; `kept_s`: how long volumes outlive their lease; `overlap`:
    the edge takes two routes of one hostname. The rest is
    another implementation only for a planted defect.
    """

    chain: Chain
    cluster: Cluster
    engine: StackEngine
    database: Database
    clock: VirtualClock
    life: int = 1
    recorded: bool = True
    kept_s: float = 0.0
    overlap: bool = False
    make_ledger: Callable[[str], Ledger] = Ledger
    specs: SpecMaker = SPECS
    config: Mapping[str, float] = field(default_factory=dict)


class Daemon:
    """`start()` begins a life, `kill()` ends it at whatever await each of its tasks is."""

    def __init__(self, world: Around, *, seed: int) -> None:
        self.bus, self.ledger, self._world = MemoryBus(), world.make_ledger(PROVIDER), world
        self.inventory = InventoryWatcher(world.cluster, _settings(), bus=self.bus, clock=world.clock)
        self.engine = RecordedEngine(world.engine, History(world.database, _RING, world.clock))
        self.market = self._market(world)
        self.leases = self._leases(world, Random(seed))
        self._task: asyncio.Task[None] | None = None
        self.started_at = 0.0

    def _leases(self, world: Around, random: Random) -> LeaseLoop:
        config = LifecycleConfig(
            provider=PROVIDER, chain_id=CHAIN_ID, ip_ranges=_RANGES, concurrency=4, hostnames=NAMES
        )
        config = replace(config, volume_quarantine_s=world.kept_s, routes_overlap=world.overlap, **world.config)  # type: ignore[arg-type]
        cards = cards_of(self.ledger, lambda: self.inventory.inventory, overcommit=RULES.overcommit)
        note = self.engine.note_spec if world.recorded else None
        specs = self.specs = replace(world.specs, cards=cards, note=note)
        parts = Parts(
            cluster=world.cluster,
            engine=self.engine if world.recorded else world.engine,
            bus=self.bus,
            config=config,
            claims=LeaseClaims(world.cluster, config, clock=world.clock),
            specs=specs,
            release=self.ledger.release,
        )
        if world.recorded:
            parts = replace(parts, note_refusal=self.engine.note_refusal)
        reconciler = Reconciler(parts, chain=world.chain, clock=world.clock, random=random)
        return LeaseLoop(reconciler, parts, chain=world.chain, clock=world.clock)

    def start(self) -> None:
        self.started_at = self._world.clock.monotonic()
        self._task = asyncio.create_task(self._run(), name="daemon")

    async def kill(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def ended(self) -> BaseException | None:
        """Why it ended by itself, which it never may."""
        if self._task is None or not self._task.done():
            return None
        return RuntimeError("cancelled") if self._task.cancelled() else self._task.exception() or RuntimeError("ended")

    def order_known(self, order: OrderId) -> bool:
        return self.ledger.reservation(order) is not None

    async def _run(self) -> None:
        world = self._world
        await self.engine.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.inventory.run())
            await self.inventory.ready()
            group.create_task(run_market(self.market))
            group.create_task(self.leases.run())
            group.create_task(pump_blocks(world.chain, self.bus, database=world.database, clock=world.clock))

    def _market(self, world: Around) -> Market:
        return Market(
            provider=PROVIDER,
            chain=world.chain,
            bus=self.bus,
            clock=world.clock,
            ledger=self.ledger,
            inventory=lambda: self.inventory.inventory,
            database=world.database,
            rules=RULES,
            deposit=Coin("uakt", Decimal(500000)),
            paused=lambda: self.inventory.freshness.problem,
        )
