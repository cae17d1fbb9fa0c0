"""Recorded clusters of the Go provider on a real API server: made as it makes them, taken over, updated, ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import namespace_name
from lease.manifest import Group
from lease.spec import FORM, LeaseSpec
from provider.adoption.plan import State
from provider.adoption.steps import adopt_lease, plan_adoption
from provider.kube.client import KubeCluster
from provider.lifecycle.spec_maker import SpecMaker
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import MANIFEST, PROVIDER_HOST, SECRET
from stacks.engine import importing
from tests.components.recorded import load, writes
from tests.provider.adoption.go_cluster import GoWorld, objects_of, stored_group
from tests.provider.lifecycle.real import TwoClusters, engine_config, real_world
from tests.world.patience import eventually

pytestmark = pytest.mark.devnet

RECORDS = ("Manifest", "ProviderHost", "ProviderLeasedIP")
KINDS = "deployments,statefulsets,services,ingresses,networkpolicies,secrets,serviceaccounts,roles,rolebindings"


@dataclass(frozen=True)
class Runs:
    """What may not change: pods by uid and restarts, and every object as it is, without its status."""

    pods: frozenset[tuple[str, int]]
    objects: dict[str, Any]


async def seen(devnet: Any, space: str) -> Runs:
    pods = json.loads(await devnet.kubectl_async("-n", space, "get", "pods", "-o", "json"))["items"]
    listed = json.loads(await devnet.kubectl_async("-n", space, "get", KINDS, "-o", "json", "--show-managed-fields"))
    listed["items"].append(json.loads(await devnet.kubectl_async("get", "namespace", space, "-o", "json")))
    return Runs(
        frozenset(
            (pod["metadata"]["uid"], sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ())))
            for pod in pods
        ),
        {f"{obj['kind']} {obj['metadata']['name']}": _still(obj) for obj in listed["items"]},
    )


def _still(obj: dict[str, Any]) -> dict[str, Any]:
    meta = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    fields = [each for each in obj["metadata"].get("managedFields", ()) if not each.get("subresource")]
    return {**obj, "status": None, "metadata": meta, "managers": sorted(each["manager"] for each in fields)}


async def make(devnet: Any, recording: dict[str, Any]) -> None:
    """Make the lease's objects as the Go provider makes them: plain requests, its own field manager."""
    objects = sorted(writes(recording), key=lambda obj: obj["kind"] != "Namespace")
    items = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    await devnet.kubectl_async("create", "--field-manager", "provider-services", "-f", "-", stdin=items)


@asynccontextmanager
async def go_provider(
    devnet: Any, toolbox: Toolbox, folder: Path, name: str
) -> AsyncIterator[tuple[GoWorld, Any, Any]]:
    """The recorded lease runs on the control plane, Lessor's loop does not yet."""
    recording = load(name)
    records = [obj for obj in objects_of(recording) if obj["kind"] in RECORDS]
    world = GoWorld(recording, objects=records, clock=SystemClock())
    world.settings = world.settings.model_copy(update={"runtime_class": ""})  # the cluster has no such class
    space = namespace_name(world.lease)
    await make(devnet, recording)
    try:
        count = sum(obj["spec"].get("replicas", 1) for obj in writes(recording) if "replicas" in obj.get("spec", {}))

        async def running() -> bool:
            text = await devnet.kubectl_async("-n", space, "get", "pods", "-o", "jsonpath={.items[*].status.phase}")
            return text.split() == ["Running"] * count

        await eventually(running)
        async with real_world(devnet, toolbox, folder, world=world, loop=False) as (_, engine):
            yield world, engine, space
    finally:
        await devnet.kubectl_async("delete", "namespace", space, "--wait=false", "--ignore-not-found")


async def adopt(world: GoWorld, devnet: Any, toolbox: Toolbox, folder: Path) -> LeaseSpec:
    real = KubeCluster(devnet.kubeconfig)
    try:
        cluster = TwoClusters(world.cluster, real)
        plan = await plan_adoption(
            cluster, world.chain, SpecMaker(world.facts, world.settings), provider=world.lease.provider,
            records="lease", metallb="metallb-system",
        )  # fmt: skip
        (found,) = [each for each in plan.leases if each.lease == world.lease]
        assert (found.state, found.differences, found.reason) == (State.READY, (), "")
        with importing(engine_config(devnet, toolbox, folder)) as import_stack:
            await adopt_lease(found, cluster, records="lease", import_stack=import_stack)
    finally:
        await real.aclose()
    assert found.record is not None and found.record.spec is not None
    return found.record.spec


def changed_manifest(group: Group) -> Group:
    """Another image, and one variable and all arguments less."""
    first, *others = group.services or ()
    return replace(
        group, services=(replace(first, image="nginx:new", env=(first.env or ())[1:] or None, args=None), *others)
    )


@pytest.mark.parametrize(
    "name",
    [
        "base-simple-v2.0",
        pytest.param("persistent-postgres-accept", marks=pytest.mark.long),
        pytest.param("base-credentials-v2.1", marks=pytest.mark.long),
        pytest.param("services-eight-env-ampersand", marks=pytest.mark.long),
    ],
)
async def test_an_adopted_lease_has_an_empty_preview_and_no_object_of_it_is_written(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path, name: str
) -> None:
    async with go_provider(devnet_cluster, toolbox, tmp_path, name) as (world, engine, space):
        before = await seen(devnet_cluster, space)
        spec = await adopt(world, devnet_cluster, toolbox, tmp_path)
        preview = await engine.preview(spec)
        assert (preview.ok, preview.error, preview.changes) == (True, "", ())
        assert list(await engine.stacks()) == [space]
        for _ in range(3):
            outcome = await world.check(world.lease)
        assert outcome.phase is Phase.RUNNING, outcome
        assert engine.calls == []
        assert await seen(devnet_cluster, space) == before

        await world.send(world.lease, changed_manifest(stored_group(world)))
        await _converge(world)
        after = await seen(devnet_cluster, space)
        _updated(before, after, world)
        applied = world.applied(world.lease).spec
        assert applied is not None
        assert (applied.form, applied.found) == (FORM, ())
        again = await engine.preview(applied)
        assert (again.ok, again.changes) == (True, ())

        world.chain.put_lease(world.lease, LeaseState.CLOSED)

        async def ended() -> bool:
            return (await world.check(world.lease)).phase is Phase.CLOSED

        await eventually(ended)
        assert await devnet_cluster.kubectl_async("get", "namespace", space, "--ignore-not-found") == ""
        assert list(await engine.stacks()) == []
        assert [world.cluster.named(kind) for kind in (MANIFEST, PROVIDER_HOST, SECRET)] == [[], [], []]


@pytest.mark.long
@pytest.mark.parametrize("name", ["base-simple-v2.0", "persistent-postgres-accept", "base-credentials-v2.1"])
async def test_without_the_written_state_what_was_found_is_applied_and_no_pod_is_replaced(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path, name: str
) -> None:
    """A lost home, another backend, or a provider that runs elsewhere than `lessor adopt` did."""
    async with go_provider(devnet_cluster, toolbox, tmp_path, name) as (world, engine, space):
        before = await seen(devnet_cluster, space)
        spec = await adopt(world, devnet_cluster, toolbox, tmp_path)
        shutil.rmtree(tmp_path / "engine" / "stacks" / space)
        result = await engine.up(spec)
        assert (result.ok, result.error) == (True, "")
        after = await seen(devnet_cluster, space)
        assert after.pods == before.pods
        for key, obj in before.objects.items():
            assert after.objects[key].get("spec") == obj.get("spec"), key
            assert after.objects[key]["metadata"]["uid"] == obj["metadata"]["uid"]


@pytest.mark.long
async def test_a_leased_address_in_an_operators_pool_stays_through_adoption_update_and_another_leases_end(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    """MetalLB itself: the Services keep the address that the operator's pool gave them under the Go provider."""
    address, metallb = "198.19.251.7", ("-n", "metallb-system")
    pool = {
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": {"name": "default", "namespace": "metallb-system"},
        "spec": {"addresses": [f"{address}/32"]},
    }
    await devnet_cluster.kubectl_async("create", "-f", "-", stdin=json.dumps(pool))
    try:
        async with go_provider(devnet_cluster, toolbox, tmp_path, "ip-endpoint-two-ports") as (world, engine, space):

            async def given() -> bool:
                path = "jsonpath={.items[*].status.loadBalancer.ingress[*].ip}"
                text = await devnet_cluster.kubectl_async("-n", space, "get", "services", "-o", path)
                return bool(text.split() == [address, address])

            await eventually(given)
            spec = await adopt(world, devnet_cluster, toolbox, tmp_path)
            assert {(leased.address, leased.pool) for leased in spec.leased_ips} == {(address, "default")}
            await _converge(world)
            assert engine.calls == [] and await given()

            await world.send(world.lease, changed_manifest(stored_group(world)))
            await _converge(world)
            assert await given()
            services = json.loads(await devnet_cluster.kubectl_async("-n", space, "get", "services", "-o", "json"))
            asked = [obj["metadata"].get("annotations", {}) for obj in services["items"]]
            assert [one["metallb.io/loadBalancerIPs"] for one in asked if "metallb.io/loadBalancerIPs" in one] == [
                address,
                address,
            ]
            assert await _pool_names(devnet_cluster) & {"default"} == {"default"}

            world.chain.put_lease(world.lease, LeaseState.CLOSED)

            async def ended() -> bool:
                return (await world.check(world.lease)).phase is Phase.CLOSED

            await eventually(ended)
            assert "default" in await _pool_names(devnet_cluster)
    finally:
        await devnet_cluster.kubectl_async(*metallb, "delete", "ipaddresspool", "default")


async def _pool_names(devnet: Any) -> set[str]:
    path = "jsonpath={.items[*].metadata.name}"
    return set((await devnet.kubectl_async("-n", "metallb-system", "get", "ipaddresspools", "-o", path)).split())


async def _converge(world: GoWorld) -> None:
    async def running() -> bool:
        outcome = await world.check(world.lease)
        assert outcome.phase in (Phase.APPLYING, Phase.DEGRADED, Phase.RUNNING), outcome
        return outcome.phase is Phase.RUNNING

    await eventually(running)


def _updated(before: Runs, after: Runs, world: GoWorld) -> None:
    """No object was made anew, node ports and addresses are kept, and what the manifest lacks is gone."""
    for name, obj in before.objects.items():
        assert after.objects[name]["metadata"]["uid"] == obj["metadata"]["uid"], name
        if obj["kind"] == "Service":
            assert after.objects[name]["spec"]["clusterIP"] == obj["spec"]["clusterIP"]
            assert [port.get("nodePort") for port in after.objects[name]["spec"]["ports"]] == [
                port.get("nodePort") for port in obj["spec"]["ports"]
            ]
        assert "provider-services" not in after.objects[name]["managers"], name
    first = (stored_group(world).services or ())[0]
    for workload in (obj for obj in after.objects.values() if obj["kind"] in ("Deployment", "StatefulSet")):
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        if container["name"] == first.name:
            given = {each.partition("=")[0] for each in first.env or ()}
            found = {each["name"] for each in container["env"]}
            assert found - given <= _PROVIDERS
            assert (container["image"], container.get("args")) == ("nginx:new", None)


_PROVIDERS = {
    *("AKASH_GROUP_SEQUENCE", "AKASH_DEPLOYMENT_SEQUENCE", "AKASH_ORDER_SEQUENCE", "AKASH_OWNER", "AKASH_PROVIDER"),
    *("AKASH_CLUSTER_PUBLIC_HOSTNAME", "NVIDIA_VISIBLE_DEVICES", "LD_AUDIT", "LD_PRELOAD"),
}
