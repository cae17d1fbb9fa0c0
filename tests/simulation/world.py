"""The world around the daemon, and what a run remembers to judge it by."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sqlalchemy import select

from lease.groups import GroupSpec
from lease.ids import LeaseId, OrderId, namespace_name
from lease.manifest import Group
from provider.bus import MANIFEST_ACCEPTED
from provider.chain.model import ProviderRecord
from provider.errors import ClusterError
from provider.lifecycle.records import ManifestRecord, write_manifest
from provider.store.tables import decisions
from tests.fakes.cluster import Key
from tests.provider.lifecycle.world import PROVIDER
from tests.provider.market.world import ATTRIBUTES
from tests.simulation.chain import SimulatedChain
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.daemon import CHAIN_ID, Daemon, Parts5
from tests.simulation.engine import SimulatedEngine
from tests.simulation.faults import Faults
from tests.simulation.store import MemoryDatabase
from tests.simulation.virtual import VirtualClock

__all__ = ["BAD", "NODES", "NODE_CPU", "Defect", "World"]

NODES, NODE_CPU = 2, 2000
BAD = "bad:1"


@dataclass(frozen=True)
class Defect:
    """A known defect, planted by handing the daemon another implementation. All empty: none."""

    name: str = ""


@dataclass
class Memory:
    """What tenants did and what was seen: `ran` are leases whose workload was there once."""

    accepted: dict[LeaseId, list[Group]] = field(default_factory=dict)
    ran: set[LeaseId] = field(default_factory=set)
    looked: dict[LeaseId, float] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


class World:
    """`daemon` is the present life; `specs` the group of every order."""

    def __init__(self, seed: int, defect: Defect = Defect()) -> None:
        self.faults, self.clock, self.memory = Faults(seed), VirtualClock(), Memory()
        self.seed, self.defect = seed, defect
        self.cluster = SimulatedCluster(self.faults, nodes=NODES, cpu_milli=NODE_CPU)
        self.cluster.removed = self._removed
        self.chain = SimulatedChain(self.faults, chain_id=CHAIN_ID, seen=self._looked)
        self.chain.providers[PROVIDER] = ProviderRecord(PROVIDER, "https://p.example.com:8443", ATTRIBUTES)
        self.chain.on_bid = self._bid
        self.engine = SimulatedEngine(self.cluster, self.faults)
        self.engine.refused[BAD] = "is invalid"
        self.database = MemoryDatabase(self.faults)
        self.daemon = self._daemon()
        self.lives = 1

    def _daemon(self) -> Daemon:
        from tests.simulation.defects import planted

        chain, engine, cluster, options = planted(self.defect.name, self)
        parts = Parts5(chain, cluster, engine, self.database, self.clock, **options)  # type: ignore[arg-type]
        return Daemon(parts, seed=self.seed)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def alive(self) -> list[LeaseId]:
        states = self.chain.lease_states
        return [lease for lease, found in states.items() if lease.provider == PROVIDER and not found.state.ended]

    def ended(self) -> list[LeaseId]:
        states = self.chain.lease_states
        return [lease for lease, found in states.items() if lease.provider == PROVIDER and found.state.ended]

    def spec(self, order: OrderId) -> GroupSpec:
        return self.chain.orders[order].spec

    def cpu(self, order: OrderId) -> int:
        return sum(unit.resources.cpu_milli * unit.count for unit in self.spec(order).units)

    async def send(self, lease: LeaseId, group: Group) -> bool:
        """What the gateway does with a good manifest: store, then tell. False: the tenant got an error."""
        try:
            await write_manifest(self.cluster, ManifestRecord(lease, group, {}), namespace="lease")
        except ClusterError:
            return False
        self.memory.accepted.setdefault(lease, []).append(group)
        self.daemon.bus.publish(MANIFEST_ACCEPTED, lease)
        return True

    async def restart(self, *, lose_disk: bool = False) -> None:
        self.faults.dead = True
        await self.daemon.kill()
        self.faults.dead = False
        if lose_disk:
            self.engine.lose_state()
            self.database.empty()
        self.lives += 1
        self.daemon = self._daemon()
        self.daemon.start()

    def workload(self, lease: LeaseId) -> Key:
        return "apps/v1", "Deployment", namespace_name(lease), "web"

    def image(self, lease: LeaseId) -> str:
        obj = self.cluster.objects.get(self.workload(lease))
        return str(obj["spec"]["template"]["spec"]["containers"][0]["image"]) if obj else ""

    def _looked(self, lease: LeaseId) -> None:
        self.memory.looked[lease] = self.now

    def _removed(self, actor: str, key: Key) -> None:
        """Rule 1, at the very moment."""
        for lease in self.alive() if actor == "us" else ():
            name = namespace_name(lease)
            kept = (("v1", "Namespace", "", name), self.workload(lease))
            if key in kept or (key[1] == "Manifest" and key[3] == name):
                self.memory.violations.append(f"rule 1: {key[1]} of lease {lease.dseq} was removed while it is active")
        if actor != "us":
            self.memory.ran = {lease for lease in self.memory.ran if self.workload(lease) != key}

    def _bid(self, order: OrderId) -> None:
        """Rule 7, at the very moment."""
        row = select(decisions.c.id).where(decisions.c.dseq == str(order.dseq), decisions.c.oseq == order.oseq)
        if not self.database.rows(row):
            self.memory.violations.append(f"rule 7: a bid for order {order.dseq} without a decision record")
        if order.bid_by(PROVIDER) in self.chain.bid_states:
            self.memory.violations.append(f"rule 7: a second bid for order {order.dseq}")
