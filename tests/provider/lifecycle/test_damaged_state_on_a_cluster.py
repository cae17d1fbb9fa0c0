"""Field problem P4: a state that is cut off, empty or inconsistent stops no lease and replaces no pod."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import namespace_name
from provider.lifecycle.state import Phase
from provider.protocols.clock import SystemClock
from tests.provider.lifecycle.real import real_world
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = [pytest.mark.devnet, pytest.mark.long]


def _without_provider(text: str) -> str:
    state = json.loads(text)
    latest = state["checkpoint"]["latest"]
    latest["resources"] = [each for each in latest["resources"] if not each["type"].startswith("pulumi:providers:")]
    return json.dumps(state)


def _without_parents(text: str) -> str:
    state = json.loads(text)
    latest = state["checkpoint"]["latest"]
    latest["resources"] = [each for each in latest["resources"] if each.get("custom")]
    return json.dumps(state)


DAMAGES: dict[str, Callable[[str], str]] = {
    "cut off": lambda text: text[: len(text) // 2],
    "empty": lambda text: "",
    "another document": lambda text: '{"version": 3}',
    "without its provider": _without_provider,
    "without its components": _without_parents,
}


async def _until_running(world: World, lease: Any) -> None:
    async with asyncio.timeout(60):
        while (outcome := await world.check(lease)).phase is not Phase.RUNNING or outcome.reason:
            assert outcome.phase in (Phase.APPLYING, Phase.DEGRADED), outcome
            await asyncio.sleep(0.3)


async def _uids(devnet: Any, space: str) -> set[str]:
    text = await devnet.kubectl_async("-n", space, "get", "pods,deployments,services", "-o", "json")
    return {obj["metadata"]["uid"] for obj in json.loads(text)["items"]}


async def test_a_damaged_state_is_made_good_without_a_human_and_nothing_is_replaced(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    lease = a_lease(secrets.randbelow(2**50))
    space = namespace_name(lease)
    world = World(clock=SystemClock())
    try:
        async with real_world(devnet_cluster, toolbox, tmp_path, world=world, loop=False) as _:
            await world.win(lease, a_group("nginx:0"))
            await _until_running(world, lease)
            for number, (name, damage) in enumerate(DAMAGES.items(), 1):
                before = await _uids(devnet_cluster, space)
                state = tmp_path / f"engine/stacks/{space}/.pulumi/stacks/lease/{space}.json"
                for file in (state, state.with_name(state.name + ".bak")):
                    if file.exists():
                        file.write_text(damage(file.read_text()))
                await world.send(lease, a_group("nginx:0", hosts=(f"n{number}.{lease.dseq}.example.com",)))
                await _until_running(world, lease)
                assert await _uids(devnet_cluster, space) == before, name
    finally:
        await devnet_cluster.kubectl_async("delete", "namespace", space, "--wait=false")
