"""What every way to run a stack has to do alike: our class and the stock one, a folder a lease and another backend."""

from __future__ import annotations

import pytest
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace

from stacks.common.results import FailureCause, PropertyChange
from stacks.engine import PulumiEngine
from tests.stacks.leases import CANARY, small

pytestmark = pytest.mark.devnet

WAYS = {
    "stock, prefabricated stack": {"engine": "stock"},
    "stock, made by stack init": {"engine": "stock", "secrets": "passphrase"},
    "stock, another backend": {"engine": "stock", "backend": "file://{elsewhere}"},
    "resident, prefabricated stack": {"engine": "resident"},
    "resident, made by stack init": {"engine": "resident", "secrets": "passphrase"},
    "resident, another backend": {"engine": "resident", "backend": "file://{elsewhere}"},
    "resident, SDK": {"engine": "resident", "program": "sdk"},
    "resident, SDK, made by stack init": {"engine": "resident", "program": "sdk", "secrets": "passphrase"},
    "resident, SDK, another backend": {"engine": "resident", "program": "sdk", "backend": "file://{elsewhere}"},
    "the SDK's stack class": {"engine": "sdk", "skip_checkpoints": False},
}


OFTEN = {
    "stock, prefabricated stack",
    "resident, prefabricated stack",
    "resident, another backend",
    "resident, SDK",
}
"""What `make test` runs; the other ways differ in how a stack is made or where its state is, not in what runs it."""
assert WAYS.keys() > OFTEN


@pytest.fixture(
    params=[pytest.param(way, id=name, marks=() if name in OFTEN else pytest.mark.long) for name, way in WAYS.items()]
)
def chosen(request, config, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = {
        name: value.format(elsewhere=elsewhere) if name == "backend" else value for name, value in request.param.items()
    }
    return config.model_copy(update=told)


async def test_the_life_of_a_stack_is_the_same_whatever_runs_it(chosen, client, tmp_path):
    problems: list[str] = []
    engine = PulumiEngine(chosen, on_resident_problem=problems.append)
    spec = small()
    newer = small("nginx:2", lease=spec.lease)

    created = await engine.up(spec)
    assert created.ok, created.error
    assert "kubernetes:apps/v1:Deployment" in {change.type for change in created.changes if change.op == "create"}
    assert created.summary["create"] == len(created.changes) + 1, "the stack itself is counted, not shown"
    assert created.outputs == {"namespace": spec.namespace, "spec-hash": spec.content_hash()}
    assert await engine.stacks() == [spec.namespace]
    assert not any(problems), "a resident engine runs the operations, not a command line in its place"

    unchanged = await engine.up(spec)
    assert unchanged.ok and unchanged.changes == () and set(unchanged.summary) == {"same"}

    preview, updated = await engine.preview(newer), await engine.up(newer)
    assert preview.ok and updated.ok, preview.error + updated.error
    assert preview.changes == updated.changes
    (change,) = updated.changes
    path = "spec.template.spec.containers[0].image"
    assert change.properties == (PropertyChange(path, "update", "nginx:1", "nginx:2"),)
    image = client.get(Deployment, "web", namespace=spec.namespace).spec.template.spec.containers[0].image
    assert image == "nginx:2"

    assert (await engine.refresh(spec.namespace)).ok
    files = [path for path in tmp_path.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert files == [], "the tenant's secret is encrypted wherever the state is"
    destroyed = await engine.destroy(spec.namespace)
    assert destroyed.ok, destroyed.error
    assert client.get(Namespace, spec.namespace).metadata.deletionTimestamp
    assert await engine.stacks() == []
    missing = await engine.refresh(spec.namespace)
    assert not missing.ok and "there is no stack" in missing.error
    await engine.close()


@pytest.mark.long
async def test_a_stack_keeps_its_passphrase_when_the_setting_changes(config, client):
    spec = small()
    before = PulumiEngine(config.model_copy(update={"secrets": "passphrase"}))
    assert (await before.up(spec)).ok
    await before.close()

    after = PulumiEngine(config)
    updated = await after.up(small("nginx:2", lease=spec.lease))

    assert updated.ok, updated.error
    assert "encryptionsalt" in (config.folder(spec.namespace) / f"Pulumi.{spec.namespace}.yaml").read_text()
    assert (await after.destroy(spec.namespace)).ok
    await after.close()


async def test_a_vault_without_a_token_is_named_before_anything_is_made(config, client, tmp_path):
    told = {"secrets": "vault", "vault_url": "http://127.0.0.1:1", "vault_token_file": tmp_path / "none"}
    engine = PulumiEngine(config.model_copy(update=told))
    spec = small()

    result = await engine.up(spec)

    assert not result.ok and "Vault token" in result.error and result.cause is FailureCause.UNKNOWN
    assert await engine.stacks() == []
    await engine.close()
