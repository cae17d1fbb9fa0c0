"""Plugins that die, hang, age, grow, lie or are none at all; command lines that die; and the broker's own end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest

from stacks.broker import Broker, BrokerError, BrokerSettings, installed_plugin
from stacks.common.processes import alive
from tests.stacks.broker.conftest import SERVICE, configure, request, until


async def test_a_plugin_that_dies_fails_its_calls_and_the_next_call_has_a_configured_one(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        running = asyncio.create_task(line.refused("Create", request("sleep 60")))
        await until(lambda: bench.serving.status().plugins[0].calls_running == 1)
        error = await line.refused("Update", request("die"))
        for failed in (error, await running):
            assert failed.code() is grpc.StatusCode.UNAVAILABLE
            assert "plugin ended during" in failed.details() and "signal 9" in failed.details()
        answer = (await line("Diff", request())).split()
        assert answer[1:] == [b"1", configure().hex().encode()]
        assert (bench.serving.fleet.started, bench.serving.fleet.lost) == (2, 1)


async def test_a_question_that_lost_its_plugin_is_asked_again_of_the_next_one(broker, tmp_path):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        asked = asyncio.create_task(line("Diff", request(f"wait {tmp_path / 'go'}")))
        await until(lambda: bench.serving.status().plugins[0].calls_running == 1)
        os.kill(bench.serving.status().plugins[0].pid, signal.SIGKILL)
        (tmp_path / "go").touch()
        assert alive(int((await asked).split()[0]))
        assert (bench.serving.fleet.started, bench.serving.fleet.lost) == (2, 1)


async def test_a_plugin_that_died_unnoticed_is_replaced_before_the_next_run_asks(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        os.kill(await line.pid(), signal.SIGKILL)
        await until(lambda: not bench.serving.fleet.plugins())
        await line.attached()
        assert alive(await line.pid())


async def test_an_old_plugin_is_replaced_while_it_finishes_what_it_has_begun(broker, tmp_path):
    async with broker(age_seconds=0.5, check_seconds=0.1) as bench, bench.line() as line:
        await line.attached()
        old = await line.pid()
        running = asyncio.create_task(line("Create", request(f"wait {tmp_path / 'go'}")))
        await until(lambda: bench.serving.fleet.retired > 0)
        assert await line.pid() != old and alive(old)
        (tmp_path / "go").touch()
        assert int((await running).split()[0]) == old
        await until(lambda: not alive(old))


async def test_a_replaced_plugin_that_does_not_finish_is_ended(broker):
    async with (
        broker(age_seconds=0.5, check_seconds=0.1, drain_seconds=0.2, answer_seconds=0.3) as bench,
        bench.line() as line,
    ):
        await line.attached()
        error = await line.refused("Create", request("hang"))
        assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_plugin_that_has_grown_is_replaced(broker):
    async with broker(memory_bytes=120 << 20, check_seconds=0.1) as bench, bench.line() as line:
        await line.attached()
        old = await line.pid()
        await line("Create", request(f"grow {100 << 20}"))
        await until(lambda: not alive(old))
        assert alive(await line.pid()) and bench.serving.fleet.lost == 0


async def test_an_idle_plugin_is_ended_and_comes_back_when_wanted(broker):
    async with broker(idle_seconds=1, check_seconds=0.1) as bench, bench.line() as line:
        await line("GetSchema")  # what needs no configuration starts one as well
        await line.attached()
        await until(lambda: not bench.serving.fleet.plugins())
        assert alive(await line.pid())


async def test_a_hung_plugin_is_killed_but_a_slow_call_is_not(broker):
    async with broker(check_seconds=0.1, answer_seconds=0.5, patience=2) as bench, bench.line() as line:
        await line.attached()
        await line("Create", request("sleep 3"))
        stopped = await line.pid()
        hung = asyncio.create_task(line.refused("Create", request("hang")))
        assert (await hung).code() is grpc.StatusCode.UNAVAILABLE
        assert not alive(stopped) and await line.pid() != stopped


@pytest.mark.parametrize("manner", ["dies", "garbage", "endless", "silent", "deaf", "rude"])
async def test_what_is_no_plugin_is_told_and_ended(broker, manner):
    async with broker(manner, start_seconds=1.5) as bench, bench.line() as line:
        error = await line.refused("Configure", configure())
        assert error.code() is grpc.StatusCode.UNAVAILABLE and "did not start" in error.details()
        await until(lambda: not bench.serving.fleet.plugins() and not any(bench.settings.scratch.glob("*")))


async def test_a_missing_plugin_is_told(settings, tmp_path):
    with pytest.raises(BrokerError, match=r"no kubernetes plugin 4\.25\.0"):
        installed_plugin(tmp_path, "4.25.0")


async def test_a_refused_configuration_passes_and_leaves_no_plugin(broker):
    async with broker("refuses") as bench, bench.line() as line:
        error = await line.refused("Configure", configure())
        assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "no such context")
        await until(lambda: not bench.serving.fleet.plugins())


async def test_a_plugin_that_never_reached_its_cluster_is_not_given_to_the_next_run(broker, tmp_path):
    async with broker(f"unreachable:{tmp_path / 'back'}") as bench, bench.line() as line:
        first = await line.attached()
        (tmp_path / "back").touch()
        second = await line.attached()
        assert first != second == await line.attached()


async def test_after_losing_sight_of_the_api_server_the_next_run_has_a_fresh_plugin(broker):
    async with broker(doubt_seconds=0) as bench, bench.line() as line:
        first = await line.attached()
        await line.refused("Update", request("fail an ordinary conflict"))
        assert await line.attached() == first
        await line.refused("Update", request("fail dial tcp 127.0.0.1:6443: connect: connection refused"))
        assert await line.attached() != first


async def test_a_young_plugin_is_not_replaced_for_what_it_answers(broker):
    async with broker(doubt_seconds=60) as bench, bench.line() as line:
        first = await line.attached()
        await line.refused("Create", request("fail no matches for kind Pool"))
        assert await line.attached() == first


async def test_a_kind_younger_than_the_plugin_is_checked_again_by_a_fresh_one(broker, tmp_path):
    async with broker(doubt_seconds=0) as bench, bench.line() as line:
        await line.attached()
        old = await line.pid()
        answer = await line("Check", request(f"unknown-kind {tmp_path / 'asked'}"))
        assert b"did not contain" not in answer and int(answer.split()[0]) != old


async def test_what_a_dead_command_line_had_begun_is_over_before_its_stack_is_touched_again(broker, tmp_path):
    async with broker() as bench, bench.line() as line:
        async with bench.line() as doomed:
            await doomed.attached()
            lost = asyncio.create_task(doomed("Create", request(f"wait {tmp_path / 'go'}")))
            await until(lambda: bench.serving.status().plugins[0].calls_running == 1)
            lost.cancel()
        await until(lambda: bench.serving.status().lingering == ["one"])
        await asyncio.wait_for(line.attached(stack="two"), 5)
        again = asyncio.create_task(line("Read", request(field=2)))
        assert not await bench.serving.service.settled("one", 0.2)
        assert not again.done()
        (tmp_path / "go").touch()
        await again
        assert (tmp_path / "go.done").exists(), "it was finished, not given up"
        assert await bench.serving.service.settled("one", 5) and not bench.serving.status().lingering


async def test_a_plugins_files_lie_in_its_own_folder_and_go_with_it(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        folder = Path((await line("Create", request("files"))).decode())
        assert folder.parent == bench.settings.scratch and (folder / "kubeconfig-copy").exists()
        assert folder.stat().st_mode & 0o777 == 0o700
        await line.refused("Create", request("die"))
        await line.pid()
        await until(lambda: not folder.exists())
    assert not bench.settings.scratch.exists()


async def ask(providers: str, method: str, body: bytes = b"") -> bytes:
    async with grpc.aio.insecure_channel("127.0.0.1:" + providers.partition(":")[2]) as channel:
        return await channel.unary_unary(SERVICE + method)(body)  # type: ignore[call-arg]


async def test_the_process_starts_when_needed_and_ends_with_all_it_had(settings):
    chosen = settings()
    broker = Broker(chosen)
    assert broker.pid is None and await broker.settled("one")
    providers = await broker.debug_providers()
    assert providers.startswith("kubernetes:") and providers == await broker.debug_providers()
    await ask(providers, "GetSchema")
    status = await broker.status()
    assert status.started == 1 and status.plugins[0].memory_bytes > 1 << 20
    assert status.memory_bytes > 1 << 20
    assert await broker.settled("one", seconds=1)
    await broker.stop()
    assert not alive(status.pid) and not alive(status.plugins[0].pid) and not chosen.scratch.exists()
    with pytest.raises(BrokerError):
        await broker.status()
    await broker.stop()


async def test_a_killed_broker_takes_its_plugins_along_and_is_replaced_at_the_next_operation(settings):
    async with Broker(settings()) as broker:
        providers = await broker.debug_providers()
        await ask(providers, "GetSchema")
        before = await broker.status()
        os.kill(before.pid, signal.SIGKILL)
        await until(lambda: not alive(before.plugins[0].pid) and broker.pid is None)  # it may die more slowly than they
        await ask(await broker.debug_providers(), "GetSchema")
        assert (await broker.status()).pid != before.pid  # its port may be the same


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_broker_ends_with_its_parent(settings, number):
    chosen = settings()
    program = (
        "import asyncio, sys\n"
        "from stacks.broker import Broker, BrokerSettings\n"
        "async def main():\n"
        "    broker = Broker(BrokerSettings.model_validate_json(sys.argv[1]))\n"
        "    print(await broker.debug_providers(), broker.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, chosen.model_dump_json(), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout
    providers, pid = (await parent.stdout.readline()).decode().split()
    await ask(providers, "GetSchema")
    assert chosen.scratch.exists()
    parent.send_signal(number)
    await until(lambda: not alive(int(pid)))
    await parent.wait()
    assert not chosen.scratch.exists()


async def test_a_broker_that_cannot_start_says_why(tmp_path):
    scratch = tmp_path / "file" / "scratch"
    broker = Broker(BrokerSettings(plugin=("x",), scratch=scratch), environment={"PYTHONHOME": "/nowhere"})
    with pytest.raises(BrokerError, match="did not answer"):
        await broker.start()
    assert broker.pid is None or not alive(broker.pid)
    await broker.stop()


async def test_running_calls_are_finished_before_the_broker_goes(settings, tmp_path):
    async with Broker(settings()) as broker:
        providers = await broker.debug_providers()
        async with grpc.aio.insecure_channel("127.0.0.1:" + providers.partition(":")[2]) as channel:
            await channel.unary_unary(SERVICE + "Configure")(configure())  # type: ignore[call-arg]
            running = asyncio.create_task(_create(channel, request("sleep 1")))
            await asyncio.sleep(0.3)
            await broker.stop()
            assert await running


async def _create(channel: grpc.aio.Channel, body: bytes) -> bytes:
    return await channel.unary_unary(SERVICE + "Create")(body)  # type: ignore[call-arg]
