"""The real command line before the real plugin and a real API server, through the broker."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from lease.spec import LeaseSpec
from stacks.broker import Broker, BrokerSettings, installed_plugin
from stacks.common.processes import alive
from tests.stacks.broker.conftest import until
from tests.stacks.leases import CANARY, PASSWORD, small

pytestmark = pytest.mark.devnet


@dataclass
class World:
    """A broker, drivers of command lines, and a folder for the stacks."""

    broker: Broker
    base: Path
    kubeconfig: Path
    environment: dict[str, str]
    drivers: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def driver(self) -> Callable[..., Any]:
        """A command line at a time: `await run("up", spec)`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.stacks.broker.driver"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
            start_new_session=True,
        )
        self.drivers.append(process)

        async def run(operation: str, spec: LeaseSpec, **more: Any) -> dict[str, Any]:
            folder = self.base / spec.namespace
            folder.mkdir(exist_ok=True)
            providers = {"PULUMI_DEBUG_PROVIDERS": await self.broker.debug_providers()}
            task = {"operation": operation, "stack": spec.namespace, "spec": spec.canonical_json()}
            task |= {"folder": str(folder), "kubeconfig": str(self.kubeconfig), **more}
            assert process.stdin and process.stdout
            process.stdin.write(json.dumps(task | {"environment": self.environment | providers}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(await process.stdout.readline())
            assert "panic" not in answer["text"]
            return answer

        return run


@pytest.fixture
def world(devnet_cluster, toolbox, tmp_path) -> Callable[..., Any]:
    @asynccontextmanager
    async def start(*, kubeconfig: Path | None = None, **changes: object) -> AsyncIterator[World]:
        plugin = installed_plugin(toolbox.pulumi_home, importlib.metadata.version("pulumi-kubernetes"))
        settings = BrokerSettings(plugin=(str(plugin),), scratch=tmp_path / "scratch", **changes)
        environment = toolbox.env() | {
            "PULUMI_CONFIG_PASSPHRASE": "for-this-test-only",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DEBUG_COMMANDS": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        }
        async with Broker(settings) as broker:
            world = World(broker, tmp_path, kubeconfig or devnet_cluster.kubeconfig, environment)
            try:
                yield world
            finally:
                for process in world.drivers:
                    assert process.stdin
                    process.stdin.close()
                    await process.wait()
        assert not (tmp_path / "scratch").exists()

    return start


def good(answer: dict[str, Any], **steps: int) -> bool:
    assert answer["code"] == 0, answer["text"]
    return answer["steps"] == steps


async def life(run: Callable[..., Any], spec: LeaseSpec) -> int:
    """Create, look, change, destroy; how many operations that was."""
    changed = small("nginx:2", lease=spec.lease)
    assert good(await run("up", spec), create=4)
    assert good(await run("up", spec), same=4)
    assert (await run("preview", changed))["code"] == 0
    assert good(await run("up", changed), same=3, update=1)
    assert good(await run("refresh", changed), same=4)
    assert good(await run("destroy", changed), delete=4)
    return 6


async def test_a_stack_lives_on_the_shared_plugin_and_no_secret_is_left_behind(world, tmp_path):
    async with world() as w:
        run, spec = await w.driver(), small()
        assert good(await run("up", spec), create=4)
        assert good(await run("up", small("nginx:2", lease=spec.lease)), same=3, update=1)
        assert good(await run("destroy", spec), delete=4)
        status = await w.broker.status()
        assert (status.started, status.lost) == (1, 0)
        assert status.methods["Cancel"] == status.methods["Attach"] == status.methods["Configure"] == 3
        told = w.broker.last_words() + status.model_dump_json()
        assert CANARY not in told and PASSWORD not in told
        for file in (tmp_path / "scratch").rglob("*"):
            assert not file.is_file() or CANARY.encode() not in file.read_bytes()


@pytest.mark.long
async def test_four_at_once_for_sixty_operations_without_a_fault(world):
    async with world() as w:
        runs = [await w.driver() for _ in range(4)]

        async def lives(run: Callable[..., Any]) -> int:
            return sum([await life(run, small()) for _ in range(3)])

        assert sum(await asyncio.gather(*(lives(run) for run in runs))) == 72
        status = await w.broker.status()
        assert (status.started, status.lost, status.lingering) == (1, 0, [])
        print(status.model_dump_json())


async def test_a_plugin_killed_in_the_middle_fails_that_run_only(world):
    async with world() as w:
        run, spec = await w.driver(), small()
        running = asyncio.create_task(run("up", spec))
        await until(lambda: running.done() or bool(list((w.base / spec.namespace).glob("events"))), seconds=60)
        await _some_create(w)
        os.kill((await w.broker.status()).plugins[0].pid, signal.SIGKILL)
        first = await running
        second = await run("up", spec)
        if second["code"]:  # a create that was lost is pending, which the command line wants to be told about
            assert "pending" in second["text"], second["text"]
        assert first["code"] == 0 or "plugin ended during" in first["text"], first["text"]
        assert (await run("destroy", spec))["code"] == 0
        assert (await w.broker.status()).lost == 1


async def _some_create(w: World) -> None:
    """Until the plugin is at work on objects."""
    while not (await w.broker.status()).methods.get("Check"):
        await asyncio.sleep(0.01)


@pytest.mark.long
async def test_a_broker_killed_between_two_runs_costs_nothing(world):
    async with world() as w:
        run, spec = await w.driver(), small()
        assert good(await run("up", spec), create=4)
        before = await w.broker.status()
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: not alive(before.pid) and not alive(before.plugins[0].pid))
        assert good(await run("up", spec), same=4)
        assert good(await run("destroy", spec), delete=4)


@pytest.mark.long
async def test_a_broker_killed_in_the_middle_fails_the_run_and_the_next_one_is_fine(world):
    async with world() as w:
        run, spec = await w.driver(), small()
        assert good(await run("up", spec), create=4)
        running = asyncio.create_task(run("up", small("nginx:2", lease=spec.lease)))
        await _some_create(w)
        os.kill(w.broker.pid, signal.SIGKILL)
        await asyncio.wait_for(running, 60)
        assert (await run("destroy", spec))["code"] == 0


@pytest.mark.long
async def test_a_kind_that_came_after_the_plugin_had_read_the_schema_is_known(world, devnet_cluster):
    group = f"{secrets.token_hex(4)}.example.org"
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    async with world(doubt_seconds=0) as w:
        run, spec = await w.driver(), small()
        assert good(await run("up", spec), create=4)
        await devnet_cluster.kubectl_async("apply", "-f", "-", stdin=json.dumps(crd))
        await devnet_cluster.kubectl_async("wait", "--for=condition=Established", f"crd/things.{group}")
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": spec.namespace}, "spec": {"a": "b"}}
        try:
            assert good(await run("up", spec, extra=[thing]), same=4, create=1)
            assert good(await run("destroy", spec, extra=[thing]), delete=5)
        finally:
            await devnet_cluster.kubectl_async("delete", "crd", f"things.{group}", "--wait=false")


class Relay:
    """A way to the API server that can be cut, connections included."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        except (asyncio.CancelledError, ConnectionError):
            pass
        finally:
            for end in (writer, back):
                end.transport.abort()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        sink.write(data)
        await sink.drain()
    sink.close()


@pytest.mark.long
async def test_an_api_server_that_was_away_is_found_again(world, devnet_cluster, tmp_path):
    relay = Relay(int(devnet_cluster.api_server.rpartition(":")[2]))
    await relay.open()
    document = yaml.safe_load(devnet_cluster.kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{relay.port}"
    kubeconfig = tmp_path / "through-the-relay"
    kubeconfig.write_text(yaml.safe_dump(document))
    async with world(kubeconfig=kubeconfig, doubt_seconds=0) as w:
        run, spec = await w.driver(), small()
        assert good(await run("up", spec), create=4)
        await relay.cut()
        refused = await run("up", small("nginx:2", lease=spec.lease))
        assert refused["code"] != 0, "a plugin that knows its cluster tells that it is away"
        refused = await run("refresh", spec)  # this one had a fresh plugin, which never saw the cluster
        assert refused["code"] != 0 and "unreachable" in refused["text"], refused["text"]
        await relay.open()
        assert good(await run("up", small("nginx:2", lease=spec.lease)), same=3, update=1)
        assert good(await run("destroy", spec), delete=4)
    await relay.cut()
