"""Client certificates: requested, not required, and worth what the chain says of them (gateway.md §2.2)."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID
from structlog.testing import capture_logs

from provider.errors import ChainError
from provider.gateway.auth.certificates import CertificateRefusedError, ClientCertificates
from provider.gateway.errors import AuthError
from provider.protocols.chain import CertificateState
from tests.provider.gateway import recorded
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.certificates import Certified, certified, publish
from tests.provider.gateway.manifests import TENANT
from tests.provider.gateway.world import World, new_world, parse_answer
from tests.world.chain import FakeChain
from tests.world.patience import PATIENCE_S, eventually
from tests.world.virtual import VirtualClock

OWNER = TENANT.address
MAIN_OWNER = recorded.issuer(recorded.record("manifest", "accepted"))


def clients(chain: FakeChain, **options: Any) -> ClientCertificates:
    return ClientCertificates(chain, VirtualClock(NOW), **options)


# what a certificate proves


async def test_the_published_certificate_of_an_account_names_the_account() -> None:
    chain, own = FakeChain(), certified(OWNER)
    publish(chain, OWNER, own)
    assert await clients(chain).account([own.certificate]) == OWNER


KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())
GONE, BAD, NAME = "non-existing or revoked", "unable to verify", "subject common name"
REFUSED: dict[str, tuple[Certified, Certified | None, str]] = {
    "not on the chain": (certified(OWNER), None, GONE),
    "a name that is no address": (certified("tenant.example.com"), None, NAME),
    "the address of another chain": (certified(OWNER.replace("akash1", "cosmos1")), None, NAME),
    "an address in capitals": (certified(OWNER.upper()), None, NAME),
    "another issuer": (certified(OWNER, issuer=MAIN_OWNER), None, NAME),
    "the serial number of another": (certified(OWNER, key=KEY), certified(OWNER, key=OTHER_KEY), BAD),
    "the published key, another certificate": (certified(OWNER, key=KEY, days=9), certified(OWNER, key=KEY), BAD),
    "signed by another key": (forged := certified(OWNER, key=KEY, signed_by=OTHER_KEY), forged, BAD),
    "ended": (ended := certified(OWNER, begins=NOW - 2 * 86400, days=1), ended, BAD),
    "not begun": (early := certified(OWNER, begins=NOW + 60), early, BAD),
    "for servers only": (server := certified(OWNER, purpose=ExtendedKeyUsageOID.SERVER_AUTH), server, BAD),
    "not an ECDSA key": (weak := certified(OWNER, key=rsa.generate_private_key(65537, 2048)), weak, BAD),
}


@pytest.mark.parametrize(("shown", "on_chain", "text"), REFUSED.values(), ids=REFUSED)
async def test_a_certificate_that_proves_nothing_is_refused(
    shown: Certified, on_chain: Certified | None, text: str
) -> None:
    chain = FakeChain()
    if on_chain is not None:
        publish(chain, OWNER, on_chain)
    with pytest.raises(CertificateRefusedError, match=text):
        await clients(chain).account([shown.certificate])


@pytest.mark.parametrize("count", [0, 2])
async def test_exactly_one_certificate_is_taken(count: int) -> None:
    with pytest.raises(CertificateRefusedError, match="peer certificate"):
        await clients(FakeChain()).account([certified(OWNER).certificate] * count)


@pytest.mark.parametrize("purpose", [None, x509.ObjectIdentifier("2.5.29.37.0")], ids=["none", "any"])
async def test_a_certificate_without_a_purpose_or_for_any_is_for_clients_too(purpose: Any) -> None:
    chain, own = FakeChain(), certified(OWNER, purpose=purpose)
    publish(chain, OWNER, own)
    assert await clients(chain).account([own.certificate]) == OWNER


@pytest.mark.virtual_time
async def test_a_revocation_is_noticed_within_half_a_minute_and_the_chain_is_not_asked_each_time() -> None:
    chain, own, clock = FakeChain(), certified(OWNER), VirtualClock(NOW)
    publish(chain, OWNER, own)
    found = ClientCertificates(chain, clock)
    for _ in range(50):
        assert await found.account([own.certificate]) == OWNER
    assert chain.calls == ["certificate"]
    publish(chain, OWNER, own, CertificateState.REVOKED)
    await clock.advance(30)
    with pytest.raises(CertificateRefusedError, match=GONE):
        await found.account([own.certificate])


@pytest.mark.virtual_time
async def test_strangers_cause_few_queries_of_their_own_client_and_a_tenant_is_not_limited() -> None:
    chain, strangers, own = FakeChain(), FakeChain(), certified(OWNER)
    publish(chain, OWNER, own)
    found = clients(chain, strangers=strangers, is_tenant=lambda address: address == OWNER)
    refused = 0
    for number in range(200):
        shown = certified(MAIN_OWNER, serial=number + 1, key=KEY).certificate
        try:
            await found.account([shown], peer="192.0.2.1")
        except AuthError:
            refused += 1
        except CertificateRefusedError:
            pass
    assert (len(strangers.calls), refused, chain.calls) == (30, 170, [])
    assert await found.account([own.certificate], peer="192.0.2.1") == OWNER


# connections


class HandClock(VirtualClock):
    """A clock that a test moves, outside virtual time too."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed


@asynccontextmanager
async def main_world(folder: Path) -> AsyncIterator[World]:
    """The gateway with the recorded lease."""
    world = new_world(folder)
    world.clock = HandClock()
    world.clock.set(recorded.moment(recorded.record("auth", "client certificate")))
    recorded.fill_chain(world)
    recorded.fill_cluster(world, addresses=False)
    async with world.running():
        yield world


def with_certificate(world: World, folder: Path, shown: Certified) -> ssl.SSLContext:
    context = world.pinned
    context.load_cert_chain(shown.write(folder / "client.pem"))
    return context


async def ask(world: World, context: ssl.SSLContext, path: str, *headers: tuple[str, str]) -> bytes:
    """The answer; empty when the connection ends without one."""
    host, port = world.gateway.address
    lines = [f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *(f"{key}: {value}" for key, value in headers)]
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            answer = await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""
    writer.close()
    return answer


RECORDED = [row for row in recorded.records("auth") if row["request"]["client_certificate"]]
_WITH_CA = "client certificate with SNI of the CA certificate"


def shown_in(row: recorded.Record) -> tuple[Certified, bool]:
    """The client certificate of a record, and whether it is on the chain."""
    name = row["name"]
    if "of another tenant" in name:
        return certified(OWNER), True
    if "CN not an address" in name:
        return certified("tenant"), False
    return certified(MAIN_OWNER), "not on chain" not in name and "serial of another" not in name


@pytest.mark.parametrize("row", [row for row in RECORDED if row["name"] != _WITH_CA], ids=lambda row: row["name"])
async def test_recorded_requests_with_a_client_certificate_are_answered_as_recorded(
    row: recorded.Record, tmp_path: Path
) -> None:
    shown, on_chain = shown_in(row)
    async with main_world(tmp_path) as world:
        world.clock.set(recorded.moment(row) if row["response"]["status"] else NOW)
        owner = MAIN_OWNER if OWNER not in str(shown.certificate.subject) else OWNER
        if on_chain:
            publish(world.chain, owner, shown)
        elif "serial of another" in row["name"]:
            publish(world.chain, owner, certified(owner))
        headers = [(key, value) for key, value in row["request"]["headers"] if key == "Authorization"]
        answer = await ask(world, with_certificate(world, tmp_path, shown), row["request"]["path"], *headers)
    found = parse_answer(answer)
    if row["response"]["status"] is None:  # the Go provider ends the connection
        assert found.status == 401 and json.loads(found.body)["message"].startswith("tls: ")
        return
    assert (found.status, found.text) == (row["response"]["status"], row["response"]["body"])


TOLD = {
    "ended": (
        certified(MAIN_OWNER, begins=NOW - 2 * 86400, days=1),
        CertificateState.VALID,
        "tls: unable to verify certificate: it ended at 2026-11-26T22:53:20Z: make and publish another one",
    ),
    "revoked": (
        certified(MAIN_OWNER),
        CertificateState.REVOKED,
        f"tls: attempt to use non-existing or revoked certificate: {MAIN_OWNER} has revoked its certificate with "
        "serial 1795820000000000000: make and publish another one, or send a token",
    ),
    "not published": (
        certified(MAIN_OWNER),
        None,
        f"tls: attempt to use non-existing or revoked certificate: {MAIN_OWNER} has published no certificate with "
        "serial 1795820000000000000: publish it, or send a token",
    ),
    "not of an account": (
        certified("tenant"),
        None,
        "tls: invalid certificate's subject common name: subject and issuer must be the account that has published it",
    ),
}


@pytest.mark.parametrize(("shown", "state", "text"), TOLD.values(), ids=TOLD)
async def test_a_client_that_is_refused_reads_the_cause_and_the_remedy_whatever_it_asks_for(
    shown: Certified, state: CertificateState | None, text: str, tmp_path: Path
) -> None:
    async with main_world(tmp_path) as world:
        world.clock.set(NOW)
        if state is not None:
            publish(world.chain, MAIN_OWNER, shown, state)
        context = with_certificate(world, tmp_path, shown)
        for path in ("/lease/82022200/1/1/status", "/version", "/lease/82022200/1/1/logs?follow=true"):
            answer = parse_answer(await ask(world, context, path))
            assert (answer.status, json.loads(answer.body)) == (401, {"message": text})
            assert (answer.header("Connection"), answer.header("Content-Type")) == ("close", "application/json")


async def test_a_refused_client_that_sends_much_gets_the_whole_answer_and_one_that_sends_nothing_is_let_go(
    tmp_path: Path,
) -> None:
    async with main_world(tmp_path) as world:
        context = with_certificate(world, tmp_path, certified(MAIN_OWNER))
        reader, writer = await asyncio.open_connection(*world.gateway.address, ssl=context)
        head = b"PUT /deployment/82022200/manifest HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
        writer.write(head + bytes(1_000_000))
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.transport.abort()
        silent, _ = await asyncio.open_connection(*world.gateway.address, ssl=context)
        async with asyncio.timeout(PATIENCE_S):
            assert await _rest(silent) == b""
        await eventually(partial(_are_open, world, 0))


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except (ConnectionError, ssl.SSLError):
        return b""


async def test_what_a_client_sends_at_once_waits_for_the_check_and_is_then_answered(tmp_path: Path) -> None:
    async with main_world(tmp_path) as world:
        own = certified(MAIN_OWNER)
        publish(world.chain, MAIN_OWNER, own)
        answered = world.chain.gates["certificate"] = asyncio.Event()
        task = asyncio.create_task(ask(world, with_certificate(world, tmp_path, own), "/address"))
        await eventually(lambda: "certificate" in world.chain.calls)
        assert not task.done()
        answered.set()
        assert (await task).startswith(b"HTTP/1.1 200 ")


async def test_without_an_answer_of_the_chain_a_client_is_told_to_try_again_and_the_log_says_so(tmp_path: Path) -> None:
    async with main_world(tmp_path) as world:

        def away(name: str) -> None:
            raise ChainError("node", "connection refused")

        world.chain.before = away
        with capture_logs() as logs:
            answer = parse_answer(
                await ask(world, with_certificate(world, tmp_path, certified(MAIN_OWNER)), "/address")
            )
        assert (answer.status, answer.header("Retry-After")) == (503, "5")
        assert "127.0.0.1" not in answer.text and "refused" not in answer.text
        assert [log["event"] for log in logs] == ["gateway.certificate_not_checked"]


async def test_open_connections_end_when_their_certificate_is_revoked_and_stay_while_the_chain_is_away(
    tmp_path: Path,
) -> None:
    async with main_world(tmp_path) as world:
        own, host_port = certified(MAIN_OWNER), world.gateway.address
        publish(world.chain, MAIN_OWNER, own)
        context = with_certificate(world, tmp_path, own)
        reader, writer = await asyncio.open_connection(*host_port, ssl=context)
        plain_reader, plain_writer = await asyncio.open_connection(*host_port, ssl=world.pinned)
        for each, stream in ((writer, reader), (plain_writer, plain_reader)):
            each.write(b"GET /address HTTP/1.1\r\nHost: x\r\n\r\n")
            await stream.readuntil(b"}")
        publish(world.chain, MAIN_OWNER, own, CertificateState.REVOKED)
        clock = world.clock
        assert isinstance(clock, HandClock)
        for outage, left in ((True, 2), (False, 1)):
            clock.passed += 21

            def before(name: str, outage: bool = outage) -> None:
                if outage:
                    raise ChainError("node", "connection refused")

            world.chain.before = before
            await world.gateway.check_certificates()
            await eventually(partial(_are_open, world, left))
        plain_writer.write(b"GET /address HTTP/1.1\r\nHost: x\r\n\r\n")
        await plain_reader.readuntil(b"}")
        plain_writer.close()


def _are_open(world: World, count: int) -> bool:
    return world.gateway.admission.connections == count


# stock clients

OPENSSL, NODE = shutil.which("openssl"), shutil.which("node")


async def run(*argv: str, stdin: bytes = b"") -> str:
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(PATIENCE_S):
        return (await process.communicate(stdin))[0].decode(errors="replace")


def s_client(world: World, *options: str) -> Sequence[str]:
    host, port = world.gateway.address
    return (OPENSSL or "openssl", "s_client", "-connect", f"{host}:{port}", *options)


REQUEST = b"GET /lease/82022200/1/1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.mark.skipif(OPENSSL is None, reason="needs openssl")
async def test_openssl_connects_with_a_certificate_and_no_session_is_resumed(tmp_path: Path) -> None:
    async with main_world(tmp_path) as world:
        own = certified(MAIN_OWNER)
        publish(world.chain, MAIN_OWNER, own)
        file, session = str(own.write(tmp_path / "client.pem")), tmp_path / "session"
        options = ("-cert", file, "-key", file, "-ign_eof", "-sess_out", str(session))
        shown = await run(*s_client(world, *options), stdin=REQUEST)
        assert "HTTP/1.1 200 OK" in shown and "New, TLSv1.3" in shown
        again = await run(*s_client(world, "-ign_eof", "-sess_in", str(session)), stdin=REQUEST)
        assert "New, TLSv1.3" in again and "Reused" not in again and "HTTP/1.1 401 " in again


NODE_CLIENT = """
const [port, pem] = process.argv.slice(1);
const file = require("fs").readFileSync(pem);
const options = {host: "127.0.0.1", port, path: "/lease/82022200/1/1/status", cert: file, key: file,
                 servername: "", rejectUnauthorized: false, agent: new (require("https").Agent)({keepAlive: true})};
const ask = (done) => require("https").get(options, (answer) => {
  let body = "";
  answer.on("data", (part) => { body += part; });
  answer.on("end", () => { console.log(answer.statusCode, body.length); done(); });
}).on("error", (error) => { console.log("error", error.code); done(); });
ask(() => ask(() => process.exit(0)));
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize("on_chain", [True, False])
async def test_node_connects_with_a_certificate_of_the_chain_only(tmp_path: Path, on_chain: bool) -> None:
    async with main_world(tmp_path) as world:
        own = certified(MAIN_OWNER)
        if on_chain:
            publish(world.chain, MAIN_OWNER, own)
        file = str(own.write(tmp_path / "client.pem"))
        shown = await run(NODE or "node", "-e", NODE_CLIENT, str(world.gateway.address[1]), file)
        lines = shown.split("\n")[:2]
        assert [line.split()[0] for line in lines] == (["200", "200"] if on_chain else ["401", "401"]), shown


async def test_a_certificate_of_a_version_that_does_not_exist_is_refused_and_counted(tmp_path: Path) -> None:
    own = certified(MAIN_OWNER)
    body = own.certificate.tbs_certificate_bytes.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x06", 1)
    signature = own.key.sign(body, ec.ECDSA(SHA256()))
    tail = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02\x03" + bytes([len(signature) + 1, 0]) + signature
    der = b"\x30\x82" + (len(body) + len(tail)).to_bytes(2, "big") + body + tail
    file = tmp_path / "client.pem"
    file.write_text(ssl.DER_cert_to_PEM_cert(der) + own.key_pem.decode())
    async with main_world(tmp_path) as world:
        context = world.pinned
        context.load_cert_chain(file)
        assert parse_answer(await ask(world, context, "/address")).status == 401
        assert sum(world.gateway.admission.refusals.total.values()) == 1


async def test_a_handshake_of_more_than_32_kib_is_cut_off(tmp_path: Path) -> None:
    async with main_world(tmp_path) as world:
        reader, writer = await asyncio.open_connection(*world.gateway.address)
        hello = b"\x16\x03\x01\x40\x00\x01\x00\xff\xfc" + bytes(0x4000 - 4)
        writer.write(hello + b"".join(b"\x16\x03\x01\x40\x00" + bytes(0x4000) for _ in range(3)))
        async with asyncio.timeout(PATIENCE_S):
            try:
                while await reader.read(1000):
                    pass
            except ConnectionError:
                pass
        await eventually(lambda: world.gateway.admission.connections == 0)
        writer.close()
