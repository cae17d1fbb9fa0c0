"""Run seeds, shorten what fails, say what happened: `make sim SEED=17`, `make sim SEEDS=1000`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import multiprocessing
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from components.lease import keep_built
from lease.manifest import Group
from tests.laws.simulation.rules import ALWAYS, IN_THE_END, LATER, broken
from tests.laws.simulation.steps import Step, draw, take
from tests.laws.simulation.volumes import due_in
from tests.laws.simulation.world import World
from tests.world.virtual import run_virtual

__all__ = ["STEPS", "Result", "alone", "commit", "main", "quiet", "run_seed", "shorten", "told"]

STEPS = 25
_CALM_S = (120.0, 400.0, 700.0)
"""After the faults: how long everything has to come to rest, and when it is looked whether it has."""
_BLOCK_S = 4.0


_EVERY, _LATER_S = 4, 900.0
"""One seed of these is looked at once more, so much later."""


@dataclass(frozen=True)
class Result:
    seed: int
    steps: tuple[Step, ...]
    problems: tuple[str, ...]
    faults: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)
    drawn: int = 0
    """What the run would draw next: two runs that differ anywhere hardly draw the same."""


def run_seed(seed: int, steps: Sequence[Step] | None = None, *, defect: str = "", count: int = STEPS) -> Result:
    """One run; `steps` instead of those the seed draws."""
    chosen = tuple(draw(seed, count) if steps is None else steps)
    return run_virtual(_run(seed, chosen, defect))


async def _run(seed: int, steps: tuple[Step, ...], defect: str) -> Result:
    world = World(seed, defect)
    controllers = asyncio.create_task(world.cluster.controllers())
    world.daemon.start()
    try:
        problems, done = await _live(world, steps)
        if not problems:
            problems = await _rest(world)
    finally:
        controllers.cancel()
        await world.end()
    return Result(
        seed, steps[:done], tuple(problems), world.faults.hits, _facts(world), world.faults.random.getrandbits(64)
    )


def _facts(world: World) -> Counter[str]:
    """Of every lease that ever was ours: what it was, and how far it came."""
    memory, leases = world.memory, [*world.alive(), *world.ended()]
    ran = [lease for lease in leases if lease in memory.ran]
    groups = {lease: memory.accepted[lease] for lease in ran}
    return Counter(
        leases=len(leases),
        ran=len(ran),
        ended=len(world.ended()),
        again=sum(lease.oseq > 1 for lease in leases),
        updates=sum(len(sent) - 1 for sent in groups.values()),
        volumes=sum(world.persistent(lease.order) for lease in ran),
        gpus=sum(bool(world.spec(lease.order).units[0].resources.gpu_units) for lease in ran),
        lies=memory.lies,
        migrations=memory.migrations,
        hostnames=sum(any(_exposes(group, "hosts") for group in sent) for sent in groups.values()),
        addresses=sum(any(_exposes(group, "ip") for group in sent) for sent in groups.values()),
        ups=len(world.engine.specs),
        lives=world.lives,
        braked=memory.braked,
        restores=memory.restores,
        fees_held_back=world.fees.held,
        seconds=int(world.now),
    )


def _exposes(group: Group, what: str) -> bool:
    return any(getattr(expose, what) for service in group.services or () for expose in service.expose or ())


async def _live(world: World, steps: Sequence[Step]) -> tuple[list[str], int]:
    for number, step in enumerate(steps, start=1):
        await take(world, step)
        if problems := broken(world, ALWAYS):
            return problems, number
    return [], len(steps)


async def _rest(world: World) -> list[str]:
    """No more faults; within bounded time the world is exactly what the chain says, and stays so without events."""
    world.faults.stop()
    await world.fees.calm()
    problems: list[str] = []
    for seconds in _CALM_S:
        for _ in range(int(seconds / _BLOCK_S)):  # a bid without an answer is waited for as many blocks as it may be in
            await asyncio.sleep(_BLOCK_S)
            await world.chain.push()
        world.memory.braked += len(world.daemon.leases.release_brake())
        problems = broken(world, IN_THE_END)
        if not problems or broken(world, ALWAYS):
            break
    if not problems and (seconds := due_in(world)):
        await asyncio.sleep(seconds)
        problems = broken(world, IN_THE_END)
    if not problems and world.seed % _EVERY == 0:
        await asyncio.sleep(_LATER_S)
        problems = broken(world, LATER)
    return problems


def shorten(result: Result, *, defect: str = "") -> Result:
    """Leave out steps, first many at a time, while any rule is still broken (delta debugging)."""
    best, size = result, max(1, len(result.steps) // 2)
    while size:
        start = 0
        while start < len(best.steps):
            fewer = best.steps[:start] + best.steps[start + size :]
            tried = run_seed(result.seed, fewer, defect=defect)
            if tried.problems:
                best = tried
            else:
                start += size
        size //= 2
    return best


def told(result: Result) -> str:
    lines = [f"seed {result.seed}: {len(result.problems)} rules broken after"]
    return "\n".join([*lines, *(f"  {step}" for step in result.steps), *(f"! {text}" for text in result.problems)])


def quiet() -> None:
    """The daemon's own words would drown the trace."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def alone() -> None:
    """Prepare a process that does nothing but play seeds: what is imported is garbage for no run, and equal specs make
    equal objects, which nothing here changes.
    """
    quiet()
    keep_built(64)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make sim")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--defect", default="")
    options = parser.parse_args()
    if options.seed is not None:
        return _one(options.seed, options.steps, options.defect)
    return _many(range(options.first, options.first + options.seeds), options.steps, processes=options.processes)


def _one(seed: int, steps: int, defect: str) -> int:
    alone()
    result = run_seed(seed, defect=defect, count=steps)
    if result.problems:
        print(told(shorten(result, defect=defect)))
        return 1
    print(f"seed {seed}: all rules held; {dict(result.facts)}; faults {dict(result.faults)}")
    return 0


def _many(seeds: range, steps: int, *, processes: int) -> int:
    """A line every 250 seeds, and at the end everything that was met."""
    began, cpu, faults, facts, failed = time.monotonic(), 0.0, Counter[str](), Counter[str](), list[int]()
    with multiprocessing.get_context("spawn").Pool(processes, alone) as pool:
        runs = pool.imap_unordered(partial(_timed, count=steps), seeds, chunksize=10)
        for done, (result, seconds) in enumerate(runs, start=1):
            cpu += seconds
            faults += result.faults
            facts += result.facts + Counter(steps=len(result.steps))
            if result.problems:
                failed.append(result.seed)
                print(f"seed {result.seed}: {result.problems[0]}", flush=True)
            if done % 250 == 0:
                spent = f"{time.monotonic() - began:.0f} s, {cpu:.0f} s of CPU"
                print(f"{done} seeds, {len(failed)} failed, {spent}", flush=True)
    spent = f"{time.monotonic() - began:.0f} s, {cpu:.0f} s of CPU"
    print(f"{len(seeds)} seeds of {steps} steps in {spent} at {commit()}: {dict(facts)}")
    print(f"faults that hit: {dict(faults.most_common())}")
    print(f"failed: {sorted(failed)}" if failed else "all rules held", flush=True)
    return 1 if failed else 0


def _timed(seed: int, *, count: int) -> tuple[Result, float]:
    began = time.process_time()
    return run_seed(seed, count=count), time.process_time() - began


def commit() -> str:
    """Short name of the commit that is checked out."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    asked = subprocess.run([git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    raise SystemExit(main())
