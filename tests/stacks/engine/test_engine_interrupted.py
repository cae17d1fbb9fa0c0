"""A kill between the cluster's yes and the state's: what the state has forgotten is neither left over nor believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lightkube import ApiError
from lightkube.resources.apps_v1 import Deployment

from lease.spec import LeaseSpec
from tests.components.specs import service, spec
from tests.stacks.engine.test_engine_killed import until
from tests.stacks.leases import small

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.xdist_group("engine"),  # they share one
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest.fixture
def config(shared_config):
    return shared_config


@pytest.fixture
def engine(shared_engine):
    return shared_engine


async def test_a_version_given_up_in_the_middle_of_its_update_is_undone(config, engine, client):
    first = small("nginx:1")
    second = small("nginx:2", lease=first.lease)
    assert (await engine.up(first)).ok
    before = _read(config, first)
    assert (await engine.up(second)).ok
    _forget(config, first, before, name="web", type_="kubernetes:apps/v1:Deployment", operation="updating")
    assert _image(client, first) == "nginx:2"

    again = await engine.up(first)

    assert again.ok, again.error
    assert _image(client, first) == "nginx:1"
    assert [change.name for change in (await engine.preview(first)).changes] == []
    assert (await engine.destroy(first.namespace)).ok


@pytest.mark.parametrize("made", [True, False], ids=["created", "not yet created"])
async def test_an_object_of_a_version_given_up_in_the_middle_of_its_creation_does_not_stay(
    config, engine, client, made
):
    first = small()
    second = spec(*first.services, service("extra"), lease=first.lease)
    assert (await engine.up(first)).ok
    before = _read(config, first)
    assert (await engine.up(second)).ok
    _forget(config, first, before, name="extra", type_="kubernetes:apps/v1:Deployment", operation="creating")
    if not made:
        client.delete(Deployment, "extra", namespace=first.namespace)

    again = await engine.up(first)

    assert again.ok, again.error
    await until(lambda: not _exists(client, "extra", first.namespace))  # it goes in the foreground, after its pods
    assert (await engine.destroy(first.namespace)).ok


async def test_what_was_in_the_middle_of_its_creation_is_kept_when_it_is_still_wanted(config, engine, client):
    first = small()
    second = spec(*first.services, service("extra"), lease=first.lease)
    assert (await engine.up(first)).ok
    before = _read(config, first)
    assert (await engine.up(second)).ok
    uid = client.get(Deployment, "extra", namespace=first.namespace).metadata.uid
    _forget(config, first, before, name="extra", type_="kubernetes:apps/v1:Deployment", operation="creating")

    again = await engine.up(second)

    assert again.ok, again.error
    assert client.get(Deployment, "extra", namespace=first.namespace).metadata.uid == uid
    assert (await engine.destroy(first.namespace)).ok


async def test_a_stack_killed_in_the_middle_of_an_update_can_be_destroyed_at_once(config, engine, client):
    first = small()
    second = spec(*first.services, service("extra"), lease=first.lease)
    assert (await engine.up(first)).ok
    before = _read(config, first)
    assert (await engine.up(second)).ok
    _forget(config, first, before, name="extra", type_="kubernetes:apps/v1:Deployment", operation="creating")

    destroyed = await engine.destroy(first.namespace)

    assert destroyed.ok, destroyed.error
    assert first.namespace not in await engine.stacks()


def _read(config: Any, spec: LeaseSpec) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_state(config, spec).read_bytes())
    return document


def _forget(config: Any, spec: LeaseSpec, before: dict[str, Any], *, name: str, type_: str, operation: str) -> None:
    """Put back the state as it was `before`, with the operation on one object begun: what a kill leaves."""
    after = _read(config, spec)["checkpoint"]["latest"]["resources"]
    (resource,) = [item for item in after if item["type"] == type_ and item["urn"].endswith(f"::{name}")]
    if operation == "creating":
        before["checkpoint"]["latest"]["resources"] = [item for item in after if item is not resource]
        resource = {key: value for key, value in resource.items() if key not in ("id", "outputs", "created")}
    before["checkpoint"]["latest"]["pending_operations"] = [{"resource": resource, "type": operation}]
    _state(config, spec).write_text(json.dumps(before))


def _state(config: Any, spec: LeaseSpec) -> Path:
    path: Path = config.state_file(spec.namespace)
    return path


def _exists(client: Any, name: str, namespace: str) -> bool:
    try:
        client.get(Deployment, name, namespace=namespace)
    except ApiError:
        return False
    return True


def _image(client: Any, spec: LeaseSpec) -> str:
    deployment = client.get(Deployment, "web", namespace=spec.namespace)
    return str(deployment.spec.template.spec.containers[0].image)
