"""The cost of an operation: the SDK's `Stack.up`, a command line an operation (`LESSOR_ENGINE=stock`, here "thin"), the
resident engine (the default) with a list and with the SDK's program, and a bare server-side apply.

    python -m benchmarks.engine [--rounds 7] [--leases 200] [--workers 4] [--kubeconfig FILE]

One lease of thirteen objects is created, applied unchanged, changed by an image and destroyed, each way in turn on one
control plane, one operation at a time; then many leases are created as fast as the workers can, by command lines and by
the resident engine, and twenty at once beside twenty bare applies, three at once. Seconds and CPU seconds are medians.
CPU is that of the worker with all its children, plus the resident engine and its plugin, without the cluster's.
`sent` is the time from the request to destroy to the moment at which a watch reports the deletion of the namespace. The
last line is a JSON object; names without a suffix are those of the default, with `_thin` those of a command line an
operation. Those of the resident engine are compared with the bare apply: `create_vs_apply`,
`change_vs_apply`, `unchanged_vs_apply`, `cpu_s_a_create_resident`, `sent_ms_resident`, `burst20_s_vs_apply`,
`leases_per_s_60`, `cpu_s_a_lease_ours` and `peak_mb_resident` (the last three of `--burst` leases, 60). The resident
engine runs by turns with a list and with the SDK's program; the names of the way that is not the default end in `_list`
or `_program`.
"""

from __future__ import annotations

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

from benchmarks.measurement import cluster, lease, options, proportional_mb, spent
from benchmarks.unchanged_lease import unchanged_ms
from components.lease import lease_objects
from devnet.tools import Toolbox
from lease.spec import LeaseSpec
from stacks.common.processes import survivors
from stacks.common.results import StackResult
from stacks.engine import EngineConfig, PulumiEngine

STEPS = ("create", "unchanged", "change", "destroy")
SENT = "sent"
ENGINES: dict[str, dict[str, Any]] = {
    "stock": {"engine": "sdk", "secrets": "passphrase", "skip_checkpoints": False},
    "thin": {"engine": "stock"},
    "list": {"engine": "resident", "program": "list"},
    "program": {"engine": "resident", "program": "sdk"},
}
DEFAULT = "list" if EngineConfig.model_fields["program"].default == "list" else "program"
RESIDENT = {DEFAULT: "", "program" if DEFAULT == "list" else "list": "_program" if DEFAULT == "list" else "_list"}
"""The ways of the resident engine, the default first, with the suffixes of their names."""
AT_ONCE = 12
APPLIES = 3
"""Bare applies of whole leases at once, in the comparison of bursts."""


class Trial:
    """The engines after a first round, and the measurements."""

    def __init__(self, base: Path, kubeconfig: Path, tools: Toolbox) -> None:
        self.base, self.kubeconfig, self.tools = base, kubeconfig, tools
        self.taken: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self.client = AsyncClient(KubeConfig.from_file(kubeconfig).get())
        self.state_bytes: list[int] = []

    def config(self, way: str, *, workers: int = 1) -> EngineConfig:
        program, home = self.tools.program("pulumi"), self.tools.pulumi_home
        named: dict[str, object] = {
            "data": self.base / f"{way}{workers}",
            "kubeconfig": self.kubeconfig,
            "pulumi": program,
        }
        named |= {"pulumi_home": home, "workers": workers, "resident": self.tools.program("lessor-engine")}
        return EngineConfig.model_validate(named | ENGINES[way])

    @contextlib.asynccontextmanager
    async def engine(self, way: str, *, workers: int = 1) -> AsyncIterator[PulumiEngine]:
        problems: list[str] = []
        engine = PulumiEngine(self.config(way, workers=workers), on_resident_problem=problems.append)
        await engine.start()
        try:
            yield engine
        finally:
            await engine.close()
            if any(problems):
                raise SystemExit(f"{way}: {problems}")

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
            seen = asyncio.create_task(self._deletion(first.namespace)) if step == "destroy" else None
            result = await call()
            self.taken[way, step].append((time.monotonic() - began, spent(pids) - before))
            if seen is not None:
                self.taken[way, SENT].append((await seen - began, 0.0))
            if not result.ok:
                raise SystemExit(f"{way} {step}: {result.error}")
            if way == "thin" and step == "change":
                self.state_bytes.append(self.config(way).state_file(first.namespace).stat().st_size)

    async def _deletion(self, namespace: str) -> float:
        """The time at which a watch reports the deletion of the namespace."""
        async with asyncio.timeout(60):
            async for event, found in self.client.watch(Namespace, fields={"metadata.name": namespace}):
                if event == "DELETED" or (found.metadata and found.metadata.deletionTimestamp):
                    break
        return time.monotonic()

    async def bare(self) -> None:
        """Server-side apply of the same objects, twelve at once, by this process."""
        first = lease("nginx:1")
        changed = lease("nginx:2", first)
        for step, spec in zip(STEPS, (first, first, changed, None), strict=True):
            before, began = spent([os.getpid()]), time.monotonic()
            if spec is None:
                await self.client.delete(Namespace, first.namespace)
                self.taken["apply", SENT].append((time.monotonic() - began, 0.0))
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

    async def many(self, leases: int, *, workers: int, way: str = "thin") -> tuple[float, float, float]:
        """Seconds until all leases are made, CPU seconds a lease, and the peak memory of the engine's processes."""
        async with self.engine(way, workers=workers) as engine:
            await asyncio.gather(*(engine.destroy(f"warm{number}") for number in range(workers)))
            specs, peak = [lease("nginx:1") for _ in range(leases)], [0.0]
            data = self.config(way, workers=workers).data
            watching = asyncio.create_task(self._watch(data, peak))
            before, began = spent(survivors(data)), time.monotonic()
            results = await asyncio.gather(*(engine.up(spec) for spec in specs))
            seconds, used = time.monotonic() - began, spent(survivors(data)) - before
            watching.cancel()
            if failed := [result.error for result in results if not result.ok]:
                raise SystemExit(f"{len(failed)} of {leases} failed: {failed[0]}")
            for spec in specs:
                await self.client.delete(Namespace, spec.namespace)
        return seconds, used / leases, peak[0]

    async def applies(self, leases: int) -> float:
        """Seconds until as many leases are applied bare, three at once."""
        places = asyncio.Semaphore(APPLIES)

        async def one(spec: LeaseSpec) -> None:
            async with places:
                await self._apply(spec)

        specs, began = [lease("nginx:1") for _ in range(leases)], time.monotonic()
        await asyncio.gather(*(one(spec) for spec in specs))
        seconds = time.monotonic() - began
        for spec in specs:
            await self.client.delete(Namespace, spec.namespace)
        return seconds

    async def _watch(self, data: Path, peak: list[float]) -> None:
        while True:
            pids = await asyncio.to_thread(survivors, data)
            peak[0] = max(peak[0], await asyncio.to_thread(proportional_mb, pids))
            await asyncio.sleep(2)

    def median(self, way: str, step: str, index: int) -> float:
        return statistics.median(taken[index] for taken in self.taken[way, step])

    def table(self) -> None:
        ways = (*ENGINES, "apply")
        print(f"{'seconds / CPU seconds':22}" + "".join(f"{way:>16}" for way in ways))
        for step in (*STEPS, SENT):
            cells = (f"{self.median(way, step, 0):.3f} / {self.median(way, step, 1):.2f}" for way in ways)
            print(f"{step:22}" + "".join(f"{cell:>16}" for cell in cells))

    def figures(self) -> dict[str, float]:
        def against_stock(way: str, step: str, index: int = 0) -> float:
            return round(self.median(way, step, index) / self.median("stock", step, index), 3)

        figures: dict[str, float] = {}
        for way, suffix in (*RESIDENT.items(), ("thin", "_thin")):
            figures[f"create_vs_stock{suffix}"] = against_stock(way, "create")
            figures[f"cpu_vs_stock{suffix}"] = against_stock(way, "create", 1)
            figures[f"change_vs_stock{suffix}"] = against_stock(way, "change")
            figures[f"destroy_vs_stock{suffix}"] = against_stock(way, SENT)
            figures[f"destroyed_vs_stock{suffix}"] = against_stock(way, "destroy")
        for way, suffix in RESIDENT.items():
            figures |= self.against_apply(way, suffix)
        return figures

    def against_apply(self, way: str, suffix: str) -> dict[str, float]:
        """The resident engine's figures, one operation at a time."""
        ratios = {
            f"{step}_vs_apply{suffix}": round(self.median(way, step, 0) / self.median("apply", step, 0), 3)
            for step in ("create", "change", "unchanged")
        }
        return ratios | {
            f"cpu_s_a_create_resident{suffix}": round(self.median(way, "create", 1), 3),
            f"sent_ms_resident{suffix}": round(self.median(way, SENT, 0) * 1000),
        }


async def measure(
    kubeconfig: Path, tools: Toolbox, *, rounds: int, leases: int, workers: int, burst: int
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        trial = Trial(Path(name), kubeconfig, tools)
        await one_at_a_time(trial, rounds)
        print(f"{len(lease_objects(lease('nginx:1')))} objects, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
        trial.table()
        kilobytes = statistics.median(trial.state_bytes) / 1000
        figures = trial.figures() | {"unchanged_ms": await asyncio.to_thread(unchanged_ms)}
        figures |= await bursts(trial, burst, workers=workers)
        seconds, _, peak = await trial.many(leases, workers=workers)
        speed = leases / seconds
        print(f"state of a lease after a change: {kilobytes:.0f} KB; {leases} leases, {workers} workers: {speed:.2f}/s")
        return figures | {
            "leases_per_s": round(speed, 2),
            "peak_mb": round(peak),
            "state_kb": round(kilobytes),
            "load": round(os.getloadavg()[0], 1),
        }


async def one_at_a_time(trial: Trial, rounds: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        engines = {way: await stack.enter_async_context(trial.engine(way)) for way in ENGINES}
        for number in range(rounds + 1):
            for way, engine in engines.items():
                await trial.life(way, engine)
            await trial.bare()
            if not number:
                trial.taken.clear()  # the first round fills caches


async def bursts(trial: Trial, leases: int, *, workers: int) -> dict[str, float]:
    """Leases that are asked for at once, made by the resident engine."""
    figures: dict[str, float] = {}
    for way, suffix in RESIDENT.items():
        bare = await trial.applies(20)
        twenty, _, _ = await trial.many(20, workers=workers, way=way)
        seconds, used, peak = await trial.many(leases, workers=workers, way=way)
        print(
            f"{way}, {workers} workers: 20 leases in {twenty:.2f} s (bare, three at once: {bare:.2f} s), "
            f"{leases} in {seconds:.2f} s, {used:.3f} CPU s a lease, {peak:.0f} MB"
        )
        figures |= {
            f"burst20_s_vs_apply{suffix}": round(twenty / bare, 3),
            f"leases_per_s_60{suffix}": round(leases / seconds, 2),
            f"cpu_s_a_lease_ours{suffix}": round(used, 3),
            f"peak_mb_resident{suffix}": round(peak),
        }
    return figures


def main() -> None:
    chosen = options(rounds=7, leases=200, workers=4, burst=60).parse_args()
    with cluster(chosen.kubeconfig) as (kubeconfig, tools):
        numbers = {name: getattr(chosen, name) for name in ("rounds", "leases", "workers", "burst")}
        print(json.dumps(asyncio.run(measure(kubeconfig, tools, **numbers))))


if __name__ == "__main__":
    main()
