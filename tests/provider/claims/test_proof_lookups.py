"""What is read as a proof: from a DNS server and a web server of the test's own, hostile ones too."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest

from provider.claims.proof_lookups import Refuses, Servers, closed_address, file_lines, hostname_proofs, txt_lines
from provider.errors import ClusterError
from provider.settings import Settings
from provider.settings.kinds import ProofKind
from tests.world.cluster import FakeCluster
from tests.world.patience import eventually
from tests.world.virtual import VirtualClock

HOST, RECORD = "shop.example.com", "_akash-owner.shop.example.com"
ME = "akash1me"


@dataclass
class Server(asyncio.DatagramProtocol):
    """A DNS server: records by (name, kind). What does not fit is cut, and marked so."""

    records: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    forge: Callable[[dns.message.Message], bytes | None] | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self.answer(data)
        if answer is not None:
            self.transport.sendto(answer, addr)  # type: ignore[attr-defined]

    def answer(self, data: bytes) -> bytes | None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        name, kind = question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        if self.forge is not None:
            return self.forge(query)
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if texts := self.records.get((name, kind)):
            answer.answer.append(dns.rrset.from_text(question.name, 60, "IN", kind, *texts))
        elif not any(known == name for known, _ in self.records):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        try:
            return answer.to_wire(max_size=query.payload)
        except dns.exception.TooBig:
            answer.answer.clear()
            answer.flags |= dns.flags.TC
            return answer.to_wire()


def _itself(server: Server) -> Server:
    return server


@asynccontextmanager
async def dns_server(*servers: Server) -> AsyncIterator[Servers]:
    loop = asyncio.get_running_loop()
    sockets = []
    for server in servers:
        udp, _ = await loop.create_datagram_endpoint(partial(_itself, server), local_addr=("127.0.0.1", 0))
        sockets.append(udp)
    try:
        yield [("127.0.0.1", udp.get_extra_info("sockname")[1]) for udp in sockets]
    finally:
        for udp in sockets:
            udp.close()


def quoted(*texts: str) -> list[str]:
    return [f'"{text}"' for text in texts]


async def test_every_txt_record_is_read_and_one_of_many_parts_is_one_text() -> None:
    server = Server({(RECORD, "TXT"): ['"akash1" "me"', '"v=other"']})
    async with dns_server(server) as servers:
        assert sorted(await txt_lines(servers)(HOST)) == [ME, "v=other"]
        assert ME in await txt_lines(servers)(f"*.{HOST}")
    assert set(server.asked) == {(RECORD, "TXT")}, "the search list of the machine adds no names"


async def test_a_name_without_records_is_told() -> None:
    for records in ({}, {(RECORD, "A"): ["192.0.2.1"]}):
        async with dns_server(Server(dict(records))) as servers:
            with pytest.raises(OSError, match=rf"DNS has no {RECORD} \(TXT\)"):
                await txt_lines(servers)(HOST)


async def test_a_huge_answer_is_no_proof_and_is_not_fetched() -> None:
    """Reading 64 KiB of records would stop the provider for seconds."""
    many = quoted(*(f"{number:04}" + "x" * 20 for number in range(900)))
    server = Server({(RECORD, "TXT"): many})
    async with dns_server(server) as servers:
        with pytest.raises(OSError, match="is longer than 1232 bytes"):
            await txt_lines(servers)(HOST)
    assert len(server.asked) == 1


async def test_a_long_record_is_cut() -> None:
    async with dns_server(Server({(RECORD, "TXT"): [" ".join(quoted(*["y" * 250] * 4))]})) as servers:
        assert list(map(len, await txt_lines(servers)(HOST))) == [512]


async def test_an_alias_of_the_record_is_followed_and_a_loop_of_aliases_ends() -> None:
    def alias(*names: str) -> Callable[[dns.message.Message], bytes]:
        def forge(query: dns.message.Message) -> bytes:
            answer = dns.message.make_response(query)
            for name, target in itertools.pairwise((RECORD, *names)):
                answer.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", "CNAME", f"{target}."))
            answer.answer.append(dns.rrset.from_text("there.example.", 60, "IN", "TXT", f'"{ME}"'))
            return answer.to_wire()

        return forge

    async with dns_server(Server(forge=alias("there.example"))) as servers:
        assert await txt_lines(servers)(HOST) == [ME]
    async with dns_server(Server(forge=alias("b.example", RECORD))) as servers:
        with pytest.raises(OSError, match="DNS"):
            await txt_lines(servers)(HOST)


async def test_the_next_server_is_asked_when_one_fails() -> None:
    def fails(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.set_rcode(dns.rcode.SERVFAIL)
        return answer.to_wire()

    async with dns_server(Server(forge=fails), Server({(RECORD, "TXT"): quoted(ME)})) as servers:
        assert await txt_lines(servers)(HOST) == [ME]


@pytest.mark.parametrize(
    "forge",
    [
        lambda query: b"",
        lambda query: query.id.to_bytes(2, "big") + b"\x81\x80\0\1\0\1\0\0\0\0" + b"\xc0\x0c" * 40,
        lambda query: query.id.to_bytes(2, "big") + b"\xff" * 500,
        lambda query: dns.message.make_response(query).to_wire()[:-3],
    ],
    ids=["nothing", "a name that points at itself", "ones", "a cut question"],
)
async def test_a_malformed_answer_is_no_proof(
    forge: Callable[[dns.message.Message], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.claims.proof_lookups._SERVER_S", 0.05)
    async with dns_server(Server(forge=forge)) as servers:
        with pytest.raises(OSError, match="DNS"):
            await txt_lines(servers)(HOST)


@pytest.mark.parametrize("code", [dns.rcode.SERVFAIL, dns.rcode.REFUSED])
async def test_an_error_of_dns_is_no_proof(code: dns.rcode.Rcode) -> None:
    def forge(query: dns.message.Message) -> bytes:
        answer = dns.message.make_response(query)
        answer.set_rcode(code)
        return answer.to_wire()

    async with dns_server(Server(forge=forge)) as servers:
        with pytest.raises(OSError, match="no answer of DNS: "):
            await txt_lines(servers)(HOST)


@dataclass
class Web:
    """A web server that sends these bytes; `hold`: and then keeps the connection open."""

    answer: bytes = b""
    hold: bool = False
    endless: bytes = b""
    requests: list[bytes] = field(default_factory=list)
    open: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.answer)
            while self.endless:
                writer.write(self.endless)
                await writer.drain()
            while self.hold and await reader.read(1):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.open -= 1

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
            await eventually(lambda: self.open == 0)  # the reader has closed each connection
        finally:
            server.close()


async def allowed() -> Refuses:
    """Refuses nothing: the test's own server is on loopback."""
    return lambda address: False


async def closed_ones() -> Refuses:
    return closed_address


async def read_file(web: Web, *addresses: str) -> list[str]:
    records = {(HOST, "A"): list(addresses or ("127.0.0.1",))}
    async with web.running() as port, dns_server(Server(records)) as servers:
        return list(await file_lines(servers, refuses=allowed, port=port)(HOST))


@contextmanager
def refused(match: str) -> Iterator[None]:
    with pytest.raises(OSError, match=match):
        yield


async def test_the_lines_of_the_file_are_read() -> None:
    web = Web(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n# owner\r\nakash1me\r\n")
    assert ME in await read_file(web)
    (request,) = web.requests
    assert request.startswith(b"GET /.well-known/akash-owner HTTP/1.0\r\nHost: shop.example.com\r\n")


async def test_a_chunked_body_is_read_too() -> None:
    web = Web(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nakash1me\n\r\n0\r\n\r\n")
    assert ME in await read_file(web)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary Redirect", "404 Not Found", "500 No"])
async def test_a_redirect_and_an_error_are_no_proof_and_are_not_followed(status: str) -> None:
    target = b"Location: http://127.0.0.1/\r\n\r\nakash1me\n"
    web = Web(f"HTTP/1.1 {status}\r\n".encode() + target)
    with refused(f"the answer has status {status[:3]}"):
        await read_file(web)
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    "answer", [b"", b"akash1me\n", b"HTTP/1.1\r\n\r\nakash1me", b"HTTP/1.1 \xff\xff\xff\r\n\r\nakash1me", b"\0" * 100]
)
async def test_what_is_no_http_is_no_proof(answer: bytes) -> None:
    with refused("cannot be read"):
        await read_file(Web(answer))


async def test_an_endless_answer_is_read_for_16_kib() -> None:
    web = Web(b"HTTP/1.1 200 OK\r\n\r\n", endless=b"x" * 4096)
    lines = await read_file(web)
    assert sum(map(len, lines)) <= 16 * 1024


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n\r\nakash1me\n"])
async def test_an_answer_that_does_not_end_is_no_proof(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provider.claims.proof_lookups._LOOKUP_S", 0.2)
    with refused("cannot be read"):
        await read_file(Web(answer, hold=True))


CLOSED = (
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1"),
    *("::", "::1", "fe80::1", "fc00::1", "fec0::1", "ff02::1", "2001::1", "2002:a00:1::1"),
    *("::ffff:10.0.0.1", "::ffff:8.8.8.8", "::10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1"),
)
OWN = ("9.9.9.9", "9.9.8.0/24", "9.9.7.5-9.9.7.9", "2620:fe::/48")


@pytest.mark.parametrize("address", CLOSED)
def test_an_address_that_is_not_public_is_closed(address: str) -> None:
    assert closed_address(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["9.9.9.9", "9.9.8.1", "9.9.7.5", "9.9.7.9", "2620:fe::9"])
def test_the_provider_s_own_addresses_are_closed(address: str) -> None:
    assert closed_address(ipaddress.ip_address(address), OWN)
    assert not closed_address(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "9.9.7.10", "2606:4700::1111"])
def test_a_public_address_of_somebody_else_is_open(address: str) -> None:
    assert not closed_address(ipaddress.ip_address(address), OWN)


@pytest.mark.parametrize("others", [(), ("8.8.8.8",)])
async def test_nothing_is_asked_when_one_address_of_the_hostname_is_closed(others: tuple[str, ...]) -> None:
    web = Web(b"HTTP/1.1 200 OK\r\n\r\nakash1me\n")
    records = {(HOST, "A"): [*others, "127.0.0.1"]}
    async with web.running() as port, dns_server(Server(records)) as servers:
        with refused(f"{HOST} resolves to 127.0.0.1, from which no proof is read"):
            await file_lines(servers, refuses=closed_ones, port=port)(HOST)
    assert web.requests == []


async def test_the_checked_address_is_the_one_that_is_asked_whatever_dns_says_later() -> None:
    """DNS rebinding: the second answer would lead elsewhere; no second question is asked."""
    server = Server({(HOST, "A"): ["127.0.0.1"]})
    checked: list[str] = []

    def check(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        checked.append(str(address))
        server.records[(HOST, "A")] = ["127.0.0.9"]
        return False

    async def refuses() -> Refuses:
        return check

    web = Web(b"HTTP/1.1 200 OK\r\n\r\nakash1me\n")
    async with web.running() as port, dns_server(server) as servers:
        assert ME in await file_lines(servers, refuses=refuses, port=port)(HOST)
    assert checked == ["127.0.0.1"] and server.asked.count((HOST, "A")) == 1


def test_the_settings_close_the_provider_s_addresses_and_ask_nobody_when_off() -> None:
    assert hostname_proofs(Settings(), VirtualClock(), FakeCluster()) is None
    proofs = hostname_proofs(Settings(hostname_proof=ProofKind.EITHER), VirtualClock(), FakeCluster())
    assert proofs is not None and proofs.kind is ProofKind.EITHER


async def proof_at(cluster: FakeCluster, address: str) -> str:
    """What a tenant reads whose hostname resolves to the address."""
    settings = Settings(hostname_proof=ProofKind.HTTP)
    async with dns_server(Server({(HOST, "A"): [address]})) as servers:
        proofs = hostname_proofs(settings, VirtualClock(), cluster, servers=servers)
        assert proofs is not None
        while "has not ended" in (problem := (await proofs.unproved(ME, [HOST])).get(HOST, "")):
            await asyncio.sleep(0.01)
        return problem


async def test_no_proof_is_read_from_an_address_of_any_pool_of_the_cluster() -> None:
    """Of the pools that LESSOR_IP_POOLS names, and of those in which an operator's own services are."""
    cluster = FakeCluster()
    assert "from which no proof is read" in await proof_at(cluster, "127.0.0.1")
    pool = {"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "spec": {"addresses": ["8.8.4.0/24"]}}
    cluster.put({**pool, "metadata": {"name": "public", "namespace": "metallb-system"}})
    assert f"{HOST} resolves to 8.8.4.4, from which no proof is read" in await proof_at(cluster, "8.8.4.4")


def unreachable(operation: str, kind: str, name: str) -> None:
    raise ClusterError("https://127.0.0.1:1", "no answer")


async def test_no_proof_is_read_while_the_pools_cannot_be_read() -> None:
    cluster = FakeCluster()
    cluster.before = unreachable
    assert "the provider cannot read which addresses are its own" in await proof_at(cluster, "8.8.4.4")
