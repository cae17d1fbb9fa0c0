"""`lessor lease logs` and `lessor lease shell` against a scripted API server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from typer.testing import CliRunner

from lease.exit_codes import TROUBLE
from lease.ids import LeaseId, namespace_name
from provider.cli import build_app
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store import open_database
from provider.store.leases import save_status
from tests.provider.cli.test_lease_words import OWNER, PROVIDER
from tests.provider.kube.test_bad_servers import kubeconfig
from tests.world.pods import exit_status, pod_object

LEASE = LeaseId(OWNER, 1001, 1, 1, PROVIDER)
SPACE = namespace_name(LEASE)


async def listed(_: web.Request) -> web.StreamResponse:
    return web.json_response({"items": [pod_object(SPACE, "web-1", "web"), pod_object(SPACE, "db-0", "db")]})


async def log(request: web.Request) -> web.StreamResponse:
    return web.Response(body=f"{request.match_info['pod']} says \x1b[2J{request.query.get('tailLines')}\n".encode())


async def execute(request: web.Request) -> web.StreamResponse:
    """Repeats its stdin to its end, then its arguments on stderr, and ends with 3."""
    socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
    await socket.prepare(request)
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[:1] == b"\xff":
            break
        await socket.send_bytes(b"\x01" + message.data[1:])
    await socket.send_bytes(b"\x02" + " ".join(request.query.getall("command")).encode())
    await socket.send_bytes(b"\x03" + json.dumps(exit_status(3)).encode())
    await socket.close()
    return socket


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that knows the lease, beside an API server in a thread."""
    loop, ready, found = asyncio.new_event_loop(), threading.Event(), [0]

    async def serve() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
        await save_status(database, LeaseStatus(LEASE, Phase.RUNNING, "", 50.0))
        await database.close()
        app = web.Application()
        app.router.add_get(f"/proxy/api/v1/namespaces/{SPACE}/pods", listed)
        app.router.add_get(f"/proxy/api/v1/namespaces/{SPACE}/pods/{{pod}}/log", log)
        app.router.add_get(f"/proxy/api/v1/namespaces/{SPACE}/pods/{{pod}}/exec", execute)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found[0] = runner.addresses[0][1]
        ready.set()
        await ended.wait()
        await runner.cleanup()

    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, f"http://127.0.0.1:{found[0]}/proxy")))
    yield tmp_path
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


def test_logs_name_the_pod_of_each_line_and_steer_no_terminal(home: Path) -> None:
    done = CliRunner().invoke(build_app(), ["lease", "logs", "1001", "--tail", "7"])
    assert done.exit_code == 0, done.output
    assert sorted(done.output.splitlines()) == ["db-0: db-0 says \ufffd[2J7", "web-1: web-1 says \ufffd[2J7"]
    one = CliRunner().invoke(build_app(), ["lease", "logs", "1001", "--service", "db"])
    assert one.output == "db-0: db-0 says \ufffd[2JNone\n"


def test_logs_of_a_service_without_pods_end_with_trouble(home: Path) -> None:
    done = CliRunner().invoke(build_app(), ["lease", "logs", "1001", "--service", "nope"])
    assert done.exit_code == TROUBLE
    assert "no pod of the lease and its services runs" in done.output


def test_a_shell_takes_a_pipe_and_ends_with_the_code_of_its_command(home: Path) -> None:
    lessor = str(Path(sys.executable).with_name("lessor"))
    argv = [lessor, "lease", "shell", "1001", "--service", "web", "--", "sh", "-c", "exit 3"]
    done = subprocess.run(argv, input=b"abc\x00\xff", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, b"abc\x00\xff", b"sh -c exit 3")


def test_a_shell_of_a_lease_with_several_services_asks_for_one(home: Path) -> None:
    done = CliRunner().invoke(build_app(), ["lease", "shell", "1001"])
    assert done.exit_code == TROUBLE
    assert "name one of the services with --service: db, web" in done.output
