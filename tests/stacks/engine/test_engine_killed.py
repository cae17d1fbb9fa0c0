"""Whatever is killed in the middle of a creation, the next run converges and nothing goes on in the background."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from lightkube import ApiError
from lightkube.resources.apps_v1 import Deployment, StatefulSet
from lightkube.resources.core_v1 import Namespace, Secret, Service

from lease.spec import LeaseSpec
from stacks.common.processes import command_name, survivors
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.leases import demo, small
from tests.world.patience import eventually
from tests.world.processes import start_process

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.long,  # the resident engine loses each of its processes in every run (test_engine_resident.py)
    pytest.mark.xdist_group("engine"),  # they share one
    pytest.mark.asyncio(loop_scope="session"),
]

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def config(stock_config):
    return stock_config


@pytest.fixture
def engine(stock_engine):
    return stock_engine


def the_command_line(config: EngineConfig, engine: PulumiEngine, spec: LeaseSpec) -> list[int]:
    return [pid for pid in survivors(config.data, spec.namespace) if command_name(pid) == "pulumi"]


def the_plugin(config: EngineConfig, engine: PulumiEngine, spec: LeaseSpec) -> list[int]:
    return [pid for pid in survivors(config.data) if command_name(pid).startswith("pulumi-resource")]


def the_worker(config: EngineConfig, engine: PulumiEngine, spec: LeaseSpec) -> list[int]:
    return engine.worker_pids()


def all_of_them(config: EngineConfig, engine: PulumiEngine, spec: LeaseSpec) -> list[int]:
    return survivors(config.data)


async def creation_with_processes(config: EngineConfig, engine: PulumiEngine, client, victims):
    """A lease, its creation under way, and the processes to kill in it. On a busy machine a creation may have ended
    before its namespace is seen; another one is begun then.
    """
    for _ in range(20):
        spec = demo()
        running = asyncio.create_task(engine.up(spec))
        await until(partial(exists, client, spec.namespace))
        if killed := victims(config, engine, spec):
            return spec, running, killed
        await running
        await engine.destroy(spec.namespace)
    pytest.fail("no creation was seen before its end")


@pytest.mark.parametrize(
    "victims",
    [the_command_line, the_plugin, the_worker, all_of_them],
)
async def test_a_creation_that_loses_a_process_fails_clearly_and_the_next_converges(config, engine, client, victims):
    spec, running, killed = await creation_with_processes(config, engine, client, victims)
    for pid in killed:
        with suppress(ProcessLookupError):  # a plugin ends with its command line
            os.kill(pid, signal.SIGKILL)
    broken = await running

    if not broken.ok:
        assert broken.error
    assert broken.ok or victims is not the_worker or "worker" in broken.error
    again = await engine.up(spec)
    assert again.ok, again.error
    complete(client, spec)
    assert survivors(config.data, spec.namespace) == []
    assert (await engine.destroy(spec.namespace)).ok
    assert client.get(Namespace, spec.namespace).metadata.deletionTimestamp


@pytest.mark.parametrize(
    "with_workers",
    [
        pytest.param(False, id="daemon"),  # its workers are left behind: the harder of the two
        pytest.param(True, id="daemon and workers"),
    ],
)
async def test_a_killed_daemon_leaves_nothing_running_and_a_new_one_converges(own_config, client, with_workers):
    spec = demo()
    own_config.data.mkdir(parents=True)
    daemon = start_daemon(own_config, spec)
    await until(lambda: exists(client, spec.namespace))
    workers = [
        pid for pid in survivors(own_config.data) if command_name(pid).startswith("python") and pid != daemon.pid
    ]

    daemon.kill()
    for pid in workers if with_workers else ():
        os.kill(pid, signal.SIGKILL)
    daemon.wait()

    if not with_workers:
        await until(lambda: survivors(own_config.data) == [])
    engine = PulumiEngine(own_config)
    result = await engine.up(spec)
    assert result.ok, result.error
    assert "recovered" not in result.outputs or result.outputs["recovered"]
    complete(client, spec)
    assert (await engine.destroy(spec.namespace)).ok
    await engine.close()
    assert survivors(own_config.data) == []


async def test_a_stack_killed_in_its_first_run_and_then_destroyed_leaves_nothing(config, engine, client):
    spec = demo()  # its creation is under way when its namespace is seen
    running = asyncio.create_task(engine.up(spec))
    await until(lambda: exists(client, spec.namespace))
    for pid in all_of_them(config, engine, spec):
        os.kill(pid, signal.SIGKILL)
    await running

    destroyed = await engine.destroy(spec.namespace)

    assert destroyed.ok, destroyed.error
    assert client.get(Namespace, spec.namespace).metadata.deletionTimestamp
    assert spec.namespace not in await engine.stacks()


async def test_a_run_that_takes_too_long_is_interrupted_and_leaves_no_lock(own_config, client):
    spec = demo()
    engine = PulumiEngine(own_config.model_copy(update={"operation_seconds": 0.1}))
    await engine.start()
    await engine.destroy(small().namespace)  # a worker is warm now

    result = await engine.up(spec)

    assert not result.ok and result.error
    assert not list((own_config.folder(spec.namespace) / ".pulumi").glob("locks/**/*.json"))
    assert survivors(own_config.data, spec.namespace) == []
    await engine.close()
    patient = PulumiEngine(own_config)
    assert (await patient.up(spec)).ok
    complete(client, spec)
    await patient.destroy(spec.namespace)
    await patient.close()


async def test_a_cancelled_caller_ends_its_operation(config, engine, client):
    spec = demo()
    running = asyncio.create_task(engine.up(spec))
    await until(lambda: exists(client, spec.namespace))

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert survivors(config.data, spec.namespace) == []
    assert (await engine.up(spec)).ok
    await engine.destroy(spec.namespace)


async def test_closing_the_engine_ends_its_workers(own_config):
    engine = PulumiEngine(own_config)
    await engine.destroy(small().namespace)
    assert engine.worker_pids()

    await engine.close()

    assert survivors(own_config.data) == []


def start_daemon(config: EngineConfig, spec: LeaseSpec) -> subprocess.Popen[str]:
    daemon = start_process(
        [sys.executable, "-m", "tests.stacks.daemon"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert daemon.stdin
    with daemon.stdin as pipe:
        pipe.write(f"{config.model_dump_json()}\n{spec.canonical_json()}\n")
    return daemon


def complete(client, spec: LeaseSpec) -> None:
    namespace = spec.namespace
    objects = [(Deployment, "web"), (Service, "web")]
    if len(spec.services) > 1:
        objects += [(StatefulSet, "store"), (Service, "web-ip-8080-tcp"), (Secret, "docker-creds-web")]
    for kind, name in objects:
        client.get(kind, name, namespace=namespace)


def exists(client, namespace: str) -> bool:
    try:
        client.get(Namespace, namespace)
    except ApiError:
        return False
    return True


async def until(probe: Callable[[], bool]) -> None:
    await eventually(lambda: asyncio.to_thread(probe))


async def test_a_worker_that_died_while_it_was_idle_is_replaced_before_it_is_used(engine, client):
    spec = small()
    assert (await engine.up(spec)).ok
    for pid in engine.worker_pids():
        os.kill(pid, signal.SIGKILL)
    again = await engine.up(spec)
    assert again.ok, again.error
    assert (await engine.destroy(spec.namespace)).ok


async def test_an_empty_metadata_file_that_a_kill_left_beside_the_state_does_no_harm(config, engine, client):
    spec = small()
    assert (await engine.up(spec)).ok
    state = config.state_file(spec.namespace)
    state.with_name(state.name + ".attrs").write_bytes(b"")
    again = await engine.up(spec)
    assert again.ok, again.error
    assert (await engine.destroy(spec.namespace)).ok
