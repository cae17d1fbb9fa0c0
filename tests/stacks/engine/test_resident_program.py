"""The resident engine's program without a cluster: stacks that hold nothing but themselves, their secrets and locks."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.automation import Stack, UpResult
from pulumi.automation.errors import CommandError, ConcurrentUpdateError

from components.resources.manifest import ClusterProvider, ManifestResource
from devnet.tools import Toolbox
from stacks.common.causes import cause_of
from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import OperationRefused
from stacks.common.files import prepare_home, prepare_key
from stacks.common.listeners import fence_problem
from stacks.common.processes import alive, command_name, other_pids, parent, survivors
from stacks.common.results import FailureCause
from stacks.common.transit import TransitKey, TransitService
from stacks.engine import PulumiEngine
from stacks.engine.pool import worker_environment
from stacks.engine.resident import ResidentEngine, resident_problem
from stacks.worker.events import Recorder
from stacks.worker.resident import Resident
from stacks.worker.sdk import quiet_log
from stacks.worker.workspace import Command, Secrets, open_stack
from tests.stacks.common.listening import answered, listeners_of
from tests.world.patience import eventually
from tests.world.users import STRANGER, needs_root

pytestmark = pytest.mark.devnet
CANARY = "canary-of-an-output"
STACK = "lease-1"
UNREACHABLE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
}
"""A kubeconfig of an API server that does not answer."""


@pytest.fixture
def config(toolbox: Toolbox, tmp_path: Path) -> EngineConfig:
    data = tmp_path / "engine"
    data.mkdir(mode=0o700)
    config = EngineConfig(
        data=data,
        kubeconfig=tmp_path / "kubeconfig",
        pulumi=toolbox.program("pulumi"),
        pulumi_home=toolbox.pulumi_home,
        resident=toolbox.program("lessor-engine"),
        program="sdk",  # a list has run before the engine begins, and could not wait in the middle
    )
    prepare_key(config.key_file)
    prepare_home(config.home, config.quiet_home)
    return config


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a worker: the SDK sends a dead engine nothing, and prints nothing."""
    monkeypatch.setattr(pulumi.log, "debug", pulumi.log.debug)
    monkeypatch.setattr(pulumi.log, "error", pulumi.log.error)
    quiet_log()


@pytest.fixture
async def resident(config: EngineConfig) -> AsyncIterator[ResidentEngine]:
    assert resident_problem(config) == ""
    engine = ResidentEngine(config, worker_environment(config))
    yield engine
    await engine.stop()


Opened = Callable[..., Stack]


@pytest.fixture
async def opened(config: EngineConfig, resident: ResidentEngine) -> AsyncIterator[Opened]:
    """Opens the stack with a program that exports a secret."""
    async with resident.serving() as path:
        assert path is not None, resident.problem
        client = Resident()

        def make(program: Callable[[], None] | None = None, *, of: EngineConfig = config) -> Stack:
            return open_stack(
                of,
                STACK,
                command=Command(of.pulumi),
                secrets=Secrets(of),
                program=program or exporting,
                resident=(client, path),
            )

        yield make


async def up(stack: Stack) -> tuple[UpResult, list[Any]]:
    events: list[Any] = []
    return await asyncio.to_thread(stack.up, on_event=events.append, show_secrets=False), events


@contextmanager
def stock_stack(config: EngineConfig, program: Callable[[], None] | None = None) -> Iterator[Stack]:
    """The same stack, whose operations command lines run."""
    stock = config.model_copy(update={"engine": "stock"})
    with TransitService(TransitKey.load(config.key_file)) as service, service.grant() as token:
        secrets = Secrets(stock, url=service.url, token=token)
        yield open_stack(stock, STACK, command=Command(stock.pulumi), secrets=secrets, program=program)


def exporting() -> None:
    pulumi.export("token", pulumi.Output.secret(CANARY))


def named_below(pid: int, name: str) -> list[int]:
    """Children of the process whose program has this name."""
    return [each for each in other_pids() if parent(each) == pid and command_name(each).startswith(name)]


def waited(event: threading.Event) -> None:
    event.wait(60)


def locks(config: EngineConfig) -> list[Path]:
    return list((config.folder(STACK) / ".pulumi" / "locks").glob("**/*.json"))


def latest(config: EngineConfig) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(config.state_file(STACK).read_bytes())["checkpoint"]["latest"]
    return found


async def test_a_secret_is_encrypted_with_the_key_of_the_stacks_settings_and_read_again(config, opened):
    result, events = await up(opened())
    assert list(result.outputs) == ["token"] and result.outputs["token"].secret
    assert any(event.summary_event for event in events) and events[-1].cancel_event is not None
    state = config.state_file(STACK).read_text()
    assert CANARY not in state
    assert latest(config)["secrets_providers"]["type"] == "cloud"
    again, _ = await up(opened())
    assert dict(again.summary.resource_changes or {}) == {"same": 1}
    assert config.state_file(STACK).read_text().count("ciphertext") == 1
    assert locks(config) == []


async def test_the_stock_command_line_reads_what_the_resident_has_written(config, opened):
    await up(opened())
    with stock_stack(config) as stack:
        done = await asyncio.to_thread(
            stack.workspace.pulumi_command.run,
            ["stack", "output", "--show-secrets", "--json", "--stack", STACK],
            stack.workspace.work_dir,
            dict(stack.workspace.env_vars),
        )
    assert json.loads(done.stdout) == {"token": CANARY}


async def test_a_stack_that_a_command_line_has_made_is_taken_on_with_its_secrets(config, opened):
    with stock_stack(config, exporting) as stack:
        await up(stack)
    sealed = latest(config)["secrets_providers"]["state"]
    again, _ = await up(opened())
    assert dict(again.summary.resource_changes or {}) == {"same": 1}
    assert again.outputs["token"].secret
    assert latest(config)["secrets_providers"]["state"] == sealed, "the data key is the one that it had"
    with stock_stack(config, exporting) as stack:
        last, _ = await up(stack)
    assert dict(last.summary.resource_changes or {}) == {"same": 1}


async def test_a_stack_whose_data_key_is_of_another_operators_key_is_refused_and_its_state_is_kept(config, opened):
    await up(opened())
    before = config.state_file(STACK).read_bytes()
    config.key_file.write_text("k" * 32)
    with pytest.raises(OperationRefused, match=rf"data key of stack {STACK} .*another key"):
        await up(opened())
    assert config.state_file(STACK).read_bytes() == before
    assert locks(config) == []


async def test_a_program_that_fails_fails_the_update_with_its_error_and_the_state_is_kept(config, opened, capfd):
    await up(opened())

    def broken() -> None:
        raise ValueError("the program is broken")

    events: list[Any] = []
    with pytest.raises(CommandError):
        await asyncio.to_thread(opened(broken).up, on_event=events.append, show_secrets=False)
    said = [event.diagnostic_event.message for event in events if event.diagnostic_event]
    assert any("the program is broken" in text for text in said), said
    assert "the program is broken" not in capfd.readouterr().err, "what a program says may hold a secret"
    assert latest(config)["resources"]
    again, _ = await up(opened())
    assert dict(again.summary.resource_changes or {}) == {"same": 1}


async def test_a_lock_of_another_process_refuses_the_operation_and_is_left_alone(config, opened):
    await up(opened())
    lock = config.folder(STACK) / ".pulumi" / "locks" / "organization" / PROJECT / STACK / "other.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(json.dumps({"pid": 1, "username": "u", "hostname": "h", "timestamp": "2026-01-01T00:00:00Z"}))
    with pytest.raises(ConcurrentUpdateError):
        await up(opened())
    assert lock.exists()
    lock.unlink()
    await up(opened())


async def test_while_an_update_runs_its_lock_keeps_the_stock_command_line_out(config, resident, opened):
    await up(opened())
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    def waits() -> None:
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(60)

    running = asyncio.create_task(up(opened(waits)))
    await eventually(lambda: asyncio.to_thread(lambda: bool(locks(config))))
    (lock,) = locks(config)
    assert json.loads(lock.read_text())["pid"] == resident.pid
    try:
        with stock_stack(config) as stack, pytest.raises(ConcurrentUpdateError):
            await asyncio.to_thread(stack.refresh)
        with pytest.raises(ConcurrentUpdateError):
            await up(opened())
    finally:
        release.set()
    await running
    assert locks(config) == []


async def test_the_death_of_the_process_ends_the_update_with_a_reason_and_the_next_process_runs_the_next(
    config, resident, opened
):
    await up(opened())
    first, never = resident.pid, threading.Event()
    running = asyncio.create_task(up(opened(lambda: waited(never))))
    await eventually(lambda: asyncio.to_thread(lambda: bool(locks(config))))
    os.kill(first, signal.SIGKILL)
    with pytest.raises(CommandError, match="the resident engine ended during up"):
        await running
    never.set()
    locks(config)[0].unlink()  # as `stacks.worker.state.recover` does
    async with resident.serving() as path:
        assert resident.pid not in (None, first)
        await up(
            open_stack(
                config,
                STACK,
                command=Command(config.pulumi),
                secrets=Secrets(config),
                program=exporting,
                resident=(Resident(), path),
            )
        )


async def test_a_process_that_dies_while_its_size_is_read_fails_no_operation(config, monkeypatch):
    engine = ResidentEngine(config, worker_environment(config), check_s=0)

    def gone(*_: object) -> Iterator[Path]:
        raise FileNotFoundError

    try:
        async with engine.serving() as path:
            assert path is not None
            monkeypatch.setattr(Path, "glob", gone)  # between two reads of its folder
    finally:
        monkeypatch.undo()
        await engine.stop()


async def test_a_cancelled_update_ends_and_gives_its_lock_back(config, resident, opened):
    await up(opened())
    client, never = Resident(), threading.Event()
    async with resident.serving() as path:
        stack = open_stack(
            config,
            STACK,
            command=Command(config.pulumi),
            secrets=Secrets(config),
            program=lambda: waited(never),
            resident=(client, path),
        )
        running = asyncio.create_task(up(stack))
        await eventually(lambda: asyncio.to_thread(lambda: bool(locks(config))))
        client.cancel()
        never.set()
        with pytest.raises(CommandError):
            await running
    assert locks(config) == []
    await up(opened())


def objects(config: EngineConfig) -> None:
    cluster = ClusterProvider("cluster", kubeconfig=str(config.kubeconfig))
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made", "namespace": "default"}}
    ManifestResource(manifest, pulumi.ResourceOptions(provider=cluster))


async def failed(stack: Stack) -> str:
    """The error of an update that fails."""
    recorder = Recorder()
    with pytest.raises(CommandError):
        await asyncio.to_thread(stack.up, on_event=recorder.on_event, show_secrets=False)
    return recorder.error()


async def test_a_cluster_that_does_not_answer_is_named_and_the_plugin_is_replaced_before_the_next_update(
    config, resident, opened
):
    config.kubeconfig.write_text(json.dumps(UNREACHABLE))
    first = await failed(opened(lambda: objects(config)))
    assert cause_of(first) is FailureCause.UNREACHABLE, first
    (plugin,) = named_below(resident.pid, "pulumi-resource")
    again = await failed(opened(lambda: objects(config)))
    assert cause_of(again) is FailureCause.UNREACHABLE, again
    await eventually(lambda: asyncio.to_thread(lambda: not alive(plugin)))
    assert len(named_below(resident.pid, "pulumi-resource")) == 1


async def test_the_plugin_dies_with_the_process_and_its_own_death_costs_one_update(config, resident, opened):
    config.kubeconfig.write_text(json.dumps(UNREACHABLE))
    await failed(opened(lambda: objects(config)))
    (plugin,) = named_below(resident.pid, "pulumi-resource")
    os.kill(plugin, signal.SIGKILL)
    assert cause_of(await failed(opened(lambda: objects(config)))) is FailureCause.UNREACHABLE
    (plugin,) = named_below(resident.pid, "pulumi-resource")
    os.kill(resident.pid, signal.SIGKILL)
    await eventually(lambda: asyncio.to_thread(lambda: not alive(plugin)))


@needs_root
@pytest.mark.skipif(bool(fence_problem()), reason="this system allows no fence")
async def test_no_listener_of_the_process_serves_another_user(config, resident, opened):
    never = threading.Event()
    running = asyncio.create_task(up(opened(lambda: waited(never))))
    try:
        await eventually(lambda: asyncio.to_thread(lambda: bool(locks(config))))
        await eventually(lambda: asyncio.to_thread(lambda: len(listeners_of(resident.pid)) >= 3))
        for port in listeners_of(resident.pid):  # the engine as plugins and the program see it, the monitor
            assert await asyncio.to_thread(answered, port, os.geteuid())
            assert not await asyncio.to_thread(answered, port, STRANGER)
    finally:
        never.set()
        await running


async def test_many_operations_leave_no_goroutine_and_no_file(config, resident, opened):
    async def figures() -> tuple[int, int]:
        assert resident.pid
        return (await resident.status())["goroutines"], len(list(Path(f"/proc/{resident.pid}/fd").iterdir()))

    for _ in range(3):
        await up(opened())
    before = await figures()
    for _ in range(10):
        await up(opened())
    after = await figures()
    assert after[0] <= before[0] + 3 and after[1] <= before[1] + 1, (before, after)


async def test_the_end_of_the_daemon_ends_the_process(config, resident):
    async with resident.serving():
        pass
    pid = resident.pid
    assert pid
    await resident.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert not any(config.sockets.iterdir())


async def test_a_program_of_another_version_is_named_and_runs_nothing(config, tmp_path):
    other, problems = tmp_path / "lessor-engine", list[str]()
    other.write_text("#!/bin/sh\necho ready 0\nexec sleep 600\n")
    other.chmod(0o755)
    older = config.model_copy(update={"resident": other})
    engine = ResidentEngine(older, worker_environment(older), on_problem=problems.append)
    async with engine.serving() as path:
        assert path is None
    await engine.stop()
    assert len(problems) == 1 and str(other) in problems[0] and "make tools" in problems[0]
    assert survivors(config.data) == []


async def test_a_resident_of_an_older_daemon_is_ended_in_order_before_a_newer_daemon_begins(config, resident, opened):
    config.kubeconfig.write_text(json.dumps(UNREACHABLE))
    config.kubeconfig.chmod(0o600)
    await up(opened())
    older, never = resident.pid, threading.Event()
    running = asyncio.create_task(up(opened(lambda: waited(never))))
    await eventually(lambda: asyncio.to_thread(lambda: bool(locks(config))))
    newer = PulumiEngine(config)
    await newer.start()
    try:
        assert newer.resident is not None and newer.resident.pid not in (None, older)
        assert not alive(older)
        assert locks(config) == [], "the update that it ran was cancelled"
    finally:
        never.set()
        with pytest.raises(CommandError):
            await running
        await newer.close()


async def test_a_process_that_has_grown_too_large_is_replaced_and_the_update_that_it_runs_is_not_lost(config):
    small = config.model_copy(update={"resident_bytes": 1})
    engine = ResidentEngine(small, worker_environment(small), check_s=0)
    go = threading.Event()
    try:
        async with engine.serving() as path:
            large = engine.pid
            assert path is not None and large is not None
            stack = open_stack(
                config,
                STACK,
                command=Command(config.pulumi),
                secrets=Secrets(config),
                program=lambda: waited(go),
                resident=(Resident(), path),
            )
            running = asyncio.create_task(up(stack))
            await eventually(lambda: asyncio.to_thread(lambda: bool(locks(config))))
            async with engine.serving():
                pass
            await eventually(lambda: engine.pid not in (None, large))
            assert alive(large)
            go.set()
            await running
        await eventually(lambda: asyncio.to_thread(lambda: not alive(large)))
        assert locks(config) == []
    finally:
        go.set()
        await engine.stop()
