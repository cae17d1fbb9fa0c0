"""Drift on a real API server with the real engine: hands change things, the lease loop puts them back.

The provider's own records live in memory: their definitions are not installed in the cluster that all tests share.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from provider.cluster import KubeCluster
from provider.lifecycle.state import Phase
from provider.operators.objects import MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, Kind, WatchEvent
from stacks.engine import EngineConfig, PulumiEngine
from stacks.results import Operation, StackResult
from tests.fakes.cluster import FakeCluster
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.devnet
_RECORDS = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP)
_SECONDS = 60.0
"""Far more than it takes: the machine may be busy. What it did take is asserted on the noticing alone."""


class TwoClusters:
    """`protocols.Cluster`: records in memory, all else in the real cluster."""

    def __init__(self, records: FakeCluster, real: KubeCluster) -> None:
        self._records = records
        self._real = real

    def _of(self, kind: str, namespace: str | None) -> Any:
        return self._records if kind in {record.kind for record in _RECORDS} or namespace == "lease" else self._real

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        found: dict[str, Any] | None = await self._of(kind.kind, namespace).get(kind, name, namespace=namespace)
        return found

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._of(kind.kind, namespace).list(
            kind, namespace=namespace, labels=labels
        )
        return found

    def watch(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[WatchEvent]:
        watching: AsyncIterator[WatchEvent] = self._of(kind.kind, namespace).watch(
            kind, namespace=namespace, labels=labels
        )
        return watching

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
        stored: dict[str, Any] = await self._of(obj["kind"], obj["metadata"].get("namespace")).apply(obj, status=status)
        return stored

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        cluster = self._of(kind.kind, namespace)
        return bool(await cluster.delete(kind, name, namespace=namespace, resource_version=resource_version))


class Counted:
    """The engine, and when it was asked for what."""

    def __init__(self, engine: PulumiEngine) -> None:
        self._engine = engine
        self.calls: list[tuple[Operation, str, float]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def up(self, spec: Any, **how: Any) -> StackResult:
        self.calls.append((Operation.UP, spec.namespace, time.monotonic()))
        return await self._engine.up(spec, **how)

    async def refresh(self, stack: str) -> StackResult:
        self.calls.append((Operation.REFRESH, stack, time.monotonic()))
        return await self._engine.refresh(stack)

    def of(self, lease: LeaseId) -> list[tuple[Operation, float]]:
        return [(operation, at) for operation, stack, at in self.calls if stack == namespace_name(lease)]


@asynccontextmanager
async def _provider(devnet: Any, toolbox: Toolbox, folder: Path) -> AsyncIterator[tuple[World, Counted]]:
    """A world whose tenants' objects are real, its loop running."""
    engine = PulumiEngine(
        EngineConfig(
            data=folder / "engine", kubeconfig=devnet.kubeconfig, pulumi=toolbox.program("pulumi"),
            pulumi_home=toolbox.pulumi_home, workers=2,
        )
    )  # fmt: skip
    real, world, counted = KubeCluster(devnet.kubeconfig), World(speed=1), Counted(engine)
    records = world.cluster
    world.cluster, world.engine = TwoClusters(records, real), counted  # type: ignore[assignment]
    world.restart()
    world.cluster = records
    task = asyncio.create_task(world.loop.run())
    try:
        yield world, counted
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await engine.close()
        await real.aclose()


async def _until(condition: Callable[[], Any], what: Callable[[], str]) -> None:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within {_SECONDS:g} s: {what()}")


def _runs(world: World, lease: LeaseId) -> bool:
    status = world.loop.statuses.get(lease)
    return status is not None and status.phase is Phase.RUNNING and not status.reason


HANDS = (
    ("delete", "service", "web"),
    ("set", "image", "deployment/web", "web=else:1"),
    ("label", "deployment", "web", "akash.network-"),
    ("scale", "deployment", "web", "--replicas=3"),
)


async def _repaired(world: World, engine: Counted, lease: LeaseId, hand: tuple[str, ...]) -> None:
    """Noticed soon, put right by one refresh and one update. The hand has just moved."""
    moved, seen = time.monotonic(), len(engine.of(lease))
    if seen % 2 == 0:
        seen -= 1  # the repair had begun before we came to look
    await _until(lambda: len(engine.of(lease)) == seen + 2, lambda: f"{hand}: noticed")
    operations, times = zip(*engine.of(lease)[seen:], strict=True)
    assert operations == (Operation.REFRESH, Operation.UP), hand
    assert times[0] - moved < 2.0 + 3.0, f"{hand}: noticed after {times[0] - moved:.1f} s"
    await _until(lambda: _runs(world, lease), lambda: f"{hand}: {world.loop.statuses[lease]}")


async def test_what_hands_change_is_put_right_and_no_other_stack_is_touched(
    devnet_cluster: Any, toolbox: Toolbox, tmp_path: Path
) -> None:
    touched, other = (a_lease(secrets.randbelow(2**50)) for _ in range(2))
    space = namespace_name(touched)
    async with _provider(devnet_cluster, toolbox, tmp_path) as (world, engine):
        for lease in (touched, other):
            await world.win(lease, a_group("nginx:1"))
            world.loop.look(lease)
        try:
            await _until(lambda: _runs(world, touched) and _runs(world, other), lambda: f"{dict(world.loop.statuses)}")
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
            await _until(
                lambda: _runs(world, touched), lambda: f"runs again on other pods: {world.loop.statuses[touched]}"
            )
            assert len(engine.of(touched)) == seen, "a pod that moves or an annotation beside ours is no drift"
            assert [operation for operation, _ in engine.of(other)] == [Operation.UP]
        finally:
            for lease in (touched, other):
                await devnet_cluster.kubectl_async("delete", "namespace", namespace_name(lease), "--wait=false")
