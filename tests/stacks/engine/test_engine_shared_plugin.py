"""Operations of the engine share one Kubernetes plugin; what happens to it costs an operation at most."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
from lightkube import ApiError
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace

from stacks.common.processes import command_name, survivors
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.leases import small

pytestmark = pytest.mark.devnet
_PLUGIN = "pulumi-resource"


@pytest.fixture
async def sharing(config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    engine = PulumiEngine(config.model_copy(update={"engine": "stock"}))
    yield engine
    await engine.close()


def plugins(config: EngineConfig) -> list[int]:
    return [pid for pid in survivors(config.data) if command_name(pid).startswith(_PLUGIN)]


async def test_one_plugin_carries_create_update_and_destroy_and_its_death_costs_one_operation(sharing, config, client):
    spec = small()
    namespace = spec.namespace
    created = await sharing.up(spec)
    assert created.ok, created.error
    assert sharing.shared_plugin_problem == ""
    (plugin,) = plugins(config)

    updated = await sharing.up(small("nginx:2", lease=spec.lease))
    assert updated.ok and updated.summary["update"] == 1, updated.error
    assert plugins(config) == [plugin], "no operation has started one of its own"

    running = asyncio.create_task(sharing.up(small("nginx:3", lease=spec.lease)))
    await asyncio.sleep(0.4)
    os.kill(plugin, signal.SIGKILL)
    await running  # it may have been through already
    again = await sharing.up(small("nginx:3", lease=spec.lease))
    assert again.ok, again.error
    deployment = client.get(Deployment, "web", namespace=namespace)
    assert deployment.spec.template.spec.containers[0].image == "nginx:3"
    assert plugin not in plugins(config)

    assert (await sharing.destroy(namespace)).ok
    try:
        assert client.get(Namespace, namespace).metadata.deletionTimestamp
    except ApiError as error:
        assert error.status.code == 404
    await sharing.close()
    assert survivors(config.data) == [] and not (config.data / "tmp" / "broker").exists()


async def test_without_an_installed_plugin_there_is_no_broker_and_the_reason_is_told(config, tmp_path):
    told: list[str] = []
    engine = PulumiEngine(
        config.model_copy(update={"engine": "stock", "pulumi_home": tmp_path / "empty"}), on_plugin_problem=told.append
    )
    try:
        await engine.start()

        assert "no kubernetes plugin" in engine.shared_plugin_problem
        assert (await engine.destroy(small().namespace)).ok, "the engine works on"
        assert told == [engine.shared_plugin_problem], "once, not at every operation"
    finally:
        await engine.close()
