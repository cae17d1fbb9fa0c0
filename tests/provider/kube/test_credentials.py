"""`KubeCluster` and the credentials of a kubeconfig: every kind that kubectl knows, and trouble of each hours later."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from provider.errors import ClusterError, SettingsError
from provider.kube.client import KubeCluster, _Seen
from provider.protocols.cluster import SECRET
from stacks.common.config import EngineConfig
from stacks.worker import cluster as worker
from tests.world.identities import identity

NAMESPACE = {"metadata": {"name": "n", "uid": "u"}}
EXEC = "client.authentication.k8s.io"
AUTHORITY = identity("authority")
SERVER = identity("api-server", by=AUTHORITY)


class Server:
    """Accepts a request with `accepted` as its Authorization, or every request when that is None."""

    def __init__(self) -> None:
        self.accepted: str | None = None
        self.seen: list[str] = []
        self.paths: list[str] = []
        self.clients: list[str] = []
        self.address = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        self.seen.append(given)
        self.paths.append(request.raw_path)
        if (certificate := request.get_extra_info("peercert")) is not None:
            self.clients += [value for part in certificate["subject"] for name, value in part if name == "commonName"]
        if self.accepted is not None and given != self.accepted:
            return web.json_response({"message": "Unauthorized"}, status=401)
        return web.json_response(NAMESPACE)


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server, app = Server(), web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    server.address = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def write(file: Path, address: str, user: dict[str, Any], **cluster: Any) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": address, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(document))
    return file


def plugin(folder: Path, *, version: str = "v1", **more: Any) -> dict[str, Any]:
    """A credential plugin that prints the file `answer` beside it, and notes each run with what it was given."""
    script = folder / "plugin"
    script.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$KUBERNETES_EXEC_INFO" >> {folder}/runs\n'
        f"test -e {folder}/answer && cat {folder}/answer && exit 0\necho no network >&2; exit 3\n"
    )
    script.chmod(stat.S_IRWXU)
    return {"exec": {"apiVersion": f"{EXEC}/{version}", "command": "./plugin", "interactiveMode": "Never", **more}}


def answers(folder: Path, *, expires_s: float | None = None, **status: str) -> None:
    if expires_s is not None:
        status["expirationTimestamp"] = (datetime.now(UTC) + timedelta(seconds=expires_s)).isoformat()
    (folder / "answer").write_text(json.dumps({"kind": "ExecCredential", "status": status}))


def runs(folder: Path) -> list[dict[str, Any]]:
    file = folder / "runs"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@asynccontextmanager
async def cluster_of(kubeconfig: Path) -> AsyncIterator[KubeCluster]:
    cluster = KubeCluster(kubeconfig)
    try:
        yield cluster
    finally:
        await cluster.aclose()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_plugin_is_run_once_for_many_requests(tmp_path: Path, version: str) -> None:
    answers(tmp_path, token="t")
    async with serving() as server:
        user = plugin(tmp_path, version=version, provideClusterInfo=True, env=[{"name": "A", "value": "b"}])
        async with cluster_of(write(tmp_path / "config", server.address, user)) as cluster:
            for _ in range(3):
                await cluster.get(SECRET, "a", namespace="b")
    assert server.seen == ["Bearer t"] * 3
    info = {"interactive": False, "cluster": {"server": server.address}}
    assert runs(tmp_path) == [{"apiVersion": f"{EXEC}/{version}", "kind": "ExecCredential", "spec": info}]


async def test_a_plugin_that_fails_once_is_an_error_of_that_request_alone(tmp_path: Path) -> None:
    """It must not end the provider hours after its start, whatever it fails with."""
    troubles = [None, "", "{}", "[]", '{"status": {}}', '{"status": {"token": "t", "expirationTimestamp": "soon"}}']
    async with (
        serving() as server,
        cluster_of(write(tmp_path / "config", server.address, plugin(tmp_path))) as cluster,
    ):
        for trouble in troubles:
            if trouble is not None:
                (tmp_path / "answer").write_text(trouble)
            with pytest.raises(ClusterError, match=r"the credential plugin .*/plugin failed: ") as error:
                await cluster.get(SECRET, "a", namespace="b")
            assert error.value.status == 0
        with pytest.raises(ClusterError, match="plugin failed"):
            await anext(cluster._stream(SECRET, None, None, _Seen(version="1")))
        answers(tmp_path, token="t")
        assert await cluster.get(SECRET, "a", namespace="b")
    assert server.seen == ["Bearer t"]


async def test_a_plugin_that_is_not_there_is_named_with_its_exit(tmp_path: Path) -> None:
    async with serving() as server:
        kubeconfig = write(tmp_path / "config", server.address, plugin(tmp_path))
        async with cluster_of(kubeconfig) as cluster:
            with pytest.raises(ClusterError, match="plugin failed: exit code 3: no network"):
                await cluster.version()
            (tmp_path / "plugin").unlink()
            with pytest.raises(ClusterError, match="No such file"):
                await cluster.version()


async def test_a_refused_token_is_renewed_and_an_expired_one_before_it_is_used(tmp_path: Path) -> None:
    answers(tmp_path, token="old")
    async with (
        serving() as server,
        cluster_of(write(tmp_path / "config", server.address, plugin(tmp_path))) as cluster,
    ):
        await cluster.version()
        server.accepted = "Bearer new"
        answers(tmp_path, token="new", expires_s=5)
        await cluster.version()
        answers(tmp_path, token="newer", expires_s=3600)
        server.accepted = None
        await cluster.version()
        await cluster.version()
    assert server.seen == ["Bearer old", "Bearer old", "Bearer new", "Bearer newer", "Bearer newer"]


def authority(folder: Path) -> str:
    return str(AUTHORITY.write(folder, "ca")[0])


def mutual(folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority(folder))
    context.load_cert_chain(*SERVER.write(folder, "server"))
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_a_plugin_may_give_a_certificate_alone_and_a_renewed_one_is_used(tmp_path: Path) -> None:
    def renewed(name: str) -> None:
        certificate, key = identity(name, by=AUTHORITY).write(tmp_path, name)
        answers(tmp_path, expires_s=5, clientCertificateData=certificate.read_text(), clientKeyData=key.read_text())

    async with serving(mutual(tmp_path)) as server:
        user = plugin(tmp_path)
        kubeconfig = write(tmp_path / "config", server.address, user, **{"certificate-authority": "ca.pem"})
        async with cluster_of(kubeconfig) as cluster:
            for name in ("first", "second", "third"):
                renewed(name)
                await cluster.version()
                await cluster.version()
            assert len(cluster._server._retired) <= 2
    assert len(server.seen) == 6
    assert server.clients[0] == "first" and server.clients[-1] == "third"
    assert len(runs(tmp_path)) == 6, "a certificate that expires within seconds is renewed for each request"


async def test_the_workers_client_has_the_same_credentials(tmp_path: Path) -> None:
    certificate, key = identity("lessor", by=AUTHORITY).write(tmp_path, "lessor")
    answers(tmp_path, clientCertificateData=certificate.read_text(), clientKeyData=key.read_text())
    async with serving(mutual(tmp_path)) as server:
        config = EngineConfig(data=tmp_path, kubeconfig=tmp_path / "config", pulumi=Path("/bin/false"))
        write(tmp_path / "kubeconfig", server.address, plugin(tmp_path), **{"certificate-authority": "ca.pem"})
        try:
            await asyncio.to_thread(worker.refuse_terminating, config, "n")
        finally:
            worker._forget()
    assert server.paths == ["/api/v1/namespaces/n"]


async def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    async with (
        serving() as server,
        cluster_of(write(tmp_path / "config", server.address, {"tokenFile": "token"})) as cluster,
    ):
        await cluster.version()
        server.accepted = "Bearer two"
        (tmp_path / "token").write_text("two\n")
        await cluster.version()
        (tmp_path / "token").unlink()
        server.accepted = "Bearer three"
        with pytest.raises(ClusterError, match=r"the token file .* cannot be read"):
            await cluster.version()
    assert server.seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]


async def test_requests_go_through_the_proxy_that_the_kubeconfig_names(tmp_path: Path) -> None:
    async with serving() as proxy:
        kubeconfig = write(
            tmp_path / "config", "http://api.invalid:6443", {"token": "t"}, **{"proxy-url": proxy.address}
        )
        async with cluster_of(kubeconfig) as cluster:
            await cluster.version()
    assert proxy.paths == ["http://api.invalid:6443/version"]


@asynccontextmanager
async def tunnel(folder: Path) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy behind TLS, and the first line of each request to it."""
    asked: list[bytes] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        host, _, port = asked[-1].split()[1].decode().rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(OSError):
            await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*SERVER.write(folder, "proxy"))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


async def test_a_proxy_behind_tls_is_checked_by_the_systems_authorities_and_the_api_server_by_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = identity("own authority")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*identity("api-server", by=own).write(tmp_path, "server"))
    more = {"certificate-authority": str(own.write(tmp_path, "own")[0])}
    async with serving(context) as server, tunnel(tmp_path) as (address, asked):
        kubeconfig = write(tmp_path / "config", server.address, {"token": "t"}, **more, **{"proxy-url": address})
        async with cluster_of(kubeconfig) as cluster:
            with pytest.raises(ClusterError, match="certificate"):
                await cluster.version()
            monkeypatch.setenv("SSL_CERT_FILE", authority(tmp_path))
            await cluster.version()
    assert asked == [f"CONNECT {server.address.removeprefix('https://')} HTTP/1.1".encode()]
    assert server.paths == ["/version"]


async def test_the_server_name_of_the_kubeconfig_is_the_one_that_is_verified(tmp_path: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*SERVER.write(tmp_path, "server"))
    async with serving(context) as server:
        for name, error in (("127.0.0.1", ""), ("api.example", "Hostname mismatch")):
            more = {"certificate-authority": authority(tmp_path), "tls-server-name": name}
            async with cluster_of(write(tmp_path / "config", server.address, {"token": "t"}, **more)) as cluster:
                if not error:
                    await cluster.version()
                    continue
                with pytest.raises(ClusterError, match=error):
                    await cluster.version()


async def test_several_files_are_merged_as_kubectl_merges_them(tmp_path: Path) -> None:
    async with serving() as server:
        one, two = tmp_path / "one", tmp_path / "b" / "two"
        two.parent.mkdir()
        write(two, server.address, {"tokenFile": "token"})
        (two.parent / "token").write_text("t")
        one.write_text("\ufeff" + json.dumps({"current-context": "x", "clusters": None, "contexts": []}), "utf-8")
        names = os.pathsep.join(map(str, (one, tmp_path / "missing", two)))
        async with cluster_of(Path(names)) as cluster:
            await cluster.version()
    assert server.seen == ["Bearer t"]


async def test_a_kubeconfig_that_is_renewed_is_read_again_and_a_broken_one_is_not_used(tmp_path: Path) -> None:
    async with serving() as server:
        file = write(tmp_path / "config", server.address, {"token": "one"})
        async with cluster_of(file) as cluster:
            await cluster.version()
            file.write_text("a: [")
            await cluster.version()
            write(file, server.address, {"token": "two"})
            await cluster.version()
    assert server.seen == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_client_certificate_that_ends_soon_is_logged_once_a_day_and_a_renewed_one_is_used(
    tmp_path: Path,
) -> None:
    """An hour is left; kubeadm and k3s renew such certificates in the kubeconfig, beside the running provider."""
    identity("operator", by=AUTHORITY).write(tmp_path, "client")
    user = {"client-certificate": "client.pem", "client-key": "client.key"}
    async with serving(mutual(tmp_path)) as server:
        kubeconfig = write(tmp_path / "config", server.address, user, **{"certificate-authority": "ca.pem"})
        async with cluster_of(kubeconfig) as cluster:
            with capture_logs() as logs:
                await cluster.version()
                await cluster.version()
            assert [(entry["event"], entry["days"]) for entry in logs] == [("kube.certificate_ends", 0.0)]
            assert cluster.certificate_s is not None and 3000 < cluster.certificate_s <= 3600
            identity("renewed", by=AUTHORITY).write(tmp_path, "renewed")
            renewed = {"client-certificate": "renewed.pem", "client-key": "renewed.key"}
            write(kubeconfig, server.address, renewed, **{"certificate-authority": "ca.pem"})
            await cluster.version()
    assert server.clients[0] == "operator" and server.clients[-1] == "renewed"


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"as": "admin"}, {}, "has as, which is not supported"),
        ({"auth-provider": {"name": "gcp"}}, {}, "has auth-provider"),
        ({"exec": {"apiVersion": f"{EXEC}/v2", "command": "x"}}, {}, f"speaks {EXEC}/v2"),
        ({"exec": {"apiVersion": f"{EXEC}/v1", "command": "x", "interactiveMode": "Always"}}, {}, "needs a terminal"),
        ({"client-certificate-data": "!", "client-key-data": "AA=="}, {}, "certificate"),
        ({"client-certificate": "nowhere"}, {}, "nowhere"),
        ({}, {"proxy-url": "socks5://127.0.0.1:1"}, "its proxy-url is not supported"),
        ({}, {"server": "10.0.0.1:6443"}, "is not https"),
        ({}, {"certificate-authority-data": "AAAA"}, "cannot be used"),
    ],
)
def test_what_a_kubeconfig_asks_for_and_is_not_supported_is_said_at_the_start(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        KubeCluster(write(tmp_path / "config", "https://127.0.0.1:1", user, **cluster))
