"""A CA that is slow, endless, wrong or silent: the order fails with a reason, and neither the loop nor the end of the
process waits for it.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from provider.gateway.issuer import network
from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued
from provider.gateway.issuer.order import checked, order_certificate
from provider.protocols.clock import SystemClock
from tests.provider.gateway.certificates import by_a_ca
from tests.provider.gateway.issuer.test_renewal import certificate
from tests.world.processes import line_of, start_process

NAME = "provider.example.com"


@asynccontextmanager
async def answering(
    folder: Path, *parts: bytes, last: bytes = b"", silent: bool = False
) -> AsyncIterator[IssuerConfig]:
    """A server of TLS that sends `parts` to every request, then `last` for ever."""
    own = by_a_ca("localhost")
    (folder / "key").write_bytes(own.key_pem)
    own.write(folder / "own")
    (folder / "roots").write_bytes(own.write(folder / "own").read_bytes().split(b"-----BEGIN PRIVATE")[0])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "own", folder / "key")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.writelines(parts)
            await writer.drain()
            while last and not writer.is_closing():
                writer.write(last)
                await asyncio.sleep(0)
                await writer.drain()
            if silent:
                await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    yield IssuerConfig(
        f"https://localhost:{port}/dir",
        (NAME,),
        "127.0.0.1:0",
        folder / "issuer",
        folder / "issuer" / "account.pem",
        roots=folder / "roots",
    )
    server.close()


def document(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@pytest.mark.parametrize(
    ("parts", "last", "problem"),
    [
        ([b""], b"", "does not answer"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], b"", "does not answer"),
        ([document(b"")], b"", "no answer of ACME"),
        ([document(b"<html>")], b"", "no answer of ACME"),
        ([document(b"[" * 100_000)], b"", "no answer of ACME"),
        ([document(b"[]")], b"", "no answer of ACME"),
        ([document(b"{}")], b"", "no answer of ACME"),
        ([document(b'{"newAccount": 7, "newNonce": []}')], b"", "no answer of ACME"),
        ([document(b"{}", "503 Service Unavailable")], b"", "the CA refuses"),
        ([ENDLESS], b"x" * 65536, "longer than 1048576 bytes"),
        (
            [document(b'{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "a\\nb\\u001b[2J"}', "429 No")],
            b"",
            "a",
        ),
    ],
)
async def test_what_is_no_answer_of_acme_is_a_reason(
    tmp_path: Path, parts: list[bytes], last: bytes, problem: str
) -> None:
    async with answering(tmp_path, *parts, last=last) as config:
        with pytest.raises(NotIssued) as raised:
            await order_certificate(config, SystemClock())
    assert problem in raised.value.problem, raised.value.problem
    assert raised.value.problem.isprintable() and raised.value.remedy


@pytest.mark.parametrize(("given", "seconds"), [("7200", 7200), ("soon", 0), ("-5", 0), ("9" * 400, 0)])
async def test_a_limit_of_the_ca_is_known_with_its_end(tmp_path: Path, given: str, seconds: float) -> None:
    body = b'{"type": "urn:ietf:params:acme:error:rateLimited", "detail": "too many"}'
    async with answering(tmp_path, document(body, "429 No", f"Retry-After: {given}\r\n")) as config:
        with pytest.raises(NotIssued) as raised:
            await order_certificate(config, SystemClock())
    assert raised.value.retry_after_s == pytest.approx(seconds, abs=300)
    assert "only one provider" in raised.value.remedy or not seconds


async def test_a_body_that_comes_in_drops_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_ANSWER_S", -1)
    answer = requests.Response()
    answer.raw = _Drops()
    with pytest.raises(requests.ConnectionError, match="took longer"):
        network._body(answer)


class _Drops:
    def read1(self, _: int, **__: Any) -> bytes:
        return b"x"


async def test_a_silent_ca_delays_no_end_of_the_process(tmp_path: Path) -> None:
    async with answering(tmp_path, silent=True) as config:
        program = (
            "import asyncio, sys; from pathlib import Path\n"
            "from provider.gateway.issuer.config import IssuerConfig\n"
            "from provider.gateway.issuer.order import order_certificate\n"
            "from provider.protocols.clock import SystemClock\n"
            "async def main():\n"
            "    names = ('provider.example.com',)\n"
            "    own = IssuerConfig(sys.argv[1], names, '127.0.0.1:0', Path(sys.argv[2]), Path(sys.argv[2], 'key'),\n"
            "                       roots=Path(sys.argv[3]))\n"
            "    order = asyncio.create_task(order_certificate(own, SystemClock()))\n"
            "    await asyncio.sleep(0.5)\n"
            "    order.cancel()\n"
            "    print('waits', not order.done(), flush=True)\n"
            "asyncio.run(main())\n"
        )
        argv = (sys.executable, "-c", program, config.directory, str(tmp_path / "home"), str(config.roots))
        (tmp_path / "home").mkdir()
        process = start_process(argv, stdout=subprocess.PIPE)
        assert await asyncio.to_thread(line_of, process) == "waits True\n"
        assert await asyncio.to_thread(process.wait) == 0, "the thread that waits for the CA is left behind"


def test_only_a_certificate_of_the_own_key_and_names_that_is_valid_now_is_used() -> None:
    now, key = SystemClock().now(), ec.generate_private_key(ec.SECP256R1())

    def refused(text: object, *, at: float = now, of: Any = key, names: tuple[str, ...] = (NAME,)) -> str:
        with pytest.raises(NotIssued) as raised:
            checked(text, of, names, now=at)
        return raised.value.problem

    good = certificate(now - 60, 90, (NAME,))
    own = _key(good)
    assert checked(good, own, (NAME,), now=now).count("BEGIN") == 2
    assert "another key" in refused(good)
    assert "without other.example.com" in refused(good, of=own, names=(NAME, "other.example.com"))
    assert "for 20" in refused(good, of=own, at=now + 91 * 86400) and "for 20" in refused(good, of=own, at=now - 120)
    for wrong in ("", None, "text", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "\udcff"):
        assert "no certificate" in refused(wrong)


def _key(text: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    assert x509.load_pem_x509_certificate(text.encode())
    return load_pem_private_key(text.encode(), password=None)
