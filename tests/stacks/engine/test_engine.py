"""The engine on a real control plane: preview, create, unchanged, update, destroy; refusals; secrets."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC
from pathlib import Path

import pytest
from lightkube import ApiError
from lightkube.models.core_v1 import ResourceQuotaSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.apps_v1 import Deployment, StatefulSet
from lightkube.resources.core_v1 import Namespace, ResourceQuota, Service
from lightkube.resources.networking_v1 import Ingress

from stacks.common.results import FailureCause, Operation, PropertyChange
from stacks.common.transit import TransitKey, TransitService
from stacks.engine import DataInUse, PulumiEngine
from tests.components.specs import environment
from tests.stacks.leases import CANARY, PASSWORD, demo, lease_id, small

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.xdist_group("engine"),  # they share one
    pytest.mark.asyncio(loop_scope="session"),
]

NO_LIMITS = {"cpu_limit_milli": 0, "cpu_request_milli": 0, "memory_limit_bytes": 0, "memory_request_bytes": 0}


@pytest.fixture
def config(shared_config):
    return shared_config


@pytest.fixture
def engine(shared_engine):
    return shared_engine


async def test_the_life_of_a_lease_stack(engine, client):
    spec = demo()
    namespace = spec.namespace

    preview = await engine.preview(spec)
    assert preview.ok and preview.summary["create"] >= 13, preview.error
    assert not exists(client, Namespace, namespace)
    assert namespace not in await engine.stacks(), "a preview of what does not exist leaves no stack"

    created = await engine.up(spec)
    assert created.ok, created.error
    assert ("create", "kubernetes:apps/v1:Deployment", "web") in steps(created)
    assert client.get(Deployment, "web", namespace=namespace).spec.template.spec.containers[0].image == "nginx:1"
    for kind, name in ((StatefulSet, "store"), (Service, "web"), (Ingress, spec.hostnames[0].hostname)):
        client.get(kind, name, namespace=namespace)
    assert namespace in await engine.stacks()

    unchanged = await engine.up(spec)
    assert unchanged.ok and unchanged.changes == ()
    assert set(unchanged.summary) == {"same"}

    newer = demo("nginx:2", lease=spec.lease)
    diff = await engine.preview(newer)
    assert [(change.op, change.name, change.diff) for change in diff.changes] == [
        ("update", "web", ("spec.template.spec.containers[0].image",))
    ]
    updated = await engine.up(newer)
    assert updated.changes == diff.changes and updated.summary["update"] == 1
    assert updated.changes[0].properties == (
        PropertyChange("spec.template.spec.containers[0].image", "update", "nginx:1", "nginx:2"),
    )
    assert updated.spec_hash == newer.content_hash()
    assert client.get(Deployment, "web", namespace=namespace).spec.template.spec.containers[0].image == "nginx:2"

    client.delete(Service, "store", namespace=namespace)
    seen = await engine.refresh(namespace)
    assert seen.ok, seen.error
    assert steps(await engine.preview(newer)) == [("create", "kubernetes:core/v1:Service", "store")]

    destroyed = await engine.destroy(namespace)
    assert destroyed.ok, destroyed.error
    assert client.get(Namespace, namespace).metadata.deletionTimestamp
    assert namespace not in await engine.stacks()


async def test_a_changed_secret_is_told_as_changed_and_its_value_never(engine):
    first = small()
    web = first.services[0]
    second = first.model_copy(
        update={"services": (web.model_copy(update={"environment": environment(("TOKEN", "another-canary"))}),)}
    )
    assert (await engine.up(first)).ok

    updated = await engine.up(second)

    (change,) = updated.changes
    assert [(item.old, item.new) for item in change.properties] == [("[secret]", "[secret]")]
    assert change.properties[0].path == "spec.template.spec.containers[0].env[0].value"
    await engine.destroy(first.namespace)


async def test_every_part_of_an_operations_time_is_told(engine):
    spec = small()

    created = await engine.up(spec)

    told = created.durations
    assert min(told.engine_start_s, told.plugin_s, told.objects_s) > 0
    parts = told.engine_start_s + told.plugin_s + told.objects_s
    assert parts == pytest.approx(created.seconds, abs=0.2)
    refused = await engine.refresh(small().namespace)
    assert not refused.ok and refused.durations.objects_s == 0 == refused.durations.plugin_s
    await engine.destroy(spec.namespace)


async def test_destroying_what_never_was_is_a_success(engine):
    result = await engine.destroy(small().namespace)

    assert result.ok and result.operation is Operation.DESTROY and result.changes == ()


async def test_two_leases_are_made_side_by_side_and_one_lease_never(engine, client):
    first, second = small(), small()
    await asyncio.gather(engine.refresh(first.namespace), engine.refresh(second.namespace))  # two workers, started
    started = time.monotonic()

    results = await asyncio.gather(engine.up(first), engine.up(second), engine.up(first))

    elapsed = time.monotonic() - started
    assert all(result.ok for result in results), [result.error for result in results]
    assert elapsed < sum(result.seconds for result in results)
    assert sorted(len(result.changes) == 0 for result in results) == [False, False, True]
    for spec in (first, second):
        client.get(Deployment, "web", namespace=spec.namespace)
        assert (await engine.destroy(spec.namespace)).ok


async def test_secrets_of_the_tenant_are_nowhere_in_clear_in_the_data_folder(engine, config, client):
    spec = demo()
    assert (await engine.up(spec)).ok
    assert (await engine.up(demo("nginx:2", lease=spec.lease))).ok

    files = {path: path.read_bytes() for path in config.data.rglob("*") if path.is_file()}

    assert any(b"ciphertext" in content for content in files.values())
    for secret in (CANARY, PASSWORD):
        assert [path for path, content in files.items() if secret.encode() in content] == []
    environment = client.get(Deployment, "web", namespace=spec.namespace).spec.template.spec.containers[0].env
    assert CANARY in [variable.value for variable in environment], "in the pod they are what the tenant wrote"
    await engine.destroy(spec.namespace)


async def test_secrets_are_in_no_processs_arguments_or_environment(engine, config):
    spec = demo()
    seen: list[bytes] = []
    running = asyncio.create_task(engine.up(spec))
    while not running.done():
        seen.extend(await asyncio.to_thread(everything_about_processes))
        await asyncio.sleep(0.05)

    assert (await running).ok
    assert any(b"PULUMI_CONFIG_PASSPHRASE_FILE" in text for text in seen), "the resident engine was looked at"
    key = config.key_file.read_bytes()
    for secret in (CANARY.encode(), PASSWORD.encode(), key):
        assert not any(secret in text for text in seen)
    await engine.destroy(spec.namespace)


async def test_what_policy_forbids_is_refused_and_nothing_is_registered(engine, client):
    spec = small()
    service = spec.services[0].model_copy(update=NO_LIMITS)
    bad = spec.model_copy(update={"services": (service,)})

    result = await engine.up(bad)

    assert not result.ok and "policy" in result.error and "limit" in result.error
    assert not exists(client, Namespace, bad.namespace)
    assert bad.namespace not in await engine.stacks()


async def test_a_terminating_namespace_is_not_used(engine, client):
    spec = small()
    labels = {"akash.network/namespace": spec.namespace}
    client.create(Namespace(metadata=ObjectMeta(name=spec.namespace, finalizers=["test/held"], labels=labels)))
    client.delete(Namespace, spec.namespace)
    try:
        result = await engine.up(spec)
    finally:
        client.patch(Namespace, spec.namespace, {"metadata": {"finalizers": []}})

    assert not result.ok and "terminating" in result.error
    assert spec.namespace not in await engine.stacks()


async def test_a_refusal_of_the_api_server_is_told_with_the_object_and_without_the_secret(engine, client):
    spec = small()
    await no_deployments_in(client, spec.namespace)

    result = await engine.up(spec)

    assert not result.ok and result.cause is FailureCause.QUOTA and not result.cause.provider_fault
    assert "Deployment web" in result.error and "exceeded quota" in result.error
    assert CANARY not in result.error
    assert ("create", "kubernetes:apps/v1:Deployment", "web") not in steps(result), "what failed is no change"
    client.delete(ResourceQuota, "none", namespace=spec.namespace)
    assert (await engine.up(spec)).ok, "the next one goes on from there"
    await engine.destroy(spec.namespace)


async def test_an_unreachable_cluster_is_an_error_and_keeps_the_stack(own_config, tmp_path):
    engine, spec = PulumiEngine(own_config), small()
    assert (await engine.up(spec)).ok
    await engine.close()
    away = tmp_path / "away"
    away.write_text(own_config.kubeconfig.read_text().replace("https://127.0.0.1:", "https://127.0.0.1:1"))

    lost = PulumiEngine(own_config.model_copy(update={"kubeconfig": away}))
    for operation in (lost.up(spec), lost.destroy(spec.namespace)):
        result = await operation
        assert not result.ok and result.error, result
    assert await lost.stacks() == [spec.namespace]
    await lost.close()

    found = PulumiEngine(own_config)
    assert (await found.destroy(spec.namespace)).ok
    await found.close()


async def test_a_lost_data_folder_loses_no_lease_and_its_stacks_are_still_destroyed(config, engine, client, tmp_path):
    spec, unseen = demo(), small()
    assert all(result.ok for result in await asyncio.gather(engine.up(spec), engine.up(unseen)))
    uid = client.get(Deployment, "web", namespace=spec.namespace).metadata.uid

    fresh = PulumiEngine(config.model_copy(update={"data": tmp_path / "another"}))
    again = await fresh.up(spec)

    assert again.ok, again.error
    assert client.get(Deployment, "web", namespace=spec.namespace).metadata.uid == uid, "taken over, not replaced"
    assert (await fresh.destroy(spec.namespace)).ok

    by_label = await fresh.destroy(unseen.namespace)

    assert by_label.ok and steps(by_label) == [("delete", "kubernetes:core/v1:Namespace", unseen.namespace)]
    assert client.get(Namespace, unseen.namespace).metadata.deletionTimestamp
    await fresh.close()


async def test_a_namespace_that_is_no_leases_is_never_deleted(engine, client):
    name = small().namespace
    client.create(Namespace(metadata=ObjectMeta(name=name)))

    result = await engine.destroy(name)

    assert not result.ok and "not a lease's" in result.error
    assert client.get(Namespace, name).metadata.deletionTimestamp is None
    client.delete(Namespace, name)


async def test_history_does_not_grow_without_end(config, engine):
    lease = lease_id()
    for number in range(4):
        assert (await engine.up(small(f"nginx:{number}", lease=lease))).ok
    spec = small(lease=lease)

    kept = list((config.folder(spec.namespace) / ".pulumi" / "history").rglob("*.history.json"))

    assert len(kept) == config.history == 2
    assert not list(config.folder(spec.namespace).rglob("backups/**/*.json"))
    await engine.destroy(spec.namespace)


async def test_our_stack_class_answers_as_the_stock_one_does(config, engine):
    from pulumi.automation import Stack

    from stacks.worker.workspace import Command, Secrets, open_stack

    spec = small()
    assert (await engine.up(spec)).ok
    with TransitService(TransitKey.load(config.key_file)) as service, service.grant() as token:
        secrets = Secrets(config, url=service.url, token=token)
        command = Command(config.pulumi)
        ours = open_stack(config, spec.namespace, command=command, secrets=secrets, program=lambda: None)
        stock = await asyncio.to_thread(Stack.select, spec.namespace, ours.workspace)
        expected = await asyncio.to_thread(stock.outputs)
        assert {name: vars(value) for name, value in ours.outputs().items()} == {
            n: vars(v) for n, v in expected.items()
        }
        told, known = await asyncio.to_thread(stock.info), ours.info()
    for field in ("kind", "result", "resource_changes", "environment", "message"):
        assert getattr(known, field) == getattr(told, field), field
    assert told is not None and known is not None
    assert known.start_time.timestamp() == pytest.approx(told.start_time.replace(tzinfo=UTC).timestamp(), abs=1)
    await engine.destroy(spec.namespace)


async def test_one_folder_has_one_engine(config, engine):
    await engine.start()
    second = PulumiEngine(config)

    with pytest.raises(DataInUse):
        await second.start()
    result = await second.up(small())
    assert not result.ok and "in use by another" in result.error


@pytest.mark.parametrize("name", ["../x", "", "a/b"])
async def test_a_name_that_is_no_namespace_reaches_no_file(engine, name):
    with pytest.raises(ValueError, match="not the name of a lease stack"):
        await engine.destroy(name)


async def no_deployments_in(client, namespace: str) -> None:
    """A namespace as a lease's whose quota the cluster has begun to keep."""
    labels = {"akash.network/namespace": namespace}
    client.create(Namespace(metadata=ObjectMeta(name=namespace, labels=labels)))
    hard = {"count/deployments.apps": "0"}
    client.create(ResourceQuota(metadata=ObjectMeta(name="none", namespace=namespace), spec=ResourceQuotaSpec(hard)))
    async with asyncio.timeout(20):
        while not client.get(ResourceQuota, "none", namespace=namespace).status.hard:
            await asyncio.sleep(0.05)


def exists(client, kind, name) -> bool:
    try:
        client.get(kind, name)
    except ApiError as error:
        assert error.status.code == 404
        return False
    return True


def steps(result) -> list[tuple[str, str, str]]:
    return [(change.op, change.type, change.name) for change in result.changes]


def everything_about_processes() -> list[bytes]:
    texts = []
    for folder in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                texts.append((folder / name).read_bytes())
            except OSError:
                continue
    return texts


async def test_no_temporary_file_is_left_though_the_plugin_never_removes_its_own(own_config, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    engine, spec = PulumiEngine(own_config), small()
    assert (await engine.up(spec)).ok
    assert (await engine.destroy(spec.namespace)).ok
    assert [path.name for path in elsewhere.iterdir() if path.name.startswith("kubeconfig")] == []
    assert [path.name for path in (own_config.data / "tmp").iterdir()] == ["resident-1"], "what its plugin uses"
    assert (own_config.quiet_home / "logs").is_file(), "Pulumi has logged nothing"
    await engine.close()
    assert list((own_config.data / "tmp").iterdir()) == []
