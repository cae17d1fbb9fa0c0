"""The gateway as a process of its own: each side is killed, and no manifest, stream or process is lost or left."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lease.ids import namespace_name
from provider.daemon.gateway_child import GatewayChild, child_environment
from provider.gateway.issuer.config import issued_certificate
from provider.kube.labels import managed_labels
from provider.protocols.cluster import DEPLOYMENT, EVENT, MANIFEST, NAMESPACE, PROVIDER_HOST, PROVIDER_LEASED_IP
from provider.settings import load_settings
from tests.provider.chain.test_nodes import unused_address
from tests.provider.chain.world import scripted_node, status
from tests.provider.gateway.manifests import DSEQ, TENANT, body, lease
from tests.provider.gateway.world import place
from tests.world.api_server import ApiServerInMemory, RecordedCluster
from tests.world.patience import eventually
from tests.world.processes import line_of, start_process
from tests.world.virtual import VirtualClock

SPACE = namespace_name(lease())
_SECRET = "abandon " * 11 + "about"


@dataclass
class Site:
    """An API server and a node in this process, and the programs of a provider in others."""

    folder: Path
    api: ApiServerInMemory
    environment: Mapping[str, str]
    port: int

    def start(self, form: str) -> subprocess.Popen[bytes]:
        """The provider. Its first line comes when a gateway listens."""
        argv = (sys.executable, "-m", "tests.provider.daemon.gateway_daemon", str(self.folder))
        return self._program(argv, form)

    def start_gateway(self) -> subprocess.Popen[bytes]:
        return self._program((sys.executable, "-m", "provider.cli", "gateway"), "separate")

    def _program(self, argv: tuple[str, ...], form: str) -> subprocess.Popen[bytes]:
        environment = {**self.environment, "LESSOR_GATEWAY_PROCESS": form}
        with (self.folder / "log").open("ab") as log:
            return start_process(argv, env=environment, stdout=subprocess.PIPE, stderr=log)

    def session(self) -> aiohttp.ClientSession:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        now = int(time.time())
        token = TENANT.token(TENANT.claims(iat=now - 60, nbf=now - 60, exp=now + 3600))
        headers = {"Authorization": f"Bearer {token}"}
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        return aiohttp.ClientSession(f"https://127.0.0.1:{self.port}", headers=headers, connector=connector)

    async def put(self) -> tuple[int, str]:
        async with self.session() as session, session.put(f"/deployment/{DSEQ}/manifest", data=body()) as answer:
            return answer.status, await answer.text()

    async def listens(self) -> bool:
        try:
            async with self.session() as session, session.get("/address") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    @property
    def stored(self) -> bool:
        return self.api.cluster.find(MANIFEST, SPACE, "lease") is not None

    def text_of_logs(self) -> str:
        return (self.folder / "log").read_text()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    cluster = RecordedCluster("lease")
    place(cluster, NAMESPACE, SPACE, labels=managed_labels(lease()))
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
    place(cluster, DEPLOYMENT, "web", namespace=SPACE, labels=managed_labels(lease()), spec={}, status=counts)
    for kind in (MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP):  # the API server serves kinds of which there is one
        place(cluster, kind, "of-another-lease", namespace="lease", labels={}, spec={})
    api = ApiServerInMemory(cluster, tmp_path)
    await api.start()
    async with scripted_node(_node) as node:
        port = int(unused_address().rpartition(":")[2])
        settings = {
            "AP_HOME": str(tmp_path / "home"),
            "AP_KUBECONFIG": str(api.kubeconfig),
            "KUBECONFIG": str(api.kubeconfig),
            "AP_NODE": node,
            "AP_GATEWAY_LISTEN_ADDRESS": f"127.0.0.1:{port}",
            "AP_GATEWAY_GRPC_LISTEN_ADDRESS": "127.0.0.1:0",
            "AP_DEPLOYMENT_INGRESS_STATIC_HOSTS": "true",
            "AP_DEPLOYMENT_INGRESS_DOMAIN": "ingress.example.com",
            "LESSOR_MNEMONIC": _SECRET,
        }
        (tmp_path / "home").mkdir(mode=0o700)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AP_", "LESSOR_"))}
        yield Site(tmp_path, api, kept | settings, port)
    await api.stop()


def _node(method: str, _: Any) -> Any:
    """A node that knows the tenant's public key."""
    if method == "status":
        return status()
    from cosmos.auth.v1beta1.auth_pb2 import BaseAccount
    from cosmos.auth.v1beta1.query_pb2 import QueryAccountResponse
    from cosmos.crypto.secp256k1.keys_pb2 import PubKey

    account = BaseAccount(address=TENANT.address)
    account.pub_key.Pack(PubKey(key=TENANT.public), type_url_prefix="/")
    reply = QueryAccountResponse()
    reply.account.Pack(account, type_url_prefix="/")
    value = base64.b64encode(reply.SerializeToString()).decode()
    return {"response": {"code": 0, "value": value, "height": "10"}}


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def _first_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await asyncio.to_thread(line_of, process))
    return found


async def test_a_child_that_is_killed_is_started_again_and_a_stop_answers_what_was_sent(site: Site) -> None:
    provider = site.start("child")
    first = (await _first_line(provider))["child"]
    assert _SECRET.rsplit(maxsplit=1)[-1] not in Path(f"/proc/{first}/environ").read_text()
    assert await site.put() == (200, "")
    assert site.stored
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: _is_gone(first))
    await eventually(site.listens)

    (site.folder / "hold").touch()
    sent = asyncio.create_task(site.put())
    await eventually((site.folder / "held").exists)
    provider.send_signal(signal.SIGTERM)
    await eventually(lambda: "gateway.stopping" in site.text_of_logs())
    (site.folder / "hold").unlink()
    assert await sent == (200, ""), "the gateway ends its requests before the provider closes the socket"
    assert await asyncio.to_thread(provider.wait) == 0
    assert not await site.listens()


async def test_a_provider_that_is_killed_leaves_no_gateway_behind(site: Site) -> None:
    provider = site.start("child")
    child = (await _first_line(provider))["child"]
    provider.kill()
    await eventually(lambda: _is_gone(child))
    assert not await site.listens()


@pytest.mark.long
async def test_streams_and_statuses_of_a_separate_gateway_go_on_while_the_provider_is_away(site: Site) -> None:
    gateway, provider = site.start_gateway(), site.start("separate")
    await _first_line(provider)
    assert await site.put() == (200, "")
    async with site.session() as session:
        stream = await session.ws_connect(f"/lease/{DSEQ}/1/1/kubeevents?follow=true")
        provider.kill()
        await asyncio.to_thread(provider.wait)
        site.api.cluster.put(_event("while the provider is away"))
        assert "while the provider is away" in str((await stream.receive()).data)
        async with session.get(f"/lease/{DSEQ}/1/1/status") as answer:
            assert answer.status == 200
            assert (await answer.json())["errors"] == ["the image is not there"]

        await site.api.cluster.delete(MANIFEST, SPACE, namespace="lease")
        sent = asyncio.create_task(site.put())
        await eventually(lambda: "gateway.provider_away" in site.text_of_logs())
        assert not sent.done()
        again = site.start("separate")
        assert await sent == (200, ""), "the manifest waits for the provider"
        assert site.stored
        site.api.cluster.put(_event("after the restart"))
        while "after the restart" not in str((await stream.receive()).data):
            pass
        await stream.close()
    gateway.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(gateway.wait) == 0
    again.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(again.wait) == 0, site.text_of_logs()
    assert "PRIVATE KEY" not in site.text_of_logs()


def _event(text: str) -> dict[str, Any]:
    involved = {"kind": "Pod", "name": "web-1", "namespace": SPACE}
    name = text.replace(" ", "-")
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": name, "namespace": SPACE},
        "involvedObject": involved,
        "regarding": involved,
        "message": text,
        "note": text,
        "reason": "Test",
        "type": "Normal",
    }


@pytest.mark.long
async def test_a_child_that_cannot_listen_ends_the_provider_with_the_reason(site: Site) -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", site.port)
    provider = site.start("child")
    assert await asyncio.to_thread(provider.stdout.readline) == b""  # type: ignore[union-attr]
    assert "AP_GATEWAY_LISTEN_ADDRESS" in site.text_of_logs()
    taken.close()
    await taken.wait_closed()


@pytest.mark.virtual_time
async def test_a_child_that_ends_again_and_again_is_counted_until_one_has_run_for_a_minute() -> None:
    child = _ScriptedChild(VirtualClock(), (1.0, -9), (2.0, 1), (300.0, 1), (1e9, 0))
    running = asyncio.create_task(child.run())
    await asyncio.sleep(0.5)
    assert child.status() == {"ends": 0, "exit_code": 0, "running": True}
    await asyncio.sleep(0.6)
    assert child.status() == {"ends": 1, "exit_code": -9, "running": False}
    await asyncio.sleep(10.0)
    assert child.status() == {"ends": 2, "exit_code": 1, "running": True}
    await asyncio.sleep(60.0)
    assert child.status()["ends"] == 0, "the third runs for a minute"
    await asyncio.sleep(240.0)
    assert child.status() == {"ends": 1, "exit_code": 1, "running": True}
    running.cancel()


class _ScriptedChild(GatewayChild):
    """Its processes run for seconds and end with codes."""

    def __init__(self, clock: VirtualClock, *processes: tuple[float, int]) -> None:
        super().__init__(clock, environment={})
        self._processes = list(processes)

    async def _one(self) -> int:
        seconds, code = self._processes.pop(0)
        self.pid = 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.pid = 0
        return code


def test_a_child_gets_no_variable_of_the_key_or_of_the_store() -> None:
    given = {
        "LESSOR_MNEMONIC": "words",
        "LESSOR_MNEMONIC_FILE": "/words",
        "LESSOR_PRIVATE_KEY_FILE": "/key",
        "LESSOR_ARMORED_KEY_FILE": "/armored",
        "LESSOR_PASSPHRASE_FILE": "/passphrase",
        "LESSOR_STORE_URL": "postgresql://u:p@h/d",
        "AP_HOME": "/home",
        "PATH": "/bin",
    }
    assert child_environment(given) == {"AP_HOME": "/home", "PATH": "/bin"}


def test_a_child_of_a_provider_with_an_account_at_the_ca_starts_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {
        "AP_HOME": str(tmp_path),
        "AP_CLUSTER_PUBLIC_HOSTNAME": "provider.example.com",
        "AP_CERT_ISSUER_ENABLED": "true",
        "AP_CERT_ISSUER_CA_DIR_URL": "https://ca.example.com/dir",
        "AP_CERT_ISSUER_KID": "kid",
        "AP_CERT_ISSUER_HMAC": "secret",
    }
    for name, value in child_environment(given).items():
        monkeypatch.setenv(name, value)
    found = load_settings()
    assert found.cert_issuer_kid == "kid" and not found.cert_issuer_hmac.get_secret_value()
    assert issued_certificate(found) == tmp_path / "issuer" / "certificate.pem", "the child serves what is ordered"
