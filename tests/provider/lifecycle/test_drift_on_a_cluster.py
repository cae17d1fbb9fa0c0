"""Drift on a real API server with the real engine: hands change things, the lease loop puts them back."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from lease.spec import ClusterFacts
from provider.protocols.clock import SystemClock
from stacks.common.results import Operation
from tests.provider.lifecycle.real import Counted, real_world, runs, until
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.devnet

RESTRICTIONS = "akash-deployment-restrictions"
HANDS = (
    ("delete", "service", "web"),
    ("set", "image", "deployment/web", "web=else:1"),
    ("label", "deployment", "web", "akash.network-"),
    ("scale", "deployment", "web", "--replicas=3"),
    ("patch", "networkpolicy", RESTRICTIONS, "-p", '{"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}'),
    ("patch", "service", "web", "-p", '{"spec": {"selector": {"a": "b"}, "ports": [{"port": 22, "name": "x"}]}}'),
)


class _Isolated(World):
    facts = ClusterFacts(network_policies=True)


async def _repaired(world: World, engine: Counted, lease: LeaseId, hand: tuple[str, ...]) -> None:
    """Noticed by a watch (`until` has less patience than `resync_s`), put right by one refresh and one update. The hand
    has just moved.
    """
    seen = len(engine.of(lease))
    if seen % 2 == 0:
        seen -= 1  # the repair had begun before we came to look
    await until(lambda: len(engine.of(lease)) == seen + 2, lambda: f"{hand}: noticed")
    assert engine.of(lease)[seen:] == [Operation.REFRESH, Operation.UP], hand
    await until(lambda: runs(world, lease), lambda: f"{hand}: {world.loop.statuses[lease]}")


async def test_what_hands_change_is_put_right_and_no_other_stack_is_touched(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    touched, other = (a_lease(secrets.randbelow(2**50)) for _ in range(2))
    space = namespace_name(touched)
    async with real_world(devnet_cluster, toolbox, tmp_path, world=_Isolated(clock=SystemClock())) as (world, engine):
        for lease in (touched, other):
            await world.win(lease, a_group("nginx:1"))
            world.loop.check(lease)
        try:
            await until(lambda: runs(world, touched) and runs(world, other), lambda: f"{dict(world.loop.statuses)}")
            for hand in HANDS:
                await devnet_cluster.kubectl_async("-n", space, *hand)
                await _repaired(world, engine, touched, hand)
            deployment = await devnet_cluster.kubectl_async(
                "-n", space, "get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {..image}"
            )
            assert deployment.split() == ["1", "nginx:1"]
            await devnet_cluster.kubectl_async("-n", space, "get", "service", "web")

            seen = len(engine.of(touched))
            await devnet_cluster.kubectl_async("-n", space, "delete", "pod", "--all", "--wait=false")
            await devnet_cluster.kubectl_async("-n", space, "annotate", "deployment", "web", "somebody=was-here")
            await asyncio.sleep(2)
            await until(
                lambda: runs(world, touched), lambda: f"runs again on other pods: {world.loop.statuses[touched]}"
            )
            assert len(engine.of(touched)) == seen, "a pod that moves or an annotation beside ours is no drift"
            assert engine.of(other) == [Operation.UP]
        finally:
            for lease in (touched, other):
                await devnet_cluster.kubectl_async("delete", "namespace", namespace_name(lease), "--wait=false")
