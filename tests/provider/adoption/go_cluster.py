"""A Go provider's cluster from the recordings, in memory, and the world of a Lessor that takes it over."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from components.labels import ALLOW_SHARED_IP
from components.lease import lease_objects
from lease.ids import LeaseId, namespace_name
from lease.manifest import Group
from lease.spec import LeaseSpec
from provider.adoption.plan import LeasePlan, State
from provider.adoption.steps import AdoptionPlan, adopt_lease, plan_adoption
from provider.claims.hostnames import HostnameRules
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.protocols.chain import LeaseState
from provider.protocols.clock import Clock
from provider.protocols.cluster import MANIFEST
from provider.records.manifests import read_manifest
from tests.components.recorded import load, names
from tests.components.recorded_specs import recorded_cluster, recorded_settings
from tests.provider.lifecycle.world import World
from tests.world.cluster import FakeCluster, Key
from tests.world.engine import object_key

__all__ = ["ADDRESS", "GoWorld", "adoptable", "objects_of", "recorded_lease", "stored_group"]

ADDRESS = "192.0.2.77"
POOL = {
    "apiVersion": "metallb.io/v1beta1",
    "kind": "IPAddressPool",
    "metadata": {"name": "default", "namespace": "metallb-system"},
    "spec": {"addresses": ["192.0.2.0/24"]},
}


def adoptable(suffix: str = "") -> list[str]:
    """The recordings of leases that ran."""
    return [name for name in names(suffix) if load(name)["complete"] and load(name)["manifest_put"]["status"] == 200]


def recorded_lease(recording: dict[str, Any]) -> LeaseId:
    fields = recording["lease"]
    return LeaseId(fields["owner"], int(fields["dseq"]), fields["gseq"], fields["oseq"], fields["provider"])


def objects_of(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """The live objects, with what the recording left out: the address of each LoadBalancer Service."""
    objects: list[dict[str, Any]] = copy.deepcopy(recording["objects"])
    for obj in objects:
        if ALLOW_SHARED_IP in (obj["metadata"].get("annotations") or {}):
            obj["status"] = {"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}
    return objects


class GoWorld(World):
    """The world of one recording, with `objects` in place of the recorded ones if they are given. `imported`: the
    specs whose stacks were written.
    """

    def __init__(
        self, recording: dict[str, Any], *, objects: Iterable[dict[str, Any]] | None = None, clock: Clock | None = None
    ) -> None:
        self.lease = recorded_lease(recording)
        self.facts = recorded_cluster(recording["settings"])
        self.imported: list[LeaseSpec] = []
        rules = HostnameRules(domain=recording["settings"]["ingress_domain"])
        super().__init__(clock=clock, gateway_api=self.facts.ingress_mode == "gateway-api", hostnames=rules)
        self.settings = recorded_settings(recording["settings"])
        self.config = replace(self.config, provider=self.lease.provider)
        self.restart()
        self.chain.put_lease(self.lease, LeaseState.ACTIVE)
        _put_all(self.cluster, objects_of(recording) if objects is None else objects)
        self.cluster.settle()

    async def plan(self) -> AdoptionPlan:
        return await plan_adoption(
            self.cluster,
            self.chain,  # type: ignore[arg-type]
            SpecMaker(self.facts, self.settings),
            provider=self.lease.provider,
            records="lease",
            metallb="metallb-system",
        )

    async def plan_of(self, lease: LeaseId | None = None) -> LeasePlan:
        wanted = lease or self.lease
        return next(each for each in (await self.plan()).leases if each.lease == wanted)

    async def adopt(self) -> LeasePlan:
        plan = await self.plan_of()
        assert plan.state is State.READY, plan
        await adopt_lease(plan, self.cluster, records="lease", import_stack=self.import_stack)
        return plan

    def import_stack(self, spec: LeaseSpec) -> bool:
        self.imported.append(spec)
        self.engine.state[spec.namespace] = {object_key(obj): obj for obj in lease_objects(spec)}
        return True

    def build_spec(self, inputs: SpecInputs) -> LeaseSpec:
        return SpecMaker(self.facts, self.settings).build(inputs)

    def objects(self) -> dict[Key, Any]:
        """Everything in the cluster."""
        return copy.deepcopy(self.cluster.objects)


def stored_group(world: GoWorld) -> Group:
    """The manifest that the cluster stores of the lease."""
    found = world.cluster.find(MANIFEST, namespace_name(world.lease), "lease")
    assert found is not None
    return read_manifest(found).group


def _put_all(cluster: FakeCluster, objects: Iterable[dict[str, Any]]) -> None:
    """Store the objects, namespaces first, and the pool from which the Go provider's Services got their addresses."""
    cluster.put(POOL)
    for obj in sorted(objects, key=lambda obj: obj["kind"] != "Namespace"):
        cluster.put(obj)
        if "status" in obj:
            cluster.put(obj, status=True)
