"""A provider's world in memory for the lease loop: a chain that can lie, a cluster, an engine, a reconciler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import Any

from lease.build import SpecSettings
from lease.ids import LeaseId, OrderId, namespace_name
from lease.manifest import Expose, Group, Params, Service, StorageMount
from lease.resources import Attribute, Price, Resources, Volume
from lease.spec import ClusterFacts, LeaseSpec
from provider.bus import MemoryBus
from provider.claims.edge import AskEdge
from provider.claims.ownership import OwnershipProofs
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.parts import Parts
from provider.lifecycle.reconcile import Reconciler
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.lifecycle.state import Outcome, Phase
from provider.protocols.chain import Lease, LeaseAnswer, LeaseState
from provider.protocols.clock import Clock
from provider.protocols.cluster import (
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    MANIFEST,
    NAMESPACE,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SECRET,
)
from provider.records.applied import Applied, applied_name, read_applied
from provider.records.manifests import ManifestRecord, manifest_object, write_manifest
from provider.units import parse_address_range
from tests.world.chain import FakeChain
from tests.world.cluster import FakeCluster
from tests.world.engine import FakeEngine
from tests.world.specs import ScriptedMaker
from tests.world.virtual import VirtualClock

PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
OTHER = "akash1vtad8680vhdfqvxx0f2yaxa6agdylelm443h3v"
NEVER_S = 1e9
"""As `resync_s`: events and watches alone lead to a check."""


def a_lease(dseq: int = 1, *, owner: str = OWNER, oseq: int = 1) -> LeaseId:
    return LeaseId(owner, dseq, 1, oseq, PROVIDER)


def a_group(
    image: str = "nginx:1",
    *,
    hosts: Sequence[str] = (),
    ip: str = "",
    ip_port: int = 80,
    volume_bytes: int = 0,
    name: str = "web",
    volume_class: str = "beta2",
) -> Group:
    """One service; with `volume_bytes` it has a volume that outlives its pods."""
    storage = [Volume("default", 512 << 20)]
    if volume_bytes:
        attributes = (Attribute("class", volume_class), Attribute("persistent", "true"))
        storage.append(Volume("data", volume_bytes, attributes))
    service = Service(
        name=name,
        image=image,
        resources=Resources(id=1, cpu_milli=100, memory_bytes=128 << 20, storage=tuple(storage)),
        count=1,
        expose=(
            Expose(port=80, global_=True, hosts=tuple(hosts) or None),
            *([Expose(port=8080, external_port=ip_port, global_=True, ip=ip)] if ip else []),
        ),
        params=Params(storage=(StorageMount("data", "/data", False),)) if volume_bytes else None,
    )
    return Group("west", (service,))


def on_chain(lease: LeaseId, state: LeaseState) -> Lease:
    return Lease(lease, state, Price("uakt", Decimal(1)), created_at=1)


def lease_chain(make: type[FakeChain] = FakeChain) -> FakeChain:
    """A chain for the lease loop: each answer is of one height more, and what is sent changes nothing."""
    chain = make(chain_id="akashnet-2", height=10)
    chain.rises, chain.executes = True, False
    return chain


class World:
    """`restart()` loses everything in memory, as a crash does."""

    facts = ClusterFacts(network_policies=False)

    def __init__(
        self,
        *,
        ip_ranges: Sequence[str] = ("203.0.113.1-203.0.113.2",),
        clock: Clock | None = None,
        chain: FakeChain | None = None,
        **config: Any,
    ) -> None:
        self.cluster = FakeCluster()
        self.engine = FakeEngine(self.cluster)
        self.chain = chain or lease_chain()
        self.clock = clock or VirtualClock()
        self.bus = MemoryBus()
        self.released: list[OrderId] = []
        self.ask: AskEdge | None = None
        self.proofs: OwnershipProofs | None = None
        self.settings = SpecSettings()
        ranges = tuple(parse_address_range(text) for text in ip_ranges)
        self.config = LifecycleConfig(provider=PROVIDER, chain_id="akashnet-2", ip_ranges=ranges, **config)
        self.restart()

    def restart(self) -> None:
        self.parts = Parts(
            cluster=self.cluster,
            engine=self.engine,
            bus=self.bus,
            config=self.config,
            claims=LeaseClaims(self.cluster, self.config, clock=self.clock, ask=self.ask, proofs=self.proofs),
            specs=ScriptedMaker(self.facts, script=self.build_spec),
            release=self.released.append,
        )
        self.reconciler = Reconciler(self.parts, chain=self.chain, clock=self.clock, random=Random(1))  # type: ignore[arg-type]
        self.loop = LeaseLoop(self.reconciler, self.parts, chain=self.chain, clock=self.clock)  # type: ignore[arg-type]

    def build_spec(self, inputs: SpecInputs) -> LeaseSpec:
        return SpecMaker(self.facts, self.settings).build(inputs)

    async def elapse(self, seconds: float) -> None:
        """So much later, in virtual time; what is due by then has run."""
        await asyncio.sleep(seconds)
        await VirtualClock().settle()

    async def send(self, lease: LeaseId, group: Group) -> None:
        """The tenant's manifest is accepted."""
        await write_manifest(self.cluster, ManifestRecord(lease, group, {}), namespace="lease")

    def put_manifest(self, lease: LeaseId, group: Group) -> None:
        self.cluster.put(manifest_object(ManifestRecord(lease, group, {}), namespace="lease"))

    async def win(self, lease: LeaseId, group: Group | None = None) -> None:
        self.chain.put_lease(lease, LeaseState.ACTIVE)
        if group is not None:
            await self.send(lease, group)

    async def check(self, lease: LeaseId) -> Outcome:
        return await self.reconciler.reconcile(lease)

    async def converge(self, lease: LeaseId, *, limit: int = 20) -> Outcome:
        """Look until nothing more is to be done at once; controllers do their work in between."""
        for _ in range(limit):
            writes, calls = self.cluster.writes, len(self.engine.calls)
            outcome = await self.check(lease)
            if outcome.phase is Phase.CLOSED:
                return outcome
            self.cluster.settle()
            if self.cluster.writes == writes and len(self.engine.calls) == calls and not self._moving(lease):
                return outcome
        raise AssertionError(f"no end after {limit} looks: {outcome}")

    def _moving(self, lease: LeaseId) -> bool:
        return lease in self.reconciler.unproven() or self.cluster.terminating(namespace_name(lease))

    async def run(self, lease: LeaseId, group: Group) -> LeaseSpec:
        """A lease in the state running."""
        await self.win(lease, group)
        await self.converge(lease)
        spec = self.applied(lease).spec
        assert spec is not None
        return spec

    def applied(self, lease: LeaseId) -> Applied:
        return read_applied(self.cluster.find(SECRET, applied_name(lease), "lease"))

    def image(self, lease: LeaseId) -> str | None:
        """What runs."""
        spec = self.engine.specs[-1] if self.engine.specs else None
        obj = spec and self.cluster.workload(namespace_name(lease), spec.services[0])
        return obj and obj["spec"]["template"]["spec"]["containers"][0]["image"]  # type: ignore[return-value]

    def leftovers(self, lease: LeaseId) -> list[str]:
        """Everything that still speaks of a lease."""
        name = namespace_name(lease)
        found = [f"{kind.kind} {n}" for kind in _RECORDS for n in self.cluster.named(kind) if name in n]
        found += [f"{key[1]} {key[3]}" for key in self.cluster.objects if key[2] == name]
        found += [
            f"{kind.kind} {obj}"
            for kind in (PROVIDER_HOST, PROVIDER_LEASED_IP)
            for obj in self.cluster.named(kind)
            if self._is_of(lease, self.cluster.find(kind, obj, "lease"))
        ]
        return found + (["stack"] if name in self.engine.state else [])

    def pools(self) -> list[str]:
        return self.cluster.named(IP_ADDRESS_POOL) + self.cluster.named(L2_ADVERTISEMENT)

    @staticmethod
    def _is_of(lease: LeaseId, obj: dict[str, Any] | None) -> bool:
        labels = (obj or {}).get("metadata", {}).get("labels", {})
        return labels.get("akash.network/lease.id.dseq") == str(lease.dseq) and (
            labels.get("akash.network/lease.id.owner") == lease.owner
        )


_RECORDS = (NAMESPACE, MANIFEST, SECRET)


def unknown(height: int) -> LeaseAnswer:
    return LeaseAnswer(None, height, "akashnet-2")


def closed(lease: LeaseId, height: int, chain_id: str = "akashnet-2") -> LeaseAnswer:
    return LeaseAnswer(on_chain(lease, LeaseState.CLOSED), height, chain_id)


def other_state(answer: LeaseAnswer, state: LeaseState) -> LeaseAnswer:
    assert answer.lease is not None
    return replace(answer, lease=replace(answer.lease, state=state))
