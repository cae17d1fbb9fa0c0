"""The growth of resources over thousands of operations on a rotating set of small leases and one engine.

    nice python -m benchmarks.soak [--operations 3000] [--minutes 30] [--workers 2] [--leases 6] [--changes 4]
    nice python -m benchmarks.soak --operations 900 --leases 300 --changes 1     # 300 leases at once

A lease is created, changed `--changes` times and destroyed, `--leases` side by side. Every twenty operations memory
(proportional, MB), open files and threads of the process with the engine, its workers, the resident engine and the
plugin are measured, and the resident engine's goroutines. The slope per 1,000 operations after the first third, 500 at
most, is printed with its standard error; `ours_mb` is the memory of all of them. At the end the engine is closed and
its leftovers are counted: zombies, processes, temporary files, folders. The last line is a JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measurement import cluster, options, proportional_mb
from devnet.tools import Toolbox
from lease.spec import LeaseSpec
from stacks.common.processes import command_name, survivors
from stacks.common.results import StackResult
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.leases import small

__all__ = ["slope"]

EVERY = 20
FIRST = 500
PARTS = ("daemon", "workers", "resident", "plugin")

Sample = dict[str, float]


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The slope of the least squares line through (x, y), and its standard error; needs three points at different x."""
    count = len(points)
    middle_x, middle_y = (sum(point[axis] for point in points) / count for axis in (0, 1))
    square = sum((x - middle_x) ** 2 for x, _ in points)
    found = sum((x - middle_x) * (y - middle_y) for x, y in points) / square
    residue = sum((y - middle_y - found * (x - middle_x)) ** 2 for x, y in points)
    return found, math.sqrt(residue / (count - 2) / square)


@dataclass
class Soak:
    """One engine, and its measurements."""

    engine: PulumiEngine
    data: Path
    operations: int
    deadline: float
    changes: int = 4
    done: int = 0
    failed: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        return self.done >= self.operations or time.monotonic() > self.deadline

    async def lives(self) -> None:
        """Create and end one lease after another."""
        while not self.over:
            spec = small("nginx:0")
            for number in range(1 + self.changes):
                if self.over and number:
                    break
                await self._counted(self.engine.up(_version(spec, number)))
            await self._counted(self.engine.destroy(spec.namespace))

    async def _counted(self, operation: Awaitable[StackResult]) -> None:
        result = await operation
        self.done += 1
        if not result.ok:
            self.failed.append(f"{result.operation}: {result.error}")
        if self.done % EVERY == 0:
            self.samples.append(await asyncio.to_thread(self._sample) | await self._goroutines())
            if self.done % (EVERY * 10) == 0:
                print(json.dumps(self.samples[-1]), flush=True)

    def _sample(self) -> Sample:
        parts = self._parts()
        sample: Sample = {"operations": self.done, "seconds": round(time.monotonic() - self.began)}
        sample["workers"] = len(parts["workers"])  # a worker that is being replaced is missing for a moment
        for name in PARTS:
            pids = parts[name]
            sample[f"{name}_mb"] = round(proportional_mb(pids), 1)
            sample[f"{name}_files"] = sum(_entries(pid, "fd") for pid in pids)
            sample[f"{name}_threads"] = sum(_entries(pid, "task") for pid in pids)
        sample["ours_mb"] = sum(sample[f"{name}_mb"] for name in PARTS)
        return sample | {"zombies": zombies(), "load": round(os.getloadavg()[0], 1)}

    async def _goroutines(self) -> Sample:
        """Of the resident engine that takes new operations; those of running operations are among them."""
        assert self.engine.resident is not None
        with contextlib.suppress(OSError):
            return {"goroutines": (await self.engine.resident.status())["goroutines"]}
        return {}

    def _parts(self) -> dict[str, list[int]]:
        resident = [pid for pid in survivors(self.data) if command_name(pid) == "lessor-engine"]
        plugins = [pid for pid in survivors(self.data) if command_name(pid).startswith("pulumi-resource")]
        return dict(zip(PARTS, ([os.getpid()], self.engine.worker_pids(), resident, plugins), strict=True))

    def slopes(self) -> dict[str, tuple[float, float]]:
        """The slopes of all measurements per 1,000 operations."""
        first, full = min(FIRST, self.operations / 3), max(sample["workers"] for sample in self.samples)
        late = [item for item in self.samples if item["operations"] > first and item["workers"] == full]
        names = [f"{part}_{unit}" for part in PARTS for unit in ("mb", "files", "threads")]
        points = {
            name: [(item["operations"] / 1000, item[name]) for item in late if name in item]
            for name in (*names, "ours_mb", "goroutines")
        }
        found = {name: slope(series) for name, series in points.items()}
        return {name: (round(value, 2), round(error, 2)) for name, (value, error) in found.items()}


def _version(spec: LeaseSpec, number: int) -> LeaseSpec:
    return small(f"nginx:{number}", lease=spec.lease)


def _entries(pid: int, kind: str) -> int:
    with contextlib.suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/{kind}").iterdir())
    return 0


def zombies() -> int:
    """The ended children of this process, and their descendants, that no process waited for."""
    parents: dict[int, int] = {}
    dead: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                if fields[0] == "Z":
                    dead.append(int(entry.name))
    return sum(os.getpid() in _ancestors(pid, parents) for pid in dead)


def _ancestors(pid: int, parents: dict[int, int]) -> list[int]:
    found = []
    while pid := parents.get(pid, 0):
        found.append(pid)
    return found


def left_over(data: Path, temporary: Path) -> dict[str, int]:
    """The leftovers after the engine was closed."""
    return {
        "zombies_left": zombies(),
        "processes_left": len(survivors(data)),
        "temporary_left": sum(1 for _ in temporary.rglob("*")) + sum(1 for _ in (data / "tmp").rglob("*")),
        "stacks_left": sum(1 for _ in (data / "stacks").iterdir()),
    }


async def soak(
    kubeconfig: Path, tools: Toolbox, *, operations: int, minutes: int, workers: int, leases: int, changes: int
) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        temporary, data = base / "temporary", base / "engine"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        pulumi, home = tools.program("pulumi"), tools.pulumi_home
        resident = tools.program("lessor-engine")
        config = EngineConfig(
            data=data, kubeconfig=kubeconfig, pulumi=pulumi, pulumi_home=home, workers=workers, resident=resident
        )
        engine = PulumiEngine(config)
        await engine.start()
        run = Soak(engine, data, operations, time.monotonic() + minutes * 60, changes)
        await asyncio.gather(*(run.lives() for _ in range(leases)))
        seconds = time.monotonic() - run.began
        await engine.close()
        return _figures(run, seconds) | left_over(data, temporary)


def _figures(run: Soak, seconds: float) -> dict[str, object]:
    slopes = run.slopes()
    print(f"{'per 1,000 operations':20}{'slope':>10}{'error':>10}{'first':>10}{'last':>10}")
    for name, (value, error) in slopes.items():
        first, last = (run.samples[at].get(name, math.nan) for at in (0, -1))
        print(f"{name:20}{value:10.2f}{error:10.2f}{first:10.1f}{last:10.1f}")
    for text in run.failed[:5]:
        print("failed:", text)
    peak = max(sample["ours_mb"] for sample in run.samples)
    return {
        "operations": run.done,
        "failed": len(run.failed),
        "minutes": round(seconds / 60, 1),
        "peak_mb": round(peak),
        "zombies_seen": max(sample["zombies"] for sample in run.samples),
        "slopes": slopes,
        "load": run.samples[-1]["load"],
    }


def main() -> None:
    chosen = options(operations=3000, minutes=30, workers=2, leases=6, changes=4).parse_args()
    with cluster(chosen.kubeconfig) as (kubeconfig, tools):
        numbers = {name: getattr(chosen, name) for name in ("operations", "minutes", "workers", "leases", "changes")}
        print(json.dumps(asyncio.run(soak(kubeconfig, tools, **numbers))))


if __name__ == "__main__":
    main()
