"""A golden cluster of an older builder, upgraded on a real API server with the real engine: no pod is replaced."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from components.lease import lease_objects
from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from lease.manifest import Group
from lease.spec import FIRST_FORM, ClusterFacts
from provider.lifecycle.drift import find_drift
from provider.lifecycle.serving.upkeep import PENDING
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Phase
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import MANIFEST, SECRET
from provider.records.applied import Applied, applied_name, applied_object
from provider.records.manifests import read_manifest
from tests.provider.lifecycle.older import OLDER, older_builder, run_older
from tests.provider.lifecycle.real import engine_config, real_world
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.devnet


class Isolated(World):
    """Leases have network policies."""

    facts = ClusterFacts(network_policies=True, api_server_endpoints=("192.0.2.1:6443",))


def two_services(host: str, image: str = "nginx:1") -> Group:
    """A website, and a database with two volumes."""
    web = a_group(image, hosts=(host,)).services
    data = a_group("postgres:1", volume_bytes=1 << 30, name="db").services
    assert web and data
    resources, params = data[0].resources, data[0].params
    assert resources.storage and params
    *rest, volume = resources.storage
    more = replace(volume, name="more")
    mounts = (*(params.storage or ()), replace((params.storage or ())[0], name="more", mount="/more"))
    database = replace(
        data[0],
        resources=replace(resources, id=2, storage=(*rest, volume, more)),
        params=replace(params, storage=mounts),
        expose=tuple(replace(each, global_=False) for each in data[0].expose or ()),
    )
    return Group("west", (web[0], database))


@dataclass(frozen=True)
class Runs:
    """What may not change in an upgrade: pods by uid and by what they were made from, and the workloads' uids."""

    pods: frozenset[tuple[str, str]]
    workloads: frozenset[str]


async def _runs(devnet: Any, space: str) -> Runs:
    text = await devnet.kubectl_async("-n", space, "get", "pods,deployments,statefulsets", "-o", "json")
    objects = json.loads(text)["items"]
    pods, workloads = set(), set()
    for obj in objects:
        meta = obj["metadata"]
        if obj["kind"] == "Pod":
            pods.add(
                (meta["uid"], meta["labels"].get("pod-template-hash") or meta["labels"]["controller-revision-hash"])
            )
        else:
            workloads.add(meta["uid"])
    return Runs(frozenset(pods), frozenset(workloads))


async def _golden(world: World, lease: LeaseId, devnet: Any, toolbox: Toolbox, folder: Path) -> Runs:
    """An older Lessor ran here until now."""
    await world.win(lease, two_services(f"{lease.dseq}.example.com"))
    found = world.cluster.find(MANIFEST, namespace_name(lease), "lease")
    assert found is not None
    record = read_manifest(found)
    spec = world.build_spec(SpecInputs(record, form=FIRST_FORM))
    spec = spec.model_copy(update={"builder_version": OLDER})
    code = await asyncio.to_thread(older_builder, folder)
    await run_older(code, engine_config(devnet, toolbox, folder), spec)
    world.cluster.put(applied_object(lease, Applied(spec, record.content_hash()), namespace="lease"))
    async with asyncio.timeout(60):
        while len((before := await _runs(devnet, spec.namespace)).pods) < 2:
            await asyncio.sleep(0.2)
    return before


async def _converge(world: World, lease: LeaseId) -> str:
    """The reason beside `running`."""
    async with asyncio.timeout(60):
        while (outcome := await world.check(lease)).phase is not Phase.RUNNING:
            assert outcome.phase in (Phase.APPLYING, Phase.DEGRADED), outcome
            await asyncio.sleep(0.2)
    return outcome.reason


@pytest.mark.parametrize(
    "lost",
    [
        "nothing",
        pytest.param("state", marks=pytest.mark.long),
        pytest.param("state and record", marks=pytest.mark.long),
    ],
)
async def test_a_golden_cluster_of_an_older_builder_is_brought_up_to_date_without_a_pod_replaced(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path, lost: str
) -> None:
    lease = a_lease(secrets.randbelow(2**50))
    space = namespace_name(lease)
    world = Isolated(clock=SystemClock())
    before = await _golden(world, lease, devnet_cluster, toolbox, tmp_path)
    if "state" in lost:
        shutil.rmtree(tmp_path / "engine")
    if "record" in lost:
        world.cluster.remove((SECRET.api_version, SECRET.kind, "lease", applied_name(lease)))
    try:
        async with real_world(devnet_cluster, toolbox, tmp_path, world=world, loop=False) as (_, engine):
            reason = await _converge(world, lease)
            assert all(result.ok for result in engine.results), [result.error for result in engine.results]
            assert await _runs(devnet_cluster, space) == before
            await _everything_else_is_todays(world, lease, devnet_cluster)
            assert PENDING in reason
            for path in (
                "service web: template.metadata.annotations",
                "service db: ",
                "template.spec.terminationGracePeriodSeconds",
            ):
                assert path in reason, reason
            assert "hunter22" not in reason
            calls = len(engine.calls)
            world.restart()
            assert await _converge(world, lease) == reason
            assert len(engine.calls) == calls, "nothing is done twice"
    finally:
        await devnet_cluster.kubectl_async("delete", "namespace", space, "--wait=false")


async def _everything_else_is_todays(world: World, lease: LeaseId, devnet: Any) -> None:
    """As today's builder says, and without what only the older one said."""
    spec = world.applied(lease).spec
    assert spec is not None
    assert await find_drift(world.parts.cluster, spec) == ()
    text = await devnet.kubectl_async("-n", spec.namespace, "get", "services,networkpolicies,ingresses", "-o", "json")
    objects = json.loads(text)["items"]
    wanted = [obj for obj in lease_objects(spec) if obj["kind"] in ("Service", "NetworkPolicy", "Ingress")]
    assert {(obj["kind"], obj["metadata"]["name"]) for obj in objects} == {
        (obj["kind"], obj["metadata"]["name"]) for obj in wanted
    }
    assert "lessor.example/old" not in text
    assert "ClientIP" not in text


@pytest.mark.long
async def test_a_recreate_request_makes_the_pods_of_an_older_builder_anew_and_keeps_the_volumes(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    lease = a_lease(secrets.randbelow(2**50))
    space = namespace_name(lease)
    world = Isolated(clock=SystemClock())
    before = await _golden(world, lease, devnet_cluster, toolbox, tmp_path)
    try:
        async with real_world(devnet_cluster, toolbox, tmp_path, world=world, loop=False):
            await _converge(world, lease)
            claims = await _claims(devnet_cluster, space)
            assert await world.reconciler.recreate(lease)
            assert await _converge(world, lease) == "", "nothing is left to be changed"
            async with asyncio.timeout(60):
                while len((after := await _runs(devnet_cluster, space)).pods) != 2 or before.pods & after.pods:
                    await asyncio.sleep(0.2)
            assert after.workloads == before.workloads
            assert await _claims(devnet_cluster, space) == claims
            text = await devnet_cluster.kubectl_async("-n", space, "get", "deployments,statefulsets", "-o", "json")
            assert "hunter22" not in text
    finally:
        await devnet_cluster.kubectl_async("delete", "namespace", space, "--wait=false")


async def _claims(devnet: Any, space: str) -> set[str]:
    text = await devnet.kubectl_async("-n", space, "get", "pvc", "-o", "json")
    return {obj["metadata"]["uid"] for obj in json.loads(text)["items"]}
