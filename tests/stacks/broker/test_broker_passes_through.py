"""What passes the broker unchanged, what is kept from the plugin, and which plugin a call goes to."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import grpc.aio
import pytest

from stacks.broker.fields import encode
from stacks.common.peers import Owners, _look_up
from tests.stacks.broker.conftest import configure, request, until


async def test_requests_answers_and_metadata_pass_as_they_are(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        for body in (request("echo"), request("echo " + "x" * (5 << 20)), b"\x00\xff\x02do:echo"):
            for method in ("Check", "Create", "Invoke", "SomethingOfTomorrow"):
                assert await line(method, body) == body
        seen = await line("Diff", request("metadata"), metadata=(("tracer", "7"), ("secret-bin", b"\x00\xff")))
        assert b"key='tracer', value='7'" in seen and rb"key='secret-bin', value=b'\x00\xff'" in seen


async def test_an_answer_of_many_messages_passes(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        answers = [part async for part in line.channel.unary_stream("/pulumirpc.ResourceProvider/List")(b"")]
        assert answers == [b"0", b"1", b"2"]


async def test_an_error_passes_with_its_details(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        error = await line.refused("Create", request("fail half made"))
        assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "half made")
        trailing = dict(error.trailing_metadata())
        assert trailing["grpc-status-details-bin"] == b"\x00\xffdetails" and trailing["reason"] == "because"


async def test_a_deadline_of_the_caller_holds(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await line("Check", request("sleep 20"), timeout=0.3)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: not bench.serving.status().plugins[0].calls_running)


async def test_what_would_bind_or_stop_the_plugin_never_reaches_it(broker):
    async with broker() as bench, bench.line() as line:
        first = await line.attached()
        assert await line("Cancel") == b""
        assert await line("Attach", encode((1, b"127.0.0.1:9"))) == b""
        for method in ("Handshake", "Parameterize"):
            assert (await line.refused(method)).code() is grpc.StatusCode.UNIMPLEMENTED
        assert await line.attached() == first
        assert bench.serving.fleet.started == 1


async def test_the_plugin_has_an_engine_to_log_to(broker):
    async with broker() as bench, bench.line() as line:
        await line.attached()
        assert await line("Create", request("log " + "x" * 100)) == b"logged"


async def test_equal_configurations_share_a_plugin_and_are_asked_for_once(broker):
    async with broker() as bench, bench.line() as one, bench.line() as two:
        first = await one.attached(("namespace", "a"), ("context", "b"))
        assert await two.attached(("context", "b"), ("namespace", "a"), stack="two") == first
        answer = await two("Diff", request())
        assert answer.split()[1] == b"1", "configured once"
        assert configure(("namespace", "a"), ("context", "b")).hex().encode() in answer


async def test_each_configuration_has_its_own_plugin_and_each_connection_its_configuration(broker):
    async with broker() as bench, bench.line() as one, bench.line() as two:
        await one.attached(("context", "a"))
        await two.attached(("context", "b"))
        assert await one.pid() != await two.pid()
        assert await one.pid() == await one.pid()
        await two.attached(("context", "a"))
        assert await one.pid() == await two.pid()


async def test_a_kubeconfig_that_was_written_anew_is_another_configuration(broker, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("token: old")
    async with broker() as bench, bench.line() as line:
        first = await line.attached(("kubeconfig", str(kubeconfig)))
        assert await line.attached(("kubeconfig", str(kubeconfig))) == first
        kubeconfig.write_text("token: newer")
        assert await line.attached(("kubeconfig", str(kubeconfig))) != first


async def test_many_first_runs_at_once_start_one_plugin(broker):
    async def run(bench, number: int) -> str:
        async with bench.line() as line:
            return await line.attached(stack=f"s{number}")

    async with broker("slow") as bench:
        answers = await asyncio.gather(*(run(bench, number) for number in range(6)))
        assert len(set(answers)) == 1 and bench.serving.fleet.started == 1


async def test_a_run_that_goes_while_it_configures_spoils_nothing_for_the_others(broker):
    async with broker("slow") as bench, bench.line() as one, bench.line() as two:
        gone = asyncio.create_task(one.attached())
        staying = asyncio.create_task(two.attached(stack="two"))
        await until(lambda: bench.serving.service.calls["Configure"] == 2)
        gone.cancel()
        assert (await staying).startswith("configured") and bench.serving.fleet.started == 1


async def test_more_configurations_than_plugins_take_the_idle_one_or_are_told_to_wait(broker, tmp_path):
    async with broker(configurations=1) as bench, bench.line() as one, bench.line() as two:
        await one.attached(("context", "a"))
        busy = asyncio.create_task(one("Create", request(f"wait {tmp_path / 'go'}")))
        await until(lambda: any(plugin.calls_running for plugin in bench.serving.status().plugins))
        error = await two.refused("Configure", configure(("context", "b")))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "busy" in error.details()
        (tmp_path / "go").touch()
        await busy
        assert (await two.attached(("context", "b"))).startswith("configured")
        await one.pid()  # the idle one was ended, and is revived as soon as it is wanted
        assert bench.serving.fleet.started == 3


@pytest.mark.parametrize("method", ["Check", "Create", "Delete"])
async def test_a_connection_that_configured_nothing_is_told_so(broker, method):
    async with broker() as bench, bench.line() as line:
        error = await line.refused(method, request())
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION and "configured no provider" in error.details()


@pytest.mark.parametrize(
    "body", [b"\xff", b"\x0a\xff", b"\x0b", b"\x00\x01", b"\x0a" + b"\xff" * 11, b"\x0a\x02\x0a\x05"]
)
async def test_a_configuration_that_is_no_message_is_refused(broker, body):
    async with broker() as bench, bench.line() as line:
        assert (await line.refused("Configure", body)).code() is grpc.StatusCode.INVALID_ARGUMENT
        assert bench.serving.fleet.started == 0


async def test_methods_of_other_services_do_not_exist(broker):
    async with broker() as bench, bench.line() as line:
        for path in ("/pulumirpc.Engine/StartDebugging", "/pulumirpc.ResourceMonitor/Invoke", "/x"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await line.channel.unary_unary(path)(b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_calls_of_other_users_are_refused(broker):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    program = (
        "import grpc, os, sys\n"
        "def ask(port):\n"
        "    channel = grpc.insecure_channel(f'127.0.0.1:{port}')\n"
        "    try:\n        channel.unary_unary('/pulumirpc.ResourceProvider/GetPluginInfo')(b'', timeout=30)\n"
        "    except grpc.RpcError as error:\n        return error.code().name\n"
        "ask(1)  # imports all it needs while it may read it\n"
        "os.setuid(65534)\n"
        "print(ask(sys.argv[1]))\n"
    )
    async with broker() as bench:
        argv = [sys.executable, "-c", program, str(bench.serving.port)]
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == "PERMISSION_DENIED", done
        assert bench.serving.status().refused_strangers == 1 and bench.serving.fleet.started == 0


def test_only_an_open_loopback_socket_of_our_user_is_ours():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ours = listening.getsockname()[1]
        owners = Owners(ours)
        client = socket.create_connection(("127.0.0.1", ours))
        accepted, _ = listening.accept()
        peer = f"ipv4:127.0.0.1:{client.getsockname()[1]}"
        assert owners.is_ours(peer)
        assert _look_up(Path("/proc/net/tcp").read_text(), client.getsockname()[1], ours) == os.getuid()
        for stranger in ("ipv4:127.0.0.1:1", "ipv4:10.0.0.1:80", "ipv6:[::1]:80", "unix:", "", "ipv4:127.0.0.1:x"):
            assert not owners.is_ours(stranger)
        client.close()  # from now on it belongs to root, whoever had opened it
        assert not owners.is_ours(peer)
        assert _look_up(Path("/proc/net/tcp").read_text(), int(peer.rpartition(":")[2]), ours) is None
        accepted.close()
        owners.close()


def test_where_the_kernel_is_not_to_be_asked_the_table_is_read():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        owners = Owners(listening.getsockname()[1])
        owners.close()  # asking fails now, as where netlink is forbidden
        with socket.create_connection(listening.getsockname()) as client:
            assert owners.is_ours(f"ipv4:127.0.0.1:{client.getsockname()[1]}")
