"""What a tenant publishes as proof of a hostname: TXT records, and a file of the web server to which it leads.

A tenant chooses what its hostname resolves to. So the file is fetched from public addresses outside the provider only,
over a connection to the very address that was checked: a second DNS answer cannot lead elsewhere. No redirect is
followed, and size and time are limited.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.resolver

from provider.claims.addresses import pool_addresses
from provider.claims.ownership import PROOF_FILE, OwnershipProofs, ReadLines, record_name
from provider.claims.pools import list_pools
from provider.errors import ClusterError, SettingsError
from provider.protocols import Clock, Cluster
from provider.settings import Settings
from provider.settings.kinds import ProofKind

__all__ = ["Refuses", "Servers", "closed_address", "file_lines", "hostname_proofs", "txt_lines"]

_LOOKUP_S = 4.0
_MOST_ADDRESSES = 4
_DNS_BYTES = 1232
_SERVER_S = 1.0
_ANSWERED = (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)
_TEXT_BYTES = 512
_ANSWER_BYTES = 16 * 1024
_OK = "200"

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Refuses: TypeAlias = Callable[[_Address], bool]
"""Whether no connection may go to an address."""
Servers: TypeAlias = Sequence[tuple[str, int]]
"""Address and port of each DNS server."""

_TRANSLATED = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "::/96", "::ffff:0:0/96"))
)
"""IPv6 networks whose addresses stand for IPv4 addresses, private ones too."""


def closed_address(address: _Address, own: Iterable[str] = ()) -> bool:
    """Whether the address is private, link-local, shared (carrier-grade NAT), of another special use, or in one of
    `own` (addresses, networks and `first-last` ranges).
    """
    if not address.is_global or address.is_multicast or address.is_reserved:
        return True
    if isinstance(address, ipaddress.IPv6Address) and (
        address.is_site_local or any(address in network for network in _TRANSLATED)
    ):
        return True
    return any(_inside(address, text) for text in own)


def _inside(address: _Address, text: str) -> bool:
    first, _, last = text.partition("-")
    if not last:
        network = ipaddress.ip_network(first, strict=False)
        return address.version == network.version and address in network
    low, high = ipaddress.ip_address(first), ipaddress.ip_address(last)
    return low.version == address.version and int(low) <= int(address) <= int(high)


def hostname_proofs(
    settings: Settings,
    clock: Clock,
    cluster: Cluster,
    *,
    nodes: Callable[[], Iterable[str]] = tuple,
    servers: Servers = (),
) -> OwnershipProofs | None:
    """The proofs that the settings ask for, None when they ask for none. `nodes`: public addresses of the cluster's
    machines. `servers`: those of the system unless given. Raises `SettingsError` when the system names no DNS server.

    The addresses of all pools of MetalLB are the cluster's own too: an operator's service may have one. They are read
    from `cluster` for each proof.
    """
    kind = settings.hostname_proof
    if kind is ProofKind.OFF:
        return None
    try:
        servers = servers or [(str(address), 53) for address in dns.resolver.Resolver().nameservers]
    except dns.resolver.NoResolverConfiguration as error:
        raise SettingsError(f"LESSOR_HOSTNAME_PROOF={kind}: the system names no DNS server: {error}") from error
    leased = [f"{one.first}-{one.last}" for one in settings.ip_ranges]
    own = (*settings.edge_addresses, *settings.closed_ranges, *leased)

    async def refuses() -> Refuses:
        try:
            pools = pool_addresses(await list_pools(cluster, namespace=settings.metallb_namespace))
        except ClusterError as error:
            raise OSError("the provider cannot read which addresses are its own at the moment") from error
        closed = (*own, *nodes())
        return lambda address: closed_address(address, closed) or any(address in pool for pool in pools)

    return OwnershipProofs(kind, txt_lines(servers), file_lines(servers, refuses=refuses), clock)


def txt_lines(servers: Servers) -> ReadLines:
    """Reads the TXT records that prove a hostname, up to 512 bytes of each."""

    async def read(hostname: str) -> Sequence[str]:
        records = await _answers(servers, record_name(hostname), dns.rdatatype.TXT)
        texts = (b"".join(getattr(record, "strings", ()))[:_TEXT_BYTES] for record in records)
        return [text.decode("utf-8", "replace") for text in texts]

    return read


async def _answers(servers: Servers, name: str, kind: dns.rdatatype.RdataType) -> list[Any]:
    """The records of one kind, of an answer of at most 1232 bytes. Raises OSError without any.

    A longer answer is not fetched by TCP: a tenant chooses what its records are, and 64 KiB of records take seconds to
    read.
    """
    shown = f"{name} ({dns.rdatatype.to_text(kind)})"
    try:
        query = dns.message.make_query(name, kind, use_edns=0, payload=_DNS_BYTES)
        response = await _first_answer(servers, query)
        found = response.resolve_chaining().answer if response.rcode() is dns.rcode.NOERROR else None
    except (dns.exception.DNSException, ValueError) as error:
        raise OSError(f"DNS cannot answer {shown}: {type(error).__name__}") from None
    if response.flags & dns.flags.TC:
        raise OSError(f"the answer of DNS for {shown} is longer than {_DNS_BYTES} bytes")
    if not found:
        raise OSError(f"DNS has no {shown}")
    return list(found)


async def _first_answer(servers: Servers, query: dns.message.QueryMessage) -> dns.message.QueryMessage:
    """The answer of the first server that has one, each server asked twice. Raises OSError."""
    code = dns.rcode.SERVFAIL
    for address, port in (*servers, *servers):
        try:
            response = await dns.asyncquery.udp(
                query, address, timeout=_SERVER_S, port=port, ignore_unexpected=True, ignore_errors=True
            )
        except (dns.exception.Timeout, OSError):
            continue
        if response.rcode() in _ANSWERED and isinstance(response, dns.message.QueryMessage):
            return response
        code = response.rcode()
    raise OSError(f"no answer of DNS: {dns.rcode.to_text(code)}")


def file_lines(servers: Servers, *, refuses: Callable[[], Awaitable[Refuses]], port: int = 80) -> ReadLines:
    """Reads the lines of the file that proves a hostname, by HTTP from the first address that answers. `refuses` says
    for each proof anew to which addresses no connection may go.
    """

    async def read(hostname: str) -> Sequence[str]:
        found = await _addresses(servers, hostname)
        closes = await refuses()
        if closed := [address for address in found if closes(address)]:
            raise OSError(f"{hostname} resolves to {closed[0]}, from which no proof is read")
        problem = ""
        for address in found[:_MOST_ADDRESSES]:
            try:
                async with asyncio.timeout(_LOOKUP_S):
                    return await _fetch(str(address), port, hostname)
            except (OSError, ValueError) as error:
                problem = f"{PROOF_FILE} cannot be read: {error or type(error).__name__}"
        raise OSError(problem)

    return read


async def _addresses(servers: Servers, hostname: str) -> list[_Address]:
    """Every address of the hostname, IPv4 first. Raises OSError without any."""
    kinds = (dns.rdatatype.A, dns.rdatatype.AAAA)
    found = await asyncio.gather(*(_answers(servers, hostname, kind) for kind in kinds), return_exceptions=True)
    addresses = [ipaddress.ip_address(str(record)) for one in found if isinstance(one, list) for record in one]
    if not addresses:
        raise OSError(f"{hostname} does not resolve")
    return addresses


async def _fetch(address: str, port: int, hostname: str) -> list[str]:
    """The lines of the file. Raises OSError or ValueError for another answer than one of status 200."""
    reader, writer = await asyncio.open_connection(address, port, limit=_ANSWER_BYTES)
    try:
        writer.write(f"GET {PROOF_FILE} HTTP/1.0\r\nHost: {hostname}\r\nUser-Agent: lessor\r\n\r\n".encode())
        await writer.drain()
        return _lines(await _first_bytes(reader))
    finally:
        writer.close()


async def _first_bytes(reader: asyncio.StreamReader) -> bytes:
    """What the peer sends until it closes, 16 KiB at most."""
    data = b""
    while len(data) < _ANSWER_BYTES and (more := await reader.read(_ANSWER_BYTES - len(data))):
        data += more
    return data


def _lines(answer: bytes) -> list[str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    version, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1."):
        raise ValueError("the answer is not HTTP")
    if status != _OK:
        raise ValueError(f"the answer has status {status if status.isdigit() else 'unknown'}")
    return body.decode("utf-8", "replace").splitlines()
