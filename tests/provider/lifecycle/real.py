"""A lease loop whose tenants' objects are in a real cluster and whose engine is real.

The provider's own records live in memory: their definitions are not installed in the cluster that all tests share.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from provider.kube.client import KubeCluster
from provider.lifecycle.state import Phase
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, Kind, WatchEvent
from stacks.common.results import Operation, StackResult
from stacks.engine import EngineConfig, PulumiEngine
from tests.provider.lifecycle.world import World
from tests.world.cluster import FakeCluster
from tests.world.patience import eventually

__all__ = ["Counted", "TwoClusters", "engine_config", "real_world", "runs", "until"]

_RECORDS = (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP)


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
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._of(kind.kind, namespace).list(
            kind, namespace=namespace, labels=labels
        )
        return found

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        known: Iterable[Mapping[str, Any]] = (),
        current: Callable[[bool], None] = lambda _: None,
    ) -> AsyncIterator[WatchEvent]:
        watching: AsyncIterator[WatchEvent] = self._of(kind.kind, namespace).watch(
            kind, namespace=namespace, labels=labels, known=known, current=current
        )
        return watching

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False, dry_run: bool = False) -> dict[str, Any]:
        stored: dict[str, Any] = await self._of(obj["kind"], obj["metadata"].get("namespace")).apply(
            obj, status=status, dry_run=dry_run
        )
        return stored

    async def patch(
        self, kind: Kind, name: str, changes: Mapping[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        patched: dict[str, Any] = await self._of(kind.kind, namespace).patch(kind, name, changes, namespace=namespace)
        return patched

    async def take_fields(self, kind: Kind, name: str, *, label: str, namespace: str | None = None) -> bool:
        cluster = self._of(kind.kind, namespace)
        return bool(await cluster.take_fields(kind, name, label=label, namespace=namespace))

    async def delete(
        self, kind: Kind, name: str, *, namespace: str | None = None, resource_version: str | None = None
    ) -> bool:
        cluster = self._of(kind.kind, namespace)
        return bool(await cluster.delete(kind, name, namespace=namespace, resource_version=resource_version))


class Counted:
    """The engine, what it was asked for, and what it answered."""

    def __init__(self, engine: PulumiEngine) -> None:
        self._engine = engine
        self.calls: list[tuple[Operation, str]] = []
        self.results: list[StackResult] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def up(self, spec: Any, **how: Any) -> StackResult:
        self.calls.append((Operation.UP, spec.namespace))
        self.results.append(await self._engine.up(spec, **how))
        return self.results[-1]

    async def refresh(self, stack: str) -> StackResult:
        self.calls.append((Operation.REFRESH, stack))
        self.results.append(await self._engine.refresh(stack))
        return self.results[-1]

    def of(self, lease: LeaseId) -> list[Operation]:
        return [operation for operation, stack in self.calls if stack == namespace_name(lease)]


def engine_config(devnet: Any, toolbox: Toolbox, folder: Path) -> EngineConfig:
    return EngineConfig(
        data=folder / "engine", kubeconfig=devnet.kubeconfig, pulumi=toolbox.program("pulumi"),
        pulumi_home=toolbox.pulumi_home, workers=2, resident=toolbox.program("lessor-engine"),
    )  # fmt: skip


@asynccontextmanager
async def real_world(
    devnet: Any, toolbox: Toolbox, folder: Path, *, world: World | None = None, loop: bool = True
) -> AsyncIterator[tuple[World, Counted]]:
    """`world` (a new one) on the real cluster with the real engine; with `loop` its lease loop runs."""
    engine = PulumiEngine(engine_config(devnet, toolbox, folder))
    real, world, counted = KubeCluster(devnet.kubeconfig), world or World(clock=SystemClock()), Counted(engine)
    records = world.cluster
    world.engine = counted  # type: ignore[assignment]

    def restart() -> None:
        world.cluster = TwoClusters(records, real)  # type: ignore[assignment]
        type(world).restart(world)
        world.cluster = records

    world.restart = restart  # type: ignore[method-assign]
    restart()
    task = asyncio.create_task(world.loop.run()) if loop else None
    try:
        yield world, counted
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await engine.close()
        await real.aclose()


async def until(condition: Callable[[], Any], what: Callable[[], str]) -> None:
    try:
        await eventually(lambda: bool(condition()))
    except AssertionError as late:
        raise AssertionError(f"{late}: {what()}") from None


def runs(world: World, lease: LeaseId) -> bool:
    status = world.loop.statuses.get(lease)
    return status is not None and status.phase is Phase.RUNNING and not status.reason
