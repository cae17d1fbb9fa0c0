"""One resident engine runs the operations of all stacks: what it shares, what its death costs, and who may ask it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from lightkube import ApiError, codecs
from lightkube.resources.apps_v1 import Deployment
from lightkube.resources.core_v1 import Namespace

from lease.spec import LeaseSpec
from stacks.common.processes import command_name, survivors
from stacks.common.results import FailureCause
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.engine.test_engine_killed import complete, exists, until
from tests.stacks.leases import demo, small
from tests.world.processes import start_process
from tests.world.users import STRANGER, needs_root

pytestmark = pytest.mark.devnet
OTHER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"other": "one"}},
        "template": {
            "metadata": {"labels": {"other": "one"}},
            "spec": {"containers": [{"name": "web", "image": "nginx:1"}]},
        },
    },
}
"""A Deployment as somebody else would make it."""


@pytest.fixture
async def engine(config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    engine = PulumiEngine(config)
    yield engine
    await engine.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def named(config: EngineConfig, name: str) -> list[int]:
    return [pid for pid in survivors(config.data) if command_name(pid).startswith(name)]


def lock_files(config: EngineConfig, spec: LeaseSpec) -> list[Path]:
    return list((config.folder(spec.namespace) / ".pulumi" / "locks").glob("**/*.json"))


def has_deployment(client, spec: LeaseSpec) -> bool:
    try:
        client.get(Deployment, "web", namespace=spec.namespace)
    except ApiError:
        return False
    return True


async def status(engine: PulumiEngine) -> dict[str, int]:
    assert engine.resident is not None
    return await engine.resident.status()


async def test_many_stacks_share_one_process_and_one_plugin_and_leave_nothing(engine, config):
    specs = [small() for _ in range(4)]
    created = await asyncio.gather(*(engine.up(spec) for spec in specs))
    assert [result.error for result in created] == [""] * 4
    (process,), (plugin,) = named(config, "lessor-engine"), named(config, "pulumi-resource")
    before = await status(engine)

    for _ in range(2):
        changed = await asyncio.gather(*(engine.up(small("nginx:2", lease=spec.lease)) for spec in specs))
        assert all(result.ok for result in changed)
    assert (named(config, "lessor-engine"), named(config, "pulumi-resource")) == ([process], [plugin])
    assert named(config, "pulumi\0") == [], "no command line was started"
    after = await status(engine)
    assert after["running"] == 0 and after["goroutines"] <= before["goroutines"], (before, after)

    assert all((await asyncio.gather(*(engine.destroy(spec.namespace) for spec in specs)), True))
    await engine.close()
    assert survivors(config.data) == []
    assert list(config.sockets.iterdir()) == []


async def test_a_refused_object_fails_the_update_for_the_same_reason_as_by_a_command_line(engine, config, client):
    spec = small()
    assert (await engine.up(spec)).ok
    client.delete(Deployment, "web", namespace=spec.namespace)
    await until(lambda: not has_deployment(client, spec))
    client.create(codecs.from_dict(OTHER), namespace=spec.namespace)  # its selector cannot be changed
    newer = small("nginx:2", lease=spec.lease)

    resident = await engine.up(newer)
    await engine.close()
    by_command_line = PulumiEngine(config.model_copy(update={"engine": "stock"}))
    stock = await by_command_line.up(newer)
    await by_command_line.destroy(spec.namespace)
    await by_command_line.close()

    assert not resident.ok and not stock.ok
    for refused in (resident, stock):  # the plugin's words before it differ after a first failure
        assert 'Deployment.apps "web" is invalid: spec.selector' in refused.error
    assert resident.cause is stock.cause is FailureCause.IMMUTABLE


@pytest.mark.long
async def test_updates_that_fail_leave_no_goroutine(engine, client):
    spec = demo()
    assert (await engine.up(spec)).ok

    async def refused(number: int) -> None:
        client.delete(Deployment, "web", namespace=spec.namespace)
        await until(lambda: not has_deployment(client, spec))
        client.create(codecs.from_dict(OTHER), namespace=spec.namespace)  # its selector cannot be changed
        assert not (await engine.up(demo(f"nginx:{number}", lease=spec.lease))).ok

    await refused(2)
    before = await status(engine)
    for number in range(3, 15):
        await refused(number)
    after = await status(engine)
    assert after["goroutines"] <= before["goroutines"] + 3, (before, after)


@pytest.mark.parametrize("victim", ["lessor-engine", "pulumi-resource", pytest.param("python", marks=pytest.mark.long)])
async def test_a_creation_that_loses_a_process_fails_clearly_and_the_next_converges(engine, config, client, victim):
    spec = demo()
    running = asyncio.create_task(engine.up(spec))
    await until(lambda: exists(client, spec.namespace))
    killed = engine.worker_pids() if victim == "python" else named(config, victim)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    broken = await running

    assert broken.ok or broken.error
    again = await engine.up(spec)
    assert again.ok, again.error
    complete(client, spec)
    assert lock_files(config, spec) == []
    unchanged = await engine.up(spec)
    assert unchanged.ok and unchanged.changes == ()
    assert (await engine.destroy(spec.namespace)).ok
    assert client.get(Namespace, spec.namespace).metadata.deletionTimestamp


async def test_the_death_of_the_resident_ends_all_updates_and_each_is_repaired(engine, config, client):
    specs = [small() for _ in range(6)]
    running = [asyncio.create_task(engine.up(spec)) for spec in specs]
    await until(lambda: exists(client, specs[0].namespace) or exists(client, specs[1].namespace))
    for pid in named(config, "lessor-engine"):
        os.kill(pid, signal.SIGKILL)
    await asyncio.gather(*running)
    await until(lambda: len(named(config, "pulumi-resource")) <= 1)

    again = await asyncio.gather(*(engine.up(spec) for spec in specs))
    assert [result.error for result in again] == [""] * 6
    for spec in specs:
        complete(client, spec)
    assert all(result.ok for result in await asyncio.gather(*(engine.destroy(spec.namespace) for spec in specs)))


async def test_a_cancelled_caller_ends_its_update_and_no_other(engine, config, client):
    ours, other = demo(), demo()
    cancelled = asyncio.create_task(engine.up(ours))
    going_on = asyncio.create_task(engine.up(other))
    await until(lambda: exists(client, ours.namespace))
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    assert (await going_on).ok
    assert (await status(engine))["running"] == 0
    assert lock_files(config, ours) == []
    assert (await engine.up(ours)).ok
    for spec in (ours, other):
        assert (await engine.destroy(spec.namespace)).ok


async def test_an_update_that_takes_too_long_is_cancelled_and_leaves_no_lock(config):
    spec = demo()
    engine = PulumiEngine(config.model_copy(update={"operation_seconds": 0.3}))
    await engine.start()
    await engine.destroy(small().namespace)
    result = await engine.up(spec)
    assert not result.ok and result.error
    assert lock_files(config, spec) == []
    await engine.close()
    patient = PulumiEngine(config)
    assert (await patient.up(spec)).ok
    assert (await patient.destroy(spec.namespace)).ok
    await patient.close()


async def test_an_old_resident_is_replaced_and_the_update_that_it_runs_is_not_lost(config, client):
    engine = PulumiEngine(config.model_copy(update={"resident_seconds": 0.1}))
    spec = small()
    try:
        assert (await engine.up(spec)).ok
        (old,) = named(config, "lessor-engine")
        results = []

        async def replaced() -> bool:
            updates = (engine.up(small(f"nginx:{number}", lease=spec.lease)) for number in (2, 3))
            results.extend([await update for update in updates])
            return old not in named(config, "lessor-engine")

        async with asyncio.timeout(120):
            while not await replaced():
                pass
        assert all(result.ok for result in results), [result.error for result in results]
        image = client.get(Deployment, "web", namespace=spec.namespace).spec.template.spec.containers[0].image
        assert image == "nginx:3"
        assert (await engine.destroy(spec.namespace)).ok
    finally:
        await engine.close()
    assert survivors(config.data) == []


async def test_a_renewed_kubeconfig_is_a_second_configuration_and_gets_a_plugin_of_its_own(config, tmp_path):
    own = tmp_path / "kubeconfig"
    document = yaml.safe_load(config.kubeconfig.read_text())
    own.write_text(yaml.safe_dump(document))
    engine = PulumiEngine(config.model_copy(update={"kubeconfig": own}))
    spec = small()
    try:
        assert (await engine.up(spec)).ok
        before = named(config, "pulumi-resource")
        document["users"].append({"name": "renewed", "user": {}})
        own.write_text(yaml.safe_dump(document))
        assert (await engine.up(small("nginx:2", lease=spec.lease))).ok
        await until(lambda: len(named(config, "pulumi-resource")) == 1)
        assert named(config, "pulumi-resource") != before, "the plugin has read the new kubeconfig"
        assert (await engine.destroy(spec.namespace)).ok
    finally:
        await engine.close()


@pytest.mark.long
async def test_two_configurations_at_once_have_a_plugin_each_until_their_updates_end(config, client, tmp_path):
    own = tmp_path / "kubeconfig"
    document = yaml.safe_load(config.kubeconfig.read_text())
    own.write_text(yaml.safe_dump(document))
    engine = PulumiEngine(config.model_copy(update={"kubeconfig": own}))
    first, second = demo(), demo()
    try:
        assert (await engine.destroy(small().namespace)).ok
        under_way = asyncio.create_task(engine.up(first))
        await until(lambda: exists(client, first.namespace))
        document["users"].append({"name": "renewed", "user": {}})
        own.write_text(yaml.safe_dump(document))
        results = await asyncio.gather(under_way, engine.up(second))
        assert [result.error for result in results] == ["", ""]
        for spec in (first, second):
            complete(client, spec)
        await until(lambda: len(named(config, "pulumi-resource")) == 1)
        for spec in (first, second):
            assert (await engine.destroy(spec.namespace)).ok
    finally:
        await engine.close()


@needs_root
@pytest.mark.long
async def test_an_update_that_finds_the_disk_full_at_its_end_fails_with_that_reason_and_the_next_converges(
    config, client, small_disk
):
    config = config.model_copy(update={"data": small_disk / "engine"})
    engine = PulumiEngine(config)
    spec, filling = demo(), small_disk / "filling"
    try:
        assert (await engine.destroy(small().namespace)).ok
        running = asyncio.create_task(engine.up(spec))
        await until(lambda: exists(client, spec.namespace))
        with suppress(OSError), filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        full = await running
        assert not full.ok and "no space left on device" in full.error.lower(), full
        at_once = await engine.up(spec)
        assert not at_once.ok and "no space left on device" in at_once.error.lower(), at_once

        filling.unlink()
        again = await engine.up(spec)
        assert again.ok, again.error
        complete(client, spec)
        assert lock_files(config, spec) == []
        assert not config.begun_file(spec.namespace).exists()
        assert (await engine.destroy(spec.namespace)).ok
    finally:
        await engine.close()


async def test_a_stack_that_a_command_line_has_locked_is_refused_until_it_ends(engine, config, tmp_path):
    spec = small()
    assert (await engine.up(spec)).ok
    folder = config.folder(spec.namespace) / ".pulumi" / "locks" / "organization" / "lease" / spec.namespace
    folder.mkdir(parents=True, exist_ok=True)
    stock = sleeping_as("pulumi", tmp_path)
    try:
        lock = {"pid": stock.pid, "username": "u", "hostname": "h", "timestamp": "2026-01-01T00:00:00Z"}
        (folder / "stock.json").write_text(json.dumps(lock))
        refused = await engine.up(small("nginx:2", lease=spec.lease))
        assert not refused.ok and refused.cause is FailureCause.LOCKED
    finally:
        stock.kill()
        stock.wait()
    assert (await engine.up(small("nginx:2", lease=spec.lease))).ok
    assert (await engine.destroy(spec.namespace)).ok


async def test_without_the_program_command_lines_run_the_operations_and_the_reason_is_told(config):
    told: list[str] = []
    lacking = config.model_copy(update={"resident": config.data / "none"})
    engine = PulumiEngine(lacking, on_resident_problem=told.append)
    spec = small()
    assert (await engine.up(spec)).ok
    assert (await engine.destroy(spec.namespace)).ok
    assert len(told) == 1 and "lessor-engine" in told[0]
    await engine.close()


@needs_root
async def test_another_user_is_refused_at_the_socket_even_where_its_folder_is_open(engine, config):
    assert (await engine.destroy(small().namespace)).ok
    (socket,) = config.sockets.iterdir()
    assert config.sockets.stat().st_mode & 0o077 == 0
    socket.chmod(0o777)
    config.sockets.chmod(0o755)

    assert await asyncio.to_thread(is_answered, socket, os.geteuid())
    assert not await asyncio.to_thread(is_answered, socket, STRANGER)


def is_answered(path: Path, user: int) -> bool:
    """Whether a request of this user at the socket is answered. The folder is opened before, by root."""
    folder = os.open(path.parent, os.O_PATH)
    program = f"""
import os, socket
os.setresuid({user}, {user}, {user})
connection = socket.socket(socket.AF_UNIX)
connection.connect("/proc/self/fd/{folder}/{path.name}")
try:
    connection.sendall(b'{{"operation": "status"}}\\n')
    print(b"goroutines" in connection.recv(4096))
except (BrokenPipeError, ConnectionResetError):
    print(False)
"""
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, pass_fds=[folder])
    finally:
        os.close(folder)
    return done.stdout.strip() == b"True"


def sleeping_as(name: str, folder: Path) -> subprocess.Popen[bytes]:
    """A process of this name that only sleeps."""
    program = folder / name
    program.write_bytes(Path("/bin/sleep").resolve().read_bytes())
    program.chmod(0o755)
    return start_process([str(program), "600"])
