"""The time from a tenant's spec to the last of its objects in the API server.

    python -m benchmarks.opened_update [--rounds 7] [--kubeconfig FILE]

Three ways in turn, in one run: a bare server-side apply of the objects that are left when namespace and general policy
exist, an update that was opened before, and one that was not (which makes these two as well). Watches
report the objects, for all three alike. The last line is a JSON object; seconds are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from lightkube import AsyncClient, codecs
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace, Secret, Service
from lightkube.resources.networking_v1 import Ingress, NetworkPolicy

from benchmarks.measurement import lease
from components.lease import lease_objects
from devnet.controlplane import ControlPlane
from devnet.tools import Toolbox, ensure_tools
from lease.spec import LeaseSpec
from provider.lifecycle.spec_maker import openable, opening_spec
from stacks.engine import EngineConfig, PulumiEngine

__all__ = ["WAYS", "ratios", "taken"]

WAYS = ("apply", "opened", "not opened")
_KINDS: tuple[Any, ...] = (Secret, NetworkPolicy, Deployment, Service, Ingress)
_AT_ONCE = 12


class _Seen:
    """The objects of one namespace that watches report."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._at: dict[tuple[str, str], float] = {}

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[_Seen]:
        tasks = [asyncio.create_task(self._follow(kind)) for kind in _KINDS]
        await asyncio.sleep(0.2)
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, kind: Any) -> None:
        async for _, item in self._client.watch(kind, namespace=self._namespace):
            self._at.setdefault((kind.__name__, item.metadata.name), time.monotonic())

    async def last(self, wanted: set[tuple[str, str]]) -> float:
        """The time at which the last object existed."""
        async with asyncio.timeout(60):
            while not wanted <= self._at.keys():
                await asyncio.sleep(0.01)
        return max(self._at[key] for key in wanted)


async def taken(
    engine: PulumiEngine, client: AsyncClient, way: str, *, make: Callable[[], LeaseSpec], pause: float = 0.5
) -> float:
    """Seconds from the spec to its last object. The namespace is deleted again, the stack's folder stays."""
    spec = openable(make())
    opening = opening_spec(spec.lease, spec.cluster)
    early = lease_objects(opening)
    late = [item for item in lease_objects(spec) if item not in early]
    async with _Seen(client, spec.namespace).watching() as seen:
        if way == "opened":
            await _open(engine, opening)
        elif way == "apply":
            for item in early:
                await _apply(client, [item])
        await asyncio.sleep(pause)
        began = time.monotonic()
        await (_apply(client, late) if way == "apply" else _up(engine, spec, opened=way == "opened"))
        watched = {kind.__name__ for kind in _KINDS}
        wanted = {(item["kind"], item["metadata"]["name"]) for item in late if item["kind"] in watched}
        seconds = await seen.last(wanted) - began
    await client.delete(Namespace, spec.namespace)
    return seconds


async def _open(engine: PulumiEngine, opening: LeaseSpec) -> None:
    if not await engine.open(opening):
        raise SystemExit("the engine did not open the update")
    async with asyncio.timeout(60):
        while opening.namespace not in engine.opened:
            await asyncio.sleep(0.01)


async def _up(engine: PulumiEngine, spec: LeaseSpec, *, opened: bool) -> None:
    result = await engine.up(spec)
    if not result.ok or result.opened != opened:
        raise SystemExit(f"opened {result.opened}: {result.error}")


async def _apply(client: AsyncClient, manifests: list[dict[str, Any]]) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Any) -> None:
        async with places:
            await client.apply(item, field_manager="benchmark", force=True)

    await asyncio.gather(*(one(codecs.from_dict(item)) for item in manifests))


def ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Of medians."""
    apply, opened, plain = (statistics.median(seconds[way]) for way in WAYS)
    return {"opened_vs_apply": round(opened / apply, 2), "opened_vs_unopened": round(opened / plain, 3)}


async def measure(rounds: int, kubeconfig: Path, tools: Toolbox) -> dict[str, Any]:
    seconds: dict[str, list[float]] = defaultdict(list)
    client = AsyncClient(KubeConfig.from_file(kubeconfig).get())
    with tempfile.TemporaryDirectory() as name:
        config = EngineConfig(
            data=Path(name),
            kubeconfig=kubeconfig,
            pulumi=tools.program("pulumi"),
            pulumi_home=tools.pulumi_home,
            workers=2,
            engine="stock",
        )
        engine = PulumiEngine(config)
        await asyncio.gather(*(engine.refresh(f"warm{number}") for number in range(2)))
        for number in range(rounds + 1):
            for way in WAYS:
                found = await taken(engine, client, way, make=lambda: lease("nginx:1"))
                if number:  # the first round fills caches
                    seconds[way].append(found)
        await engine.close()
    for way in WAYS:
        print(f"{way:12}" + " ".join(f"{value:.3f}" for value in seconds[way]))
    medians = {way: round(statistics.median(seconds[way]), 3) for way in WAYS}
    return {**medians, **ratios(seconds), "load": round(os.getloadavg()[0], 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kubeconfig", type=Path, help="kubeconfig of a running devnet; default: start one")
    options = parser.parse_args()
    tools = ensure_tools(build=False)
    with contextlib.ExitStack() as stack:
        kubeconfig = options.kubeconfig
        if kubeconfig is None:
            base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            kubeconfig = stack.enter_context(ControlPlane.start(base / "plane", tools)).kubeconfig
        print(json.dumps(asyncio.run(measure(options.rounds, kubeconfig, tools))))


if __name__ == "__main__":
    main()
