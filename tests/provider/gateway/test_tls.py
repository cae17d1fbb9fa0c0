"""TLS of both listeners: the recorded handshakes of the Go provider, and the certificate for the public hostname."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from provider.gateway.auth.certificates import ClientCertificates
from provider.gateway.config import CaFiles
from provider.gateway.grpc.server import GrpcServer
from tests.provider.gateway import recorded
from tests.provider.gateway.certificates import Certified, by_a_ca
from tests.provider.gateway.world import PROVIDER, World, new_world
from tests.world.patience import PATIENCE_S

HOSTNAME = "provider.example.com"
ROWS = [row for row in recorded.records("tls") if "listener" in row]
NOT_AS_RECORDED = ("grpc sni 127.0.0.1:18444",)
"""The Go provider's gRPC listener serves the CA's certificate to a client that names its bind address."""


@dataclass
class Both:
    """A REST and a gRPC listener with a CA's certificate for the public hostname."""

    world: World
    grpc: GrpcServer
    files: CaFiles

    def port(self, listener: str) -> int:
        return self.world.gateway.address[1] if listener == "rest" else self.grpc.port


def write(files: CaFiles, certified: Certified) -> None:
    files.key.write_bytes(certified.key_pem)
    certified.write(files.certificate)


@asynccontextmanager
async def both(folder: Path) -> AsyncIterator[Both]:
    files = CaFiles(folder / "ca.pem", folder / "ca.key")
    write(files, by_a_ca(HOSTNAME))
    world = new_world(folder, ca_files=files)
    async with world.running():
        clients = ClientCertificates(world.chain, world.clock)
        grpc = GrpcServer({}, host="127.0.0.1", port=0, served=world.gateway.served, clients=clients)
        await grpc.start()
        try:
            yield Both(world, grpc, files)
        finally:
            await grpc.stop()


async def s_client(found: Both, row: recorded.Record) -> str:
    options = ["-connect", f"127.0.0.1:{found.port(row['listener'])}", "-showcerts"]
    options += ["-servername", row["sni"]] if row["sni"] else ["-noservername"]
    options += ["-alpn", ",".join(row["alpn_offered"])] if row["alpn_offered"] else []
    options += [row["version_forced"]] if row["version_forced"] else []
    process = await asyncio.create_subprocess_exec(
        shutil.which("openssl") or "openssl",
        "s_client",
        *options,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(PATIENCE_S):
        return (await process.communicate())[0].decode(errors="replace")


def described(shown: str) -> dict[str, Any]:
    """What `s_client` prints, as the recording says it."""
    alpn = re.search(r"^ALPN protocol: (\S+)", shown, re.MULTILINE)
    alert = re.search(r"SSL alert number (\d+)", shown)
    names = re.findall(r"^ *\d+ s:.*?CN = ([\w.]+)", shown, re.MULTILINE)
    return {
        "handshake_ok": "Cipher is TLS_" in shown,
        "certificate": names[0] if names else None,
        "protocol": "TLSv1.3" if "New, TLSv1.3" in shown else None,
        "alpn_selected": alpn[1] if alpn else None,
        "client_certificate_requested": "\nRequested Signature Algorithms" in shown,
        "client_ca_names_sent": "Acceptable client certificate CA names" in shown,
        "alert": alert[1] if alert else None,
    }


def as_recorded(row: recorded.Record) -> dict[str, Any]:
    subject = row["certificates_sent"][0]["subject"] if row["certificates_sent"] else ""
    alert = re.search(r"SSL alert number (\d+)", row["error"] or "")
    keys = ("handshake_ok", "protocol", "alpn_selected", "client_certificate_requested", "client_ca_names_sent")
    return {key: row[key] for key in keys} | {
        "certificate": subject.rpartition("CN=")[2] or None,
        "alert": alert[1] if alert else None,
    }


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_every_recorded_handshake_ends_as_recorded(tmp_path: Path) -> None:
    problems = []
    async with both(tmp_path) as found:
        rows = [row for row in ROWS if row["name"] not in NOT_AS_RECORDED]
        for row in rows:
            here, there = described(await s_client(found, row)), as_recorded(row)
            if here != there:
                problems.append(f"{row['name']}: {here} is not {there}")
    assert len(rows) > 25
    assert not problems, "\n".join(problems)


async def served_to(found: Both, name: str) -> tuple[str, int]:
    """The common name of the certificate that a client who asks for `name` gets, and how many certificates come."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = found.port("rest")
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    session = writer.get_extra_info("ssl_object")
    der = session.getpeercert(binary_form=True)
    count = len(session._sslobj.get_unverified_chain())
    writer.close()
    from cryptography import x509

    return x509.load_der_x509_certificate(der).issuer.rfc4514_string().rpartition("CN=")[2], count


async def test_the_certificate_of_the_ca_is_sent_with_its_chain_and_the_account_certificate_alone(
    tmp_path: Path,
) -> None:
    async with both(tmp_path) as found:
        assert await served_to(found, HOSTNAME) == ("test ca", 2)
        assert await served_to(found, f"mtls.{HOSTNAME}") == (PROVIDER, 1)


async def test_files_that_change_are_read_again_and_damaged_ones_change_nothing(tmp_path: Path) -> None:
    async with both(tmp_path) as found:
        write(found.files, by_a_ca(HOSTNAME, common="second ca"))
        assert (await served_to(found, HOSTNAME))[0] == "second ca"
        for damaged in (b"", b"garbage", by_a_ca(HOSTNAME).key_pem):
            found.files.key.write_bytes(damaged)
            with capture_logs() as logs:
                assert (await served_to(found, HOSTNAME))[0] == "second ca"
            assert [log["event"] for log in logs] == ["gateway.ca_certificate_not_read"]
            assert "PRIVATE KEY" not in str(logs)
        write(found.files, by_a_ca(HOSTNAME, common="third ca"))
        assert (await served_to(found, HOSTNAME))[0] == "third ca"


async def test_without_the_files_the_account_certificate_serves_every_name_until_they_come(tmp_path: Path) -> None:
    async with both(tmp_path) as found:
        for path in (found.files.certificate, found.files.key):
            path.unlink()
        world = new_world(tmp_path, ca_files=found.files)
        with capture_logs() as logs:
            async with world.running():
                second = Both(world, found.grpc, found.files)
                assert await served_to(second, HOSTNAME) == (PROVIDER, 1)
                write(found.files, by_a_ca(HOSTNAME))
                assert await served_to(second, HOSTNAME) == ("test ca", 2)
        assert "gateway.ca_certificate_not_read" in [log["event"] for log in logs]


async def test_another_account_certificate_is_served_from_the_next_connection_on(tmp_path: Path) -> None:
    from provider.gateway.tls import ensure_certificate

    async with both(tmp_path) as found:
        served = found.world.gateway.served
        old, (host, port) = served.account, found.world.gateway.address
        reader, writer = await asyncio.open_connection(host, port, ssl=found.world.pinned)
        served.replace(ensure_certificate(PROVIDER, tmp_path / "new", now=time.time()))
        pems = [await asyncio.to_thread(ssl.get_server_certificate, (host, each)) for each in (port, found.grpc.port)]
        assert pems == [served.account.pem] * 2 and served.account.pem != old.pem
        writer.write(b"GET /address HTTP/1.0\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 200 ")
        writer.close()


PLAIN = recorded.record("tls", "plain HTTP request on the REST port")["response"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "OPTIONS"])
async def test_http_without_tls_is_answered_in_clear_text_as_recorded(tmp_path: Path, method: str) -> None:
    async with new_world(tmp_path).running() as world:
        reader, writer = await asyncio.open_connection(*world.gateway.address)
        writer.write(f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).decode() == PLAIN
        writer.close()
        assert (await world.get("/address")).status == 200
