"""The world around the daemon, and what a run remembers to judge it by."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import select

from lease.groups import GroupSpec
from lease.ids import LeaseId, OrderId
from lease.ids import namespace_name as _namespace_name
from lease.manifest import Group
from provider.bus import MANIFEST_ACCEPTED
from provider.errors import ClusterError
from provider.lifecycle.state import Phase
from provider.protocols.chain import ProviderRecord
from provider.records.manifests import ManifestRecord, write_manifest
from provider.store.tables import decisions
from provider.volumes.marks import KeptVolume
from tests.laws.simulation.chain import SimulatedChain
from tests.laws.simulation.cluster import SimulatedCluster
from tests.laws.simulation.daemon import CHAIN_ID, Around, Daemon
from tests.laws.simulation.defects import planted
from tests.laws.simulation.engine import SimulatedEngine
from tests.laws.simulation.fees import Fees
from tests.laws.simulation.liars import DASHBOARD, stolen_from
from tests.laws.simulation.migrations import unordered_move
from tests.laws.simulation.volumes import KEPT_S, was_deleted
from tests.provider.lifecycle.world import PROVIDER
from tests.provider.market.world import ATTRIBUTES
from tests.world.cluster import Key
from tests.world.database import MemoryDatabase
from tests.world.faults import Faults
from tests.world.virtual import VirtualClock

__all__ = ["BAD", "NODES", "NODE_CPU", "Kept", "World", "namespace_of"]

NODES, NODE_CPU = 2, 3000
BAD = "bad:1"
_RECORDED = 4
"""In one seed of these every run of the engine is recorded."""
_VERSION = "akash.network/manifest.resource.version"


@cache
def namespace_of(lease: LeaseId) -> str:
    """`lease.ids.namespace_name`, computed once."""
    return _namespace_name(lease)


@dataclass(frozen=True)
class Kept:
    """A pod that ran its tenant's newest version when we were killed; `sent` and `touched` count what may change it."""

    uid: str
    sent: int
    touched: int


@dataclass
class Memory:
    """What tenants did and what was seen: `running` are leases whose workload is there, `ran` those that ever did."""

    accepted: dict[LeaseId, list[Group]] = field(default_factory=dict)
    versions: dict[LeaseId, dict[str, str]] = field(default_factory=dict)
    """Image of each accepted version, by the resourceVersion of its Manifest."""
    running: set[LeaseId] = field(default_factory=set)
    ran: set[LeaseId] = field(default_factory=set)
    kept: dict[LeaseId, Kept] = field(default_factory=dict)
    touched: Counter[str] = field(default_factory=Counter)
    """What humans did, by namespace."""
    razed: set[LeaseId] = field(default_factory=set)
    """Their namespace was deleted by a human."""
    bound: dict[str, float] = field(default_factory=dict)
    """Since when a volume has a claim, virtual seconds."""
    restored: dict[LeaseId, KeptVolume] = field(default_factory=dict)
    swapped: set[LeaseId] = field(default_factory=set)
    restores: int = 0
    looked: dict[LeaseId, float] = field(default_factory=dict)
    braked: int = 0
    lies: int = 0
    migrations: int = 0
    unclaimed: set[str] = field(default_factory=set)
    """Hostnames whose claim was deleted by a human."""
    violations: list[str] = field(default_factory=list)


class World:
    """`daemon` is the present life; `defect` names what is planted in it, empty for nothing."""

    def __init__(self, seed: int, defect: str = "") -> None:
        self.faults, self.clock, self.memory = Faults(seed), VirtualClock(), Memory()
        self.seed, self.defect = seed, defect
        self.cluster = SimulatedCluster(self.faults, nodes=NODES, cpu_milli=NODE_CPU)
        self.cluster.removed = self._removed
        self.cluster.bound = self._bound
        self.cluster.written = self._written
        self.cluster.put(DASHBOARD)
        self.database = MemoryDatabase(refuses=self.faults.refuses_writes)
        self.fees = Fees(self.database, self.clock, above=self.memory.violations.append)
        self.chain = SimulatedChain(self.faults, self.fees, chain_id=CHAIN_ID, seen=self._looked)
        self.chain.providers[PROVIDER] = ProviderRecord(PROVIDER, "https://p.example.com:8443", ATTRIBUTES)
        self.chain.on_bid = self._bid
        self.engine = SimulatedEngine(self.cluster, self.faults)
        self.engine.refused[BAD] = "is invalid: no"
        self.lives = 1
        self.daemon = self._daemon()
        self._others: set[asyncio.Task[None]] = set()

    def _daemon(self) -> Daemon:
        around = Around(
            self.chain, self.cluster, self.engine, self.database, self.clock,
            life=self.lives, recorded=self.seed % _RECORDED == 1,
            kept_s=KEPT_S if self.keeps else 0.0, overlap=self.overlap,
        )  # fmt: skip
        return Daemon(planted(self.defect, around), seed=self.seed)

    @property
    def keeps(self) -> bool:
        """Whether volumes outlive their lease, in every second seed."""
        return self.seed % 2 == 1

    @property
    def overlap(self) -> bool:
        """Whether the edge takes two routes of one hostname, in every third seed."""
        return self.seed % 3 == 0

    @staticmethod
    def namespace(lease: LeaseId) -> str:
        return namespace_of(lease)

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """What goes on beside the steps, until the run is over. Its errors are raised then."""
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)

    async def end(self) -> None:
        for task in self._others:
            task.cancel()
        results = await asyncio.gather(*self._others, return_exceptions=True)
        await self.daemon.kill()
        await self.database.close()
        for result in results:
            if isinstance(result, Exception):
                raise result

    def leases(self, *, ended: bool) -> list[LeaseId]:
        states = self.chain.lease_states
        return [lease for lease, found in states.items() if lease.provider == PROVIDER and found.state.ended == ended]

    def alive(self) -> list[LeaseId]:
        return self.leases(ended=False)

    def ended(self) -> list[LeaseId]:
        return self.leases(ended=True)

    def spec(self, order: OrderId) -> GroupSpec:
        return self.chain.orders[order].spec

    def cpu(self, order: OrderId) -> int:
        return sum(unit.resources.cpu_milli * unit.count for unit in self.spec(order).units)

    def persistent(self, order: OrderId) -> bool:
        return any(volume.persistent for unit in self.spec(order).units for volume in unit.resources.storage or ())

    async def send(self, lease: LeaseId, group: Group) -> bool:
        """What the gateway does with a good manifest: store, then tell. False: the tenant got an error."""
        reservation = self.daemon.ledger.reservation(lease.order)
        if reservation is None:
            return False
        record = ManifestRecord(lease, group, reservation.placements)
        try:
            stored = await write_manifest(self.cluster, record, namespace="lease")
        except ClusterError:
            return False
        image = group.services[0].image if group.services else ""
        self.memory.accepted.setdefault(lease, []).append(group)
        self.memory.versions.setdefault(lease, {})[stored.resource_version] = image
        self.daemon.bus.publish(MANIFEST_ACCEPTED, lease)
        return True

    async def restart(self, *, lose_disk: bool = False) -> None:
        self.faults.dead = True
        await self.daemon.kill()
        self.faults.dead = False
        self._remember_pods()
        if lose_disk:
            self.engine.lose_state()
            self.database.empty()
            self.fees.forget()
        self.lives += 1
        self.daemon = self._daemon()
        self.daemon.start()

    def _remember_pods(self) -> None:
        for lease in filter(self._rolled_out, self.alive()):
            versions, status = self.memory.versions.get(lease, {}), self.daemon.leases.statuses.get(lease)
            newest = next(reversed(versions.items()), None)
            if status is not None and status.phase is Phase.RUNNING and self.version(lease) == newest:
                sent, touched = len(self.memory.accepted[lease]), self.memory.touched[namespace_of(lease)]
                self.memory.kept[lease] = Kept(self.pod(lease), sent, touched)

    def _rolled_out(self, lease: LeaseId) -> bool:
        return self.cluster.current(("v1", "Pod", namespace_of(lease), "web-0"))

    def pod(self, lease: LeaseId) -> str:
        """Its uid, empty when there is none."""
        found = self.cluster.objects.get(("v1", "Pod", namespace_of(lease), "web-0"))
        return str(found["metadata"]["uid"]) if found else ""

    def workload(self, lease: LeaseId) -> Key:
        kind = "StatefulSet" if self.persistent(lease.order) else "Deployment"
        return "apps/v1", kind, namespace_of(lease), "web"

    def version(self, lease: LeaseId) -> tuple[str, str]:
        """resourceVersion of the Manifest and image that the workload says, both empty without one."""
        obj = self.cluster.objects.get(self.workload(lease))
        if obj is None:
            return "", ""
        template = obj["spec"]["template"]
        return str(template["metadata"]["labels"][_VERSION]), str(template["spec"]["containers"][0]["image"])

    def image(self, lease: LeaseId) -> str:
        return self.version(lease)[1]

    def touch(self, key: Key) -> None:
        """A human put a hand on this object."""
        self.memory.touched[key[2] or key[3]] += 1
        if key[1] == "ProviderHost":
            self.memory.unclaimed.add(key[3])
        if key[1] == "Namespace":
            self.memory.razed |= {lease for lease in (*self.alive(), *self.ended()) if namespace_of(lease) == key[3]}

    def _looked(self, lease: LeaseId) -> None:
        self.memory.looked[lease] = self.now

    def _removed(self, actor: str, key: Key) -> None:
        """Rules 1 and 2, at the very moment."""
        if key[1] == "PersistentVolume":
            self.memory.violations += was_deleted(self, key[3])
        for lease in self.alive() if actor == "us" else ():
            name = namespace_of(lease)
            kept = key in (("v1", "Namespace", "", name), self.workload(lease)) or (key[1], key[3]) == (
                "Manifest",
                name,
            )
            inside = key[1] in ("PersistentVolumeClaim", "Pod") and key[2] == name
            if kept or (inside and lease not in self.memory.swapped):
                self.memory.violations.append(f"rule 1: {key[1]} of lease {lease.dseq} was removed while it is active")
        if actor != "us":
            self.memory.running = {lease for lease in self.memory.running if self.workload(lease) != key}

    def _written(self, before: Mapping[str, Any] | None, obj: Mapping[str, Any]) -> None:
        if problem := stolen_from(before, obj) or unordered_move(before, obj):
            self.memory.violations.append(problem)

    def _bound(self, volume: str) -> None:
        self.memory.bound.setdefault(volume, self.now)

    def _bid(self, order: OrderId) -> None:
        """Rule 7, at the very moment."""
        row = select(decisions.c.verdict).where(decisions.c.dseq == str(order.dseq), decisions.c.oseq == order.oseq)
        if "bid" not in {found.verdict for found in self.database.rows(row)}:
            self.memory.violations.append(f"rule 7: a bid for order {order.dseq} without a decision record")
        if order.bid_by(PROVIDER) in self.chain.bid_states:
            self.memory.violations.append(f"rule 7: a second bid for order {order.dseq}")
