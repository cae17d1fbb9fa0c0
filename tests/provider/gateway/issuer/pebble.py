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
from cryptography.hazmat.primitives.serialization import Encoding

from devnet.tools import ensure_tools
from provider.gateway.issuer.config import IssuerConfig
from tests.provider.gateway.certificates import by_a_ca
from tests.world.patience import eventually
from tests.world.processes import start_process
from tests.world.servers import free_port

__all__ = ["BLOCKED", "EXTERNAL", "NAME", "Pebble", "occupied", "running_pebble"]

NAME = "provider.example.com"
BLOCKED = "blocked.example.com"
"""A name that this CA issues nothing for."""
EXTERNAL = ("kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W")


@dataclass
class Pebble:
    """`challenges`: the port of its challenges. `missing`: names that its resolver does not know."""

    folder: Path
    port: int
    management: int
    challenges: int
    missing: set[str] = field(default_factory=set)

    @property
    def directory(self) -> str:
        return f"https://localhost:{self.port}/dir"

    def config(self, folder: Path, **changes: Any) -> IssuerConfig:
        own = {
            "directory": self.directory,
            "names": (NAME,),
            "listen": f"127.0.0.1:{self.challenges}",
            "folder": folder,
            "account_key": folder / "account.pem",
            "roots": self.folder / "roots.pem",
        }
        return IssuerConfig(**{**own, **changes})

    async def root(self) -> bytes:
        """The certificate at the top of what it issues."""
        context = ssl.create_default_context(cafile=self.folder / "roots.pem")
        url = f"https://localhost:{self.management}/roots/0"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as answer:
            return await answer.read()

    async def listens(self) -> bool:
        try:
            return bool(await self.root())
        except aiohttp.ClientConnectionError:
            return False


@asynccontextmanager
async def running_pebble(
    folder: Path, *, nonces_refused: int = 0, external: bool = False, validity_s: int = 90 * 86400
) -> AsyncIterator[Pebble]:
    """`nonces_refused`: percent. `external`: an external account is demanded."""
    folder.mkdir()
    program = (await asyncio.to_thread(ensure_tools, ("pebble",))).program("pebble")
    found = Pebble(folder, port=free_port(), management=free_port(), challenges=free_port())
    own = by_a_ca("localhost")
    own.write(folder / "own.pem")
    (folder / "own.key").write_bytes(own.key_pem)
    (folder / "roots.pem").write_bytes(own.above[0].public_bytes(Encoding.PEM))
    settings: dict[str, Any] = {
        "listenAddress": f"127.0.0.1:{found.port}",
        "managementListenAddress": f"127.0.0.1:{found.management}",
        "certificate": str(folder / "own.pem"),
        "privateKey": str(folder / "own.key"),
        "httpPort": found.challenges,
        "tlsPort": free_port(),
        "domainBlocklist": [BLOCKED],
        "retryAfter": {"authz": 1, "order": 1},
        "keyAlgorithm": "ecdsa",
        "profiles": {"default": {"description": "", "validityPeriod": validity_s}},
    }
    if external:
        settings |= {"externalAccountBindingRequired": True, "externalAccountMACKeys": dict([EXTERNAL])}
    (folder / "config.json").write_text(json.dumps({"pebble": settings}))
    own_variables = {"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": str(nonces_refused)}
    with _resolver(found.missing) as resolver, (folder / "log").open("wb") as log:
        argv = [str(program), "-config", str(folder / "config.json"), "-dnsserver", f"127.0.0.1:{resolver}"]
        process = start_process(argv, env={**os.environ, **own_variables}, stdout=log, stderr=log)
        await eventually(found.listens)
        yield found
        process.kill()


class _Resolver(socketserver.StreamRequestHandler):
    """One connection of a resolver whose every name is this machine, by TCP as pebble asks."""

    missing: ClassVar[set[str]]

    def handle(self) -> None:
        while length := self.rfile.read(2):
            asked = dns.message.from_wire(self.rfile.read(int.from_bytes(length)))
            reply = _answer(asked, self.missing).to_wire()
            self.wfile.write(len(reply).to_bytes(2) + reply)


@contextmanager
def _resolver(missing: set[str]) -> Iterator[int]:
    """The port of a resolver that does not know the names in `missing`."""
    with socketserver.ThreadingTCPServer(
        ("127.0.0.1", 0), type("Resolver", (_Resolver,), {"missing": missing})
    ) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def _answer(question: dns.message.Message, missing: set[str]) -> dns.message.Message:
    answer = dns.message.make_response(question)
    answer.flags |= dns.flags.RA
    asked = question.question[0]
    if asked.name.to_text(omit_final_dot=True) in missing:
        answer.set_rcode(dns.rcode.NXDOMAIN)
    elif asked.rdtype == dns.rdatatype.A:
        answer.answer.append(dns.rrset.from_text(asked.name, 60, "IN", "A", "127.0.0.1"))
    return answer


@contextmanager
def occupied(port: int) -> Iterator[None]:
    """Another program has the port of the challenges."""
    with socket.create_server(("127.0.0.1", port)):
        yield
