"""What an operation costs: the stock `Stack.up`, the thin engine, the same with the shared plugin, and a bare apply.

    python -m benchmarks.engine [--rounds 7] [--leases 24] [--kubeconfig FILE]

One lease of thirteen objects is created, applied unchanged, changed by an image and destroyed, each way in turn on one
control plane, one operation at a time; then many leases are created as fast as the workers can. Seconds and CPU seconds
are medians; CPU is that of the worker with all its children, plus broker and plugin where they are shared, without the
cluster's. Destroy is measured to its end, which is later than the deletion of the namespace that it sends. The last
line is one JSON object; null is what this version cannot do (an opened update) or what is no engine's (an unchanged
lease starts no operation at all).
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
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from lightkube import AsyncClient, codecs
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Namespace

from benchmarks.broker import lease as twelve_objects
from components.lease import lease_objects
from devnet.controlplane import ControlPlane
from devnet.tools import Toolbox, ensure_tools
from lease.spec import LeaseSpec
from stacks.engine import EngineConfig, PulumiEngine
from stacks.engine.processes import survivors
from stacks.results import StackResult

STEPS = ("create", "unchanged", "change", "destroy")
ENGINES: dict[str, dict[str, Any]] = {
    "stock": {"engine": "stock", "secrets": "passphrase", "skip_checkpoints": False},
    "thin": {},
    "shared": {},
}
TICKS = os.sysconf("SC_CLK_TCK")
AT_ONCE = 12


def lease(image: str, like: LeaseSpec | None = None) -> LeaseSpec:
    """Thirteen objects: the twelve of the broker's benchmark and a second pull Secret."""
    spec = twelve_objects(image, like)
    web, api, *others = spec.services
    more = api.model_copy(update={"credentials": web.credentials})
    return spec.model_copy(update={"services": (web, more, *others)})


def spent(pids: list[int]) -> float:
    """CPU seconds of these processes and of their children that have ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(value) for value in fields[11:15])
    return total / TICKS


def proportional_mb(pids: list[int]) -> float:
    """Memory, shared pages counted once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total / 1024


class Trial:
    """The engines, warm, and what was measured."""

    def __init__(self, base: Path, kubeconfig: Path, tools: Toolbox) -> None:
        self.base, self.kubeconfig, self.tools = base, kubeconfig, tools
        self.taken: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self.client = AsyncClient(KubeConfig.from_file(kubeconfig).get())
        self.state_bytes: list[int] = []

    def config(self, way: str, *, workers: int = 1) -> EngineConfig:
        program, home = self.tools.program("pulumi"), self.tools.pulumi_home
        named = {"data": self.base / f"{way}{workers}", "kubeconfig": self.kubeconfig, "pulumi": program}
        return EngineConfig.model_validate(named | {"pulumi_home": home, "workers": workers} | ENGINES[way])

    @contextlib.asynccontextmanager
    async def engine(self, way: str, *, workers: int = 1) -> AsyncIterator[PulumiEngine]:
        engine = PulumiEngine(self.config(way, workers=workers), shared_plugin=way == "shared")
        await engine.start()
        try:
            yield engine
        finally:
            await engine.close()

    async def life(self, way: str, engine: PulumiEngine) -> None:
        first, data = lease("nginx:1"), self.config(way).data
        changed = lease("nginx:2", first)
        calls: tuple[Callable[[], Awaitable[StackResult]], ...] = (
            lambda: engine.up(first),
            lambda: engine.up(first),
            lambda: engine.up(changed),
            lambda: engine.destroy(first.namespace),
        )
        for step, call in zip(STEPS, calls, strict=True):
            pids = survivors(data)
            before, began = spent(pids), time.monotonic()
            result = await call()
            self.taken[way, step].append((time.monotonic() - began, spent(pids) - before))
            if not result.ok:
                raise SystemExit(f"{way} {step}: {result.error}")
            if way == "thin" and step == "change":
                self.state_bytes.append(self.config(way).state_file(first.namespace).stat().st_size)

    async def bare(self) -> None:
        """Server-side apply of the same objects, twelve at once, by this process."""
        first = lease("nginx:1")
        changed = lease("nginx:2", first)
        for step, spec in zip(STEPS, (first, first, changed, None), strict=True):
            before, began = spent([os.getpid()]), time.monotonic()
            if spec is None:
                await self.client.delete(Namespace, first.namespace)
            else:
                await self._apply(spec)
            self.taken["apply", step].append((time.monotonic() - began, spent([os.getpid()]) - before))

    async def _apply(self, spec: LeaseSpec) -> None:
        namespace, *others = [codecs.from_dict(item) for item in lease_objects(spec)]
        places = asyncio.Semaphore(AT_ONCE)

        async def one(item: Any) -> None:
            async with places:
                await self.client.apply(item, field_manager="benchmark", force=True)

        await one(namespace)
        await asyncio.gather(*(one(item) for item in others))

    async def many(self, leases: int, *, workers: int) -> tuple[float, float]:
        """Leases a second and the most memory that all processes of the engine had."""
        async with self.engine("shared", workers=workers) as engine:
            await asyncio.gather(*(engine.destroy(f"warm{number}") for number in range(workers)))
            specs, peak = [lease("nginx:1") for _ in range(leases)], [0.0]
            watching = asyncio.create_task(self._watch(self.config("shared", workers=workers).data, peak))
            began = time.monotonic()
            results = await asyncio.gather(*(engine.up(spec) for spec in specs))
            seconds = time.monotonic() - began
            watching.cancel()
            if failed := [result.error for result in results if not result.ok]:
                raise SystemExit(f"{len(failed)} of {leases} failed: {failed[0]}")
            for spec in specs:
                await self.client.delete(Namespace, spec.namespace)
        return leases / seconds, peak[0]

    async def _watch(self, data: Path, peak: list[float]) -> None:
        while True:
            pids = await asyncio.to_thread(survivors, data)
            peak[0] = max(peak[0], await asyncio.to_thread(proportional_mb, pids))
            await asyncio.sleep(0.5)

    def median(self, way: str, step: str, index: int) -> float:
        return statistics.median(taken[index] for taken in self.taken[way, step])

    def table(self) -> None:
        ways = (*ENGINES, "apply")
        print(f"{'seconds / CPU seconds':22}" + "".join(f"{way:>16}" for way in ways))
        for step in STEPS:
            cells = (f"{self.median(way, step, 0):.3f} / {self.median(way, step, 1):.2f}" for way in ways)
            print(f"{step:22}" + "".join(f"{cell:>16}" for cell in cells))

    def figures(self) -> dict[str, float | None]:
        def against_stock(way: str, step: str, index: int = 0) -> float:
            return round(self.median(way, step, index) / self.median("stock", step, index), 3)

        figures: dict[str, float | None] = {}
        for way, suffix in (("thin", ""), ("shared", "_shared")):
            figures[f"create_vs_stock{suffix}"] = against_stock(way, "create")
            figures[f"cpu_vs_stock{suffix}"] = against_stock(way, "create", 1)
            figures[f"change_vs_stock{suffix}"] = against_stock(way, "change")
            figures[f"destroy_vs_stock{suffix}"] = against_stock(way, "destroy")
        return figures | {"opened_vs_apply": None, "unchanged_ms": None}


async def measure(rounds: int, leases: int, kubeconfig: Path, tools: Toolbox) -> dict[str, float | None]:
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(Path(name), kubeconfig, tools)
        async with contextlib.AsyncExitStack() as stack:
            engines = {way: await stack.enter_async_context(trial.engine(way)) for way in ENGINES}
            for number in range(rounds + 1):
                for way, engine in engines.items():
                    await trial.life(way, engine)
                await trial.bare()
                if not number:
                    trial.taken.clear()  # the first one warms everything up
        print(f"{len(lease_objects(lease('nginx:1')))} objects, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
        trial.table()
        kilobytes = statistics.median(trial.state_bytes) / 1000
        figures = trial.figures()
        speed, peak = await trial.many(leases, workers=4)
        print(f"state of a lease after a change: {kilobytes:.0f} KB; {leases} leases by 4 workers: {speed:.2f}/s")
        return figures | {
            "leases_per_s": round(speed, 2),
            "peak_mb": round(peak),
            "state_kb": round(kilobytes),
            "load": round(os.getloadavg()[0], 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--leases", type=int, default=24)
    parser.add_argument("--kubeconfig", type=Path, help="of a running devnet; else one is started")
    options = parser.parse_args()
    tools = ensure_tools(build=False)
    with contextlib.ExitStack() as stack:
        kubeconfig = options.kubeconfig
        if kubeconfig is None:
            base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            kubeconfig = stack.enter_context(ControlPlane.start(base / "plane", tools)).kubeconfig
        print(json.dumps(asyncio.run(measure(options.rounds, options.leases, kubeconfig, tools))))


if __name__ == "__main__":
    main()
