"""An update that is opened before there is a manifest: the same stack in the end, and never in anybody's way."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from typing import Any

import lightkube
import pytest
from lightkube import ApiError
from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.apps_v1 import Deployment, StatefulSet
from lightkube.resources.core_v1 import Namespace, Secret, Service
from lightkube.resources.networking_v1 import Ingress, NetworkPolicy

from lease.spec import LeaseSpec
from stacks.common.processes import command_name, survivors
from stacks.common.results import FailureCause
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.leases import CANARY, demo, small

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.xdist_group("engine"),  # they share one
    pytest.mark.asyncio(loop_scope="session"),
]

KINDS: tuple[Any, ...] = (Namespace, NetworkPolicy, Secret, Deployment, StatefulSet, Service, Ingress)
POOLS = create_namespaced_resource("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools")


def opening(spec: LeaseSpec) -> LeaseSpec:
    return spec.model_copy(update={"group": "", "services": (), "hostnames": (), "leased_ips": ()})


async def opened(engine: PulumiEngine, spec: LeaseSpec) -> None:
    """An update that has come to where it waits."""
    assert await engine.open(opening(spec))
    async with asyncio.timeout(60):
        while spec.namespace not in engine.opened:
            await asyncio.sleep(0.02)


def resources(config: EngineConfig, spec: LeaseSpec) -> dict[str, dict[str, Any]]:
    """The stack's state by URN: each once, nothing pending."""
    latest = json.loads(config.state_file(spec.namespace).read_bytes())["checkpoint"]["latest"]
    assert not latest.get("pending_operations")
    found = {item["urn"]: item for item in latest["resources"]}
    assert len(found) == len(latest["resources"])
    return found


def comparable(found: dict[str, dict[str, Any]], spec: LeaseSpec) -> dict[str, Any]:
    """Without times, ids and what the API server answered; as if every lease had one name."""
    kept = ("urn", "type", "inputs", "parent", "dependencies", "propertyDependencies", "deletedWith", "retainOnDelete")
    text = json.dumps({urn: {key: item.get(key) for key in kept} for urn, item in found.items()})
    return {urn: _without_secrets(item) for urn, item in json.loads(_anonymous(text, spec)).items()}


def _anonymous(text: str, spec: LeaseSpec) -> str:
    text = text.replace(spec.namespace, "NAMESPACE").replace(str(spec.lease.dseq), "DSEQ")
    text = text.replace(spec.leased_ips[0].address, "ADDRESS")
    return re.sub(r"\b(ip-)?[0-9a-v]{45}\b", "POOL", text)


def _without_secrets(value: Any) -> Any:
    """Ciphertexts differ every time, and the SDK sends dependencies as a set."""
    if isinstance(value, dict):
        kept = {key: _without_secrets(item) for key, item in value.items() if key != "ciphertext"}
        return {key: sorted(item) if key == "dependencies" and item else item for key, item in kept.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def objects(client: lightkube.Client, spec: LeaseSpec) -> dict[str, Any]:
    """What the cluster holds of a lease, by kind and name: labels, annotations and what was asked for."""
    found = {}
    for kind in KINDS:
        where = {"fields": {"metadata.name": spec.namespace}} if kind is Namespace else {"namespace": spec.namespace}
        for item in client.list(kind, **where):
            document = item.to_dict()
            meta = document["metadata"]
            shown = {"spec": document.get("spec"), "data": document.get("data"), "labels": meta.get("labels")}
            found[f"{kind.__name__} {meta['name']}"] = shown | {"annotations": meta.get("annotations")}
    same: dict[str, Any] = json.loads(_anonymous(json.dumps(found), spec))
    return {name: _given(item) for name, item in same.items()}


def _given(item: dict[str, Any]) -> dict[str, Any]:
    """Addresses and ports that the cluster hands out differ, and what MetalLB has come to."""
    spec = item.get("spec") or {}
    for key in ("clusterIP", "clusterIPs", "healthCheckNodePort"):
        spec.pop(key, None)
    for port in spec.get("ports") or ():
        if isinstance(port, dict):
            port.pop("nodePort", None)
    notes = {key: text for key, text in (item["annotations"] or {}).items() if "allocated-from" not in key}
    return {**item, "annotations": notes}


def the_command_line(config: EngineConfig, spec: LeaseSpec) -> list[int]:
    return [pid for pid in survivors(config.data, spec.namespace) if command_name(pid) == "pulumi"]


def nothing_runs(config: EngineConfig, spec: LeaseSpec) -> bool:
    locks = list((config.folder(spec.namespace) / ".pulumi").glob("locks/**/*.json"))
    return not survivors(config.data, spec.namespace) and not locks


@pytest.fixture
def config(stock_config):
    return stock_config


@pytest.fixture
def own_config(own_config):
    return own_config.model_copy(update={"engine": "stock"})


@pytest.fixture
def engine(stock_engine):
    return stock_engine


async def test_an_opened_create_ends_in_the_very_state_and_objects_of_an_ordinary_one(engine, config, client):
    spec, ordinary = demo(), demo()
    await opened(engine, spec)
    assert client.get(Namespace, spec.namespace)
    names = {item.metadata.name for item in client.list(NetworkPolicy, namespace=spec.namespace)}
    assert names == {"akash-deployment-restrictions"}, "isolated before anything runs"

    result = await engine.up(spec)
    plain = await engine.up(ordinary)

    assert result.ok and plain.ok, result.error + plain.error
    assert result.opened and not plain.opened
    assert result.spec_hash == spec.content_hash() == result.outputs["spec-hash"]
    assert result.durations.engine_start_s == result.durations.plugin_s == 0 < result.durations.objects_s
    assert sorted((c.op, c.type) for c in result.changes) == sorted((c.op, c.type) for c in plain.changes)
    assert result.summary == plain.summary
    assert comparable(resources(config, spec), spec) == comparable(resources(config, ordinary), ordinary)
    assert objects(client, spec) == objects(client, ordinary)
    unchanged = await engine.up(spec)
    assert unchanged.ok and unchanged.changes == () and not unchanged.opened
    assert nothing_runs(config, spec) and not config.begun_file(spec.namespace).exists()
    changed = await engine.up(demo("nginx:2", lease=spec.lease))
    assert [item.properties[0].new for item in changed.changes] == ["nginx:2"], "what was applied is remembered"
    files = [path for path in config.data.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert files == []


async def test_a_spec_may_come_before_the_update_is_ready_for_it(engine):
    spec = small()
    assert await engine.open(opening(spec))

    result = await engine.up(spec)

    assert result.ok and result.opened, result.error


async def test_one_without_a_manifest_is_given_up_in_time_and_the_ordinary_way_is_free(own_config):
    config, spec = own_config.model_copy(update={"open_seconds": 2}), small()
    engine = PulumiEngine(config)
    await engine.refresh("a-worker-that-is-warm")
    assert await engine.open(opening(spec))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(20):
        while engine.load.busy:
            await asyncio.sleep(0.05)

    assert engine.opened == () and nothing_runs(config, spec)
    assert not await engine.open(opening(spec)), "never a second time"
    resources(config, spec)
    result = await engine.up(spec)
    assert result.ok and not result.opened, result.error
    await engine.close()


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("preview", marks=pytest.mark.long),
        pytest.param("refresh", marks=pytest.mark.long),
        "destroy",
        "give_up",
    ],
)
async def test_whatever_else_wants_the_stack_ends_it_at_once(engine, config, client, asked):
    spec = small()
    await opened(engine, spec)

    answer = await (engine.preview(spec) if asked == "preview" else getattr(engine, asked)(spec.namespace))

    assert answer is None or answer.ok, answer.error
    assert engine.opened == () and nothing_runs(config, spec)
    if asked == "destroy":
        assert client.get(Namespace, spec.namespace).metadata.deletionTimestamp
        assert spec.namespace not in await engine.stacks()
        return
    result = await engine.up(spec)  # at once, by the same worker
    assert result.ok and not result.opened, result.error


async def test_one_opened_for_another_configuration_is_not_used(engine, client):
    spec = small()
    await opened(engine, spec)
    other = spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"closed_ranges": ("203.0.113.0/24",)})})

    result = await engine.up(other)

    assert result.ok and not result.opened, result.error
    policy = client.get(NetworkPolicy, "akash-deployment-restrictions", namespace=spec.namespace)
    assert "203.0.113.0/24" in policy.spec.egress[-1].to[0].ipBlock.except_


async def test_a_spec_that_breaks_a_policy_ends_it_with_the_policy_s_words(engine, config):
    spec = small(image="bad image")
    await opened(engine, spec)

    result = await engine.up(spec)
    again = await engine.up(spec)

    assert not result.ok and result.opened and not again.ok
    assert (result.error, result.cause) == (again.error, again.cause)
    assert result.cause is FailureCause.BUILD and nothing_runs(config, spec)
    good = await engine.up(small(lease=spec.lease))
    assert good.ok, good.error


@pytest.mark.parametrize("victim", ["command line", pytest.param("worker", marks=pytest.mark.long)])
async def test_one_that_is_killed_while_it_waits_costs_nothing_but_its_gain(engine, config, client, victim):
    spec = small()
    await opened(engine, spec)
    pids = the_command_line(config, spec) if victim == "command line" else engine.worker_pids()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)

    result = await engine.up(spec)

    assert pids and result.ok and not result.opened, result.error
    assert client.get(Deployment, "web", namespace=spec.namespace)
    assert nothing_runs(config, spec)
    assert (await engine.destroy(spec.namespace)).ok


async def test_a_kill_while_it_waits_leaves_a_namespace_that_destroy_finds(engine, config, client):
    spec = small()
    await opened(engine, spec)
    for pid in the_command_line(config, spec):
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(20):
        while engine.load.busy:
            await asyncio.sleep(0.05)
    assert client.get(Namespace, spec.namespace)

    result = await engine.destroy(spec.namespace)

    assert result.ok, result.error
    try:
        assert client.get(Namespace, spec.namespace).metadata.deletionTimestamp
    except ApiError as error:
        assert error.status.code == 404
    assert not config.folder(spec.namespace).exists()


async def test_it_never_takes_the_last_free_worker_and_gives_its_own_to_whoever_has_none(engine):
    first, second, others = small(), small(), (small(), small())
    await opened(engine, first)
    assert engine.load.oldest_s == 0 and not any(engine.load.waiting.values())

    assert not await engine.open(opening(second)), "of two workers one stays free"
    results = await asyncio.gather(*(engine.up(spec) for spec in others))

    assert all(result.ok for result in results)
    assert engine.opened == ()
    late = await engine.up(first)
    assert late.ok and not late.opened, late.error


@pytest.mark.parametrize("told", [{"open_updates": 0}, {"engine": "resident"}, {"workers": 1}], ids=str)
async def test_it_is_not_taken_where_it_is_switched_off_or_would_be_in_the_way(own_config, told):
    engine = PulumiEngine(own_config.model_copy(update=told))

    assert not await engine.open(opening(small()))
    await engine.close()


async def test_closing_the_engine_ends_an_opened_update(own_config):
    engine = PulumiEngine(own_config)
    spec = small()
    await opened(engine, spec)

    await engine.close()

    assert nothing_runs(own_config, spec)
