"""The saving by the shared plugin: one lease is created, applied again, changed and destroyed, in turn with its own
plugin and with the broker's, on one control plane.

    python -m benchmarks.broker [--rounds 7] [--kubeconfig FILE]

One run of the CLI at a time, with passphrase secrets and checkpoints. Wall and CPU seconds are medians; CPU includes
the run's plugin, or the time that the shared plugin and the broker used during the run. The last line is a JSON object.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.measurement import cluster, options, spent, twelve_objects
from devnet.tools import Toolbox
from lease.spec import LeaseSpec
from stacks.broker import Broker, BrokerSettings, installed_plugin

STEPS = ("create", "unchanged", "change", "destroy")
WAYS = ("own", "shared")
SETTINGS = {"PULUMI_SKIP_UPDATE_CHECK": "true", "PULUMI_DEBUG_COMMANDS": "true", "GOGC": "400"}


class Trial:
    """One driver, one broker, and the measurements."""

    def __init__(self, base: Path, kubeconfig: Path, tools: Toolbox, broker: Broker) -> None:
        self.base, self.kubeconfig, self.broker = base, kubeconfig, broker
        self.environment = tools.env() | SETTINGS | {"PULUMI_CONFIG_PASSPHRASE": "benchmark"}
        self.taken: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self.objects = 0

    async def start(self) -> None:
        argv = (sys.executable, "-m", "tests.stacks.broker.driver")
        pipe = asyncio.subprocess.PIPE
        self.driver = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, limit=1 << 24)

    async def life(self, way: str) -> None:
        first = twelve_objects("nginx:1")
        changed = twelve_objects("nginx:2", first)
        operations = (("up", first), ("up", first), ("up", changed), ("destroy", changed))
        for step, (operation, wanted) in zip(STEPS, operations, strict=True):
            shared = way == "shared"
            more = {"PULUMI_DEBUG_PROVIDERS": await self.broker.debug_providers()} if shared else {}
            status = await self.broker.status()
            pids = [status.pid, *(plugin.pid for plugin in status.plugins)] if shared else []
            before = spent(pids, children=False)
            answer = await self.run(operation, wanted, more)
            self.taken[way, step].append((answer["seconds"], answer["cpu"] + spent(pids, children=False) - before))
            self.objects = max(self.objects, sum(answer["steps"].values()))

    async def run(self, operation: str, wanted: LeaseSpec, more: dict[str, str]) -> dict[str, Any]:
        folder = self.base / wanted.namespace
        folder.mkdir(exist_ok=True)
        task: dict[str, object] = {"operation": operation, "stack": wanted.namespace, "spec": wanted.canonical_json()}
        task |= {"folder": str(folder), "kubeconfig": str(self.kubeconfig), "environment": self.environment | more}
        assert self.driver.stdin is not None and self.driver.stdout is not None
        self.driver.stdin.write(json.dumps(task).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await self.driver.stdout.readline())
        if answer["code"]:
            raise SystemExit(answer["text"])
        return answer

    def report(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for step in STEPS:
            for index, unit in enumerate(("seconds", "cpu")):
                own, shared = (statistics.median(t[index] for t in self.taken[way, step]) for way in WAYS)
                print(f"{step:10} {unit:8} own {own:6.3f}  shared {shared:6.3f}  ratio {shared / own:5.2f}")
                figures[f"{step}_{unit}_ratio"] = round(shared / own, 3)
        return figures


async def measure(rounds: int, kubeconfig: Path, tools: Toolbox) -> dict[str, float]:
    assert tools.pulumi_home is not None
    plugin = installed_plugin(tools.pulumi_home, importlib.metadata.version("pulumi-kubernetes"))
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        settings = BrokerSettings(plugin=(str(plugin),), scratch=base / "scratch")
        async with Broker(settings) as broker:
            trial = Trial(base, kubeconfig, tools, broker)
            await trial.start()
            for number in range(rounds + 1):
                for way in WAYS:
                    await trial.life(way)
                if not number:
                    trial.taken.clear()  # the first round fills caches
            status = await broker.status()
            print(f"{trial.objects} objects, {rounds} rounds; {sum(status.methods.values())} calls through the broker")
            figures = trial.report()
            figures["broker_mb"] = round(status.memory_bytes / 2**20)
            figures["plugin_mb"] = round(max(one.memory_bytes for one in status.plugins) / 2**20)
            return figures


def main() -> None:
    told = options(rounds=7).parse_args()
    with cluster(told.kubeconfig) as (kubeconfig, tools):
        print(json.dumps(asyncio.run(measure(told.rounds, kubeconfig, tools))))


if __name__ == "__main__":
    main()
