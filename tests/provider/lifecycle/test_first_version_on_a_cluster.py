"""A first version that an admission policy of a real API server refuses, with the real engine."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from lease.manifest import Group
from provider.lifecycle.state import Phase
from provider.protocols.clock import SystemClock
from stacks.common.results import Operation
from tests.provider.lifecycle.real import real_world, runs, until
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.patience import eventually

pytestmark = pytest.mark.devnet


def _two(image: str) -> Group:
    first, second = a_group("nginx:1").services, a_group(image, name="other").services
    assert first is not None and second is not None
    return Group("west", (replace(first[0], resources=replace(first[0].resources, id=2)), *second))


async def _forbid(devnet: Any, image: str, folder: Path, *, pods: bool = False) -> None:
    """A policy that denies Deployments, or pods, with this image; returns when the API server holds to it."""
    name = f"no-{secrets.token_hex(4)}"
    rule = {
        "apiGroups": ["" if pods else "apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pods" if pods else "deployments"],
    }
    said = f'!object.spec.{"" if pods else "template.spec."}containers.exists(c, c.image == "{image}")'
    kind = ("run", name, "--restart=Never") if pods else ("create", "deployment", name)
    group = "admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": said, "message": "images are signed here"}],
        },
    }
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    path = folder / "policy.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}))
    await devnet.kubectl_async("apply", "-f", str(path))

    async def holds() -> bool:
        try:
            await devnet.kubectl_async(*kind, f"--image={image}", "--dry-run=server")
        except pytest.fail.Exception as error:
            return "images are signed here" in str(error)
        return False

    await eventually(holds, pause_s=0.3)


async def _made(devnet: Any, lease: LeaseId) -> list[str]:
    found = await devnet.kubectl_async("-n", namespace_name(lease), "get", "deployments,services,pods", "-o", "name")
    return sorted(found.split())


async def test_a_refused_first_version_is_undone_and_a_dry_run_refuses_the_next_one_before_anything_is_made(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    lease, image = a_lease(secrets.randbelow(2**50)), f"unsigned-{secrets.token_hex(4)}:1"
    await _forbid(devnet_cluster, image, tmp_path)
    async with real_world(devnet_cluster, toolbox, tmp_path, world=World(clock=SystemClock())) as (world, engine):

        def failed(ups: int) -> bool:
            status = world.loop.statuses.get(lease)
            attempt = world.applied(lease).attempt
            undone = attempt is not None and attempt.restored and len(engine.of(lease)) == ups
            return undone and status is not None and status.phase is Phase.FAILED

        try:
            await world.win(lease, _two(image))  # its namespace does not stand yet: the engine meets the refusal
            world.loop.check(lease)
            await until(lambda: failed(2), lambda: f"{dict(world.loop.statuses)}, {engine.of(lease)}")
            assert "images are signed here" in world.loop.statuses[lease].reason
            await eventually(lambda: _nothing(devnet_cluster, lease))

            await world.send(lease, replace(_two(image), name="east"))
            world.loop.check(lease)
            await until(lambda: "HTTP 422" in world.loop.statuses[lease].reason, lambda: f"{dict(world.loop.statuses)}")
            assert "images are signed here" in world.loop.statuses[lease].reason
            assert engine.of(lease) == [Operation.UP, Operation.UP]
            assert await _made(devnet_cluster, lease) == []

            await world.send(lease, _two("nginx:2"))
            world.loop.check(lease)
            await until(lambda: runs(world, lease), lambda: f"{dict(world.loop.statuses)}")

            made, ups, denied = await _made(devnet_cluster, lease), engine.of(lease), f"pods-{image}"
            await _forbid(devnet_cluster, denied, tmp_path, pods=True)
            await world.send(lease, _two(denied))
            world.loop.check(lease)
            await until(
                lambda: world.loop.statuses[lease].phase is Phase.UPDATE_FAILED, lambda: f"{dict(world.loop.statuses)}"
            )
            assert "Pod other-dry-run: " in world.loop.statuses[lease].reason
            assert (await _made(devnet_cluster, lease), engine.of(lease)) == (made, ups), "no pod ended, none was made"
        finally:
            await engine.destroy(namespace_name(lease))


async def _nothing(devnet: Any, lease: LeaseId) -> bool:
    return await _made(devnet, lease) == []
