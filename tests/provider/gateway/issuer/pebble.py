"""A CA of tests: pebble, the ACME server of Let's Encrypt for tests, with a resolver that knows every name."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import socketserver
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from devnet.tools import ensure_tools
from provider.gateway.issuer.config import IssuerConfig
from tests.provider.gateway.certificates import by_a_ca
from tests.world.patience import PATIENCE_S, eventually
from tests.world.processes import start_process
from tests.world.servers import free_port

__all__ = [
    "BLOCKED",
    "EXTERNAL",
    "LOOPBACK",
    "NAME",
    "Pebble",
    "Place",
    "occupied",
    "running_pebble",
    "served",
    "verified",
]

NAME = "provider.example.com"
BLOCKED = "blocked.example.com"
"""A name that this CA issues nothing for."""
EXTERNAL = ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W")


@dataclass(frozen=True)
class Place:
    """Where a CA runs. `host`: by which it is called, at `address`. `names`: the address that every name has for it,
    which a resolver at `resolver` tells. `http_port`: of its challenges, 0 for a free one. `prefix`: of the command.
    """

    host: str = "localhost"
    address: str = "127.0.0.1"
    names: str = "127.0.0.1"
    resolver: str = "127.0.0.1"
    http_port: int = 0
    prefix: tuple[str, ...] = ()


LOOPBACK = Place()


@dataclass
class Pebble:
    """`challenges`: the port of its challenges. `missing`: names that its resolver does not know."""

    folder: Path
    place: Place
    port: int
    management: int
    challenges: int
    missing: set[str] = field(default_factory=set)

    @property
    def directory(self) -> str:
        return f"https://{self.place.host}:{self.port}/dir"

    @property
    def roots(self) -> Path:
        """The file of the roots that its own certificate is checked against."""
        return self.folder / "roots.pem"

    def config(self, folder: Path, **changes: Any) -> IssuerConfig:
        own = {
            "directory": self.directory,
            "names": (NAME,),
            "listen": f"127.0.0.1:{self.challenges}",
            "folder": folder,
            "account_key": folder / "account.pem",
            "roots": self.roots,
        }
        return IssuerConfig(**{**own, **changes})

    async def root(self) -> bytes:
        """The certificate at the top of what it issues."""
        context = ssl.create_default_context(cafile=self.roots)
        url = f"https://{self.place.host}:{self.management}/roots/0"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
            return await answer.read()

    async def listens(self) -> bool:
        try:
            return bool(await self.root())
        except aiohttp.ClientConnectionError:
            return False


@asynccontextmanager
async def running_pebble(
    folder: Path,
    *,
    place: Place = LOOPBACK,
    nonces_refused: int = 0,
    external: bool = False,
    validity_s: int = 90 * 86400,
) -> AsyncIterator[Pebble]:
    """`nonces_refused`: percent. `external`: an external account is demanded."""
    folder.mkdir()
    program = (await asyncio.to_thread(ensure_tools, ("pebble",))).program("pebble")
    challenges = place.http_port or free_port()
    found = Pebble(folder, place, port=free_port(), management=free_port(), challenges=challenges)
    settings = {**_listening(found), "profiles": {"default": {"description": "", "validityPeriod": validity_s}}}
    if external:
        settings |= {"externalAccountBindingRequired": True, "externalAccountMACKeys": dict([EXTERNAL])}
    (folder / "config.json").write_text(json.dumps({"pebble": settings}))
    own_variables = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": str(nonces_refused)}
    with _resolver(place, found.missing) as resolver, (folder / "log").open("wb") as log:
        own = ("-config", str(folder / "config.json"), "-dnsserver", f"{place.resolver}:{resolver}")
        argv = [*place.prefix, str(program), *own]
        process = start_process(argv, env={**os.environ, **own_variables}, stdout=log, stderr=log)
        await eventually(found.listens)
        yield found
        process.kill()


def _listening(ca: Pebble) -> dict[str, Any]:
    """The part of its configuration that says where it listens, with a certificate of its own for that."""
    own, folder, address = by_a_ca(ca.place.host), ca.folder, ca.place.address
    own.write(folder / "own.pem")
    (folder / "own.key").write_bytes(own.key_pem)
    ca.roots.write_bytes(own.above[0].public_bytes(Encoding.PEM))
    return {
        "listenAddress": f"{address}:{ca.port}",
        "managementListenAddress": f"{address}:{ca.management}",
        "certificate": str(folder / "own.pem"),
        "privateKey": str(folder / "own.key"),
        "httpPort": ca.challenges,
        "tlsPort": free_port(),
        "domainBlocklist": [BLOCKED],
        "retryAfter": {"authz": 1, "order": 1},
        "keyAlgorithm": "ecdsa",
    }


async def served(port: int, name: str) -> x509.Certificate:
    """What a client that asks for `name` gets at a gateway on loopback; the client checks nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(found)


async def verified(port: int, root: bytes) -> None:
    """A client that trusts the CA alone connects by the name. Raises `ssl.SSLError`."""
    context = ssl.create_default_context(cadata=root.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAME)
    writer.close()


class _Resolver(socketserver.StreamRequestHandler):
    """One connection of a resolver to which every name has the same address, by TCP as pebble asks."""

    missing: ClassVar[set[str]]
    address: ClassVar[str]

    def handle(self) -> None:
        while length := self.rfile.read(2):
            asked = dns.message.from_wire(self.rfile.read(int.from_bytes(length)))
            reply = _answer(asked, self.missing, self.address).to_wire()
            self.wfile.write(len(reply).to_bytes(2) + reply)


@contextmanager
def _resolver(place: Place, missing: set[str]) -> Iterator[int]:
    """The port of a resolver that does not know the names in `missing`."""
    handler = type("Resolver", (_Resolver,), {"missing": missing, "address": place.names})
    with socketserver.ThreadingTCPServer((place.resolver, 0), handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def _answer(question: dns.message.Message, missing: set[str], address: str) -> dns.message.Message:
    answer = dns.message.make_response(question)
    answer.flags |= dns.flags.RA
    asked = question.question[0]
    if asked.name.to_text(omit_final_dot=True) in missing:
        answer.set_rcode(dns.rcode.NXDOMAIN)
    elif asked.rdtype == dns.rdatatype.A:
        answer.answer.append(dns.rrset.from_text(asked.name, 60, "IN", "A", address))
    return answer


@contextmanager
def occupied(port: int) -> Iterator[None]:
    """Another program has the port of the challenges."""
    with socket.create_server(("127.0.0.1", port)):
        yield
