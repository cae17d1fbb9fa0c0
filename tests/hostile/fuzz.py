"""Bytes that are nearly right, from a seed: what strangers may send to the gateway, mutated.

    nice python -m tests.hostile.fuzz [--inputs 1000000] [--seed 1]

Each form has some valid inputs and the hostile ones of the corpus; an input is one of them after a few mutations. A
target takes an input and raises `Broken` for what must never happen: an exception of its own, a 500 that names
something internal, a secret in a log line. The same seed gives the same inputs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL
from structlog.testing import LogCapture
from wsproto.frame_protocol import FrameProtocol, Opcode

from lease.errors import ManifestRefused
from lease.manifest_decode import manifest_from_json
from lease.validation import validate_manifest
from provider.gateway.auth.certificates import CertificateRefusedError, ClientCertificates
from provider.gateway.auth.keys import AccountKeys
from provider.gateway.auth.tokens import Tokens, read_credentials
from provider.gateway.config import Limits
from provider.gateway.errors import AuthError
from provider.gateway.rest.connection import HttpServer
from provider.gateway.rest.dispatch import Dispatcher
from provider.gateway.rest.websocket import WebSocket
from provider.gateway.tls_session import TlsContext, openssl_context
from tests.hostile.corpus import hostile_inputs
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.certificates import certified, publish
from tests.provider.gateway.manifests import DSEQ, TENANT, body, service
from tests.provider.gateway.world import new_world
from tests.world.chain import FakeChain
from tests.world.virtual import VirtualClock

__all__ = ["FORMS", "Broken", "fuzz"]

_LONGEST = 16 * 1024
"""Longer inputs of the corpus are left out: they test limits, and take the time of thousands."""
_INTERNAL = (str(Path(__file__).resolve().parents[2]).encode(), b".py", b"Traceback", b"site-packages", b"aiohttp")
_PASSES = 40
"""Passes of the loop that a connection gets for its answer."""


class Broken(AssertionError):
    """Something that no input may cause."""


# inputs


def _seeds(form: str) -> list[bytes]:
    found = [item.data for item in hostile_inputs(form)] if form in ("http", "token", "manifest") else []
    return [data for data in found if len(data) <= _LONGEST] + _VALID[form]()


def _mutated(data: bytes, random: Random, others: list[bytes]) -> bytes:
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        at = random.randrange(len(made) + 1)
        match random.randrange(7):
            case 0 if made:
                made[at % len(made)] ^= 1 << random.randrange(8)
            case 1 if made:
                made[at % len(made)] = random.choice((0, 10, 13, 32, 34, 46, 47, 123, 125, 127, 128, 255))
            case 2:
                made[at:at] = random.randbytes(random.randrange(1, 9))
            case 3:
                del made[at : at + random.randrange(1, 33)]
            case 4:
                made[at:at] = made[at : at + random.randrange(1, 65)] * random.randrange(1, 5)
            case 5:
                other = random.choice(others)
                begin = random.randrange(len(other) + 1)
                made[at:] = other[begin:]
            case _:
                del made[at:]
    return bytes(made[:_LONGEST])


def _hello(name: bytes) -> bytes:
    """A client's first message."""
    client = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), None)
    client.set_tlsext_host_name(name)
    client.set_connect_state()
    with suppress(SSL.WantReadError):
        client.do_handshake()
    return client.bio_read(65536)


def _frame(opcode: Opcode, payload: bytes) -> bytes:
    return bytes(FrameProtocol(client=True, extensions=[])._serialize_frame(opcode, payload))


def _requests() -> list[bytes]:
    token = TENANT.token().encode()
    lines = [b"GET /status", b"GET /version", b"GET /address", b"GET /lease/42/1/1/status", b"GET //a/../status"]
    lines += [b"GET /lease/42/1/1/logs?follow=1&tail=3&service=web", b"OPTIONS *", b"DELETE /status"]
    tail = b" HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + b"\r\n"
    put = b"PUT /deployment/42/manifest" + tail + b"Content-Length: %d\r\n\r\n" % len(body()) + body()
    chunked = b"POST /hostname/migrate" + tail + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    return [line + tail + b"\r\n" for line in lines] + [put, chunked, b"GET /address HTTP/1.0\r\n\r\n"]


def _tokens() -> list[bytes]:
    granted = {"dseq": DSEQ, "scope": ["logs"], "services": ["web"]}
    permission = {"provider": TENANT.address, "access": "granular", "deployments": [granted]}
    all_leases: list[Any] = [
        {"access": "full"},
        {"access": "scoped", "scope": ["logs"]},
        {"access": "granular", "permissions": [permission]},
    ]
    claims = [TENANT.claims(leases=leases) for leases in all_leases]
    made = [TENANT.token(each, alg=alg) for each in claims for alg in ("ES256K", "ES256KADR36")]
    return [f"Bearer {token}".encode() for token in made]


_OWN = certified(TENANT.address)
_VALID: dict[str, Callable[[], list[bytes]]] = {
    "tls": lambda: [_hello(name) for name in (b"provider.example.com", b"mtls.provider.example.com", b"x")],
    "http": _requests,
    "token": _tokens,
    "manifest": lambda: [body(), body("a", "b"), body(params={"storage": [{"name": "x", "mount": "/y"}]}),
                         json.dumps([{"name": "dc", "services": [service(), service("db", count=3)]}]).encode()],
    "websocket": lambda: [_frame(Opcode.TEXT, b"{}"), _frame(Opcode.BINARY, b"\x69\x00\x50\x00\x18"),
                          _frame(Opcode.PING, b"") + _frame(Opcode.PONG, b"x"), _frame(Opcode.CLOSE, b"\x03\xe8bye")],
    "certificate": lambda: [_OWN.certificate.public_bytes(Encoding.DER)],
}  # fmt: skip


# targets


@dataclass
class _Wire(asyncio.Transport):
    """A transport in memory."""

    written: bytearray = field(default_factory=bytearray)
    closing: bool = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 1) if name == "peername" else default

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...


@dataclass
class _Upgraded:
    """The part of a connection that a WebSocket uses."""

    transport: _Wire
    writing_paused: bool = False

    def hold_reading(self, on: bool) -> None: ...


def _discard(data: bytes, first: bool, finished: bool) -> None: ...


class _Targets:
    """One of everything that takes bytes."""

    def __init__(self, folder: Path) -> None:
        self._clock, self._chain = VirtualClock(NOW), FakeChain()
        self._chain.public_keys[TENANT.address] = TENANT.public
        publish(self._chain, TENANT.address, _OWN)
        self._tokens = Tokens(AccountKeys(self._chain, self._clock), self._clock)
        self._clients = ClientCertificates(self._chain, self._clock)
        self._context = openssl_context([_OWN.certificate], _OWN.key, asks=True, protocols=(b"h2",))
        world = new_world(folder)
        world.clock.set(NOW)
        world.chain.public_keys[TENANT.address] = TENANT.public
        self._world = world
        self._server: HttpServer | None = None
        self.logs = LogCapture()

    async def tls(self, data: bytes) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = TlsContext(lambda: self._context).wrap_bio(incoming, outgoing)
        incoming.write(data)
        with suppress(ssl.SSLError):
            session.do_handshake()
            raise Broken("a handshake without a key exchange")

    async def token(self, data: bytes) -> None:
        with suppress(AuthError):
            await read_credentials(data.decode("latin-1"), self._tokens, peer="192.0.2.1")

    async def manifest(self, data: bytes) -> None:
        with suppress(ManifestRefused):
            validate_manifest(manifest_from_json(data))

    async def certificate(self, data: bytes) -> None:
        with suppress(CertificateRefusedError, AuthError, ValueError, x509.InvalidVersion):
            shown = x509.load_der_x509_certificate(data)
            await self._clients.account([shown])
            if data[: len(shown.public_bytes(Encoding.DER))] != _OWN.certificate.public_bytes(Encoding.DER):
                raise Broken("another certificate was taken for the published one")

    async def http(self, data: bytes) -> None:
        wire = _Wire()
        connection = self._http_server()()
        connection.connection_made(wire)
        connection.data_received(data)
        for _ in range(_PASSES):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        answer = bytes(wire.written)
        if any(word in answer for word in _INTERNAL if word not in data):
            raise Broken(f"an answer names something internal: {answer[:300]!r}")
        token = TENANT.token()
        secret = token.rpartition(".")[2]
        in_its_place = data.count(f"Authorization: Bearer {token}".encode()) == data.count(secret.encode())
        if in_its_place and secret in str(self.logs.entries):  # a path is logged, whatever is in it
            raise Broken("a log line has a token")
        if failed := [entry for entry in self.logs.entries if entry["event"] == "gateway.request_failed"]:
            raise Broken(str(failed))
        self.logs.entries.clear()

    async def websocket(self, data: bytes) -> None:
        """Frames of a client that has a shell."""
        wire = _Wire()
        socket = WebSocket(_Upgraded(wire), lambda _: _discard, ping_seconds=60.0)  # type: ignore[arg-type]
        socket.feed_data(data)
        socket.feed_data(data)
        socket.end()
        if len(wire.written) > 8 * len(data) + 64:
            raise Broken(f"{len(data)} bytes were answered with {len(wire.written)}")

    def _http_server(self) -> HttpServer:
        if self._server is None:
            gateway = self._world.gateway
            dispatcher = Dispatcher(gateway._routes, gateway.tokens, provider=self._world.config.provider)
            self._server = HttpServer(dispatcher, Limits())
        return self._server


def _target(targets: _Targets, form: str) -> Callable[[bytes], Awaitable[None]]:
    found: Callable[[bytes], Awaitable[None]] = getattr(targets, form)
    return found


FORMS = ("tls", "http", "websocket", "token", "manifest", "certificate")


async def fuzz(*, inputs: int, seed: int) -> dict[str, int]:
    """Run the inputs, each form its share. Raises `Broken`, with the input, for the first that breaks something."""
    done = dict.fromkeys(FORMS, 0)
    with TemporaryDirectory() as folder:
        targets = _Targets(Path(folder))
        before = structlog.get_config()["processors"]
        structlog.configure(processors=[targets.logs])
        try:
            async with targets._world.running():
                for form in FORMS:
                    random, seeds = Random(f"{seed} {form}"), _seeds(form)
                    for _ in range(inputs // len(FORMS)):
                        await _one(_target(targets, form), form, _mutated(random.choice(seeds), random, seeds))
                        done[form] += 1
        finally:
            structlog.configure(processors=before)
    return done


async def _one(target: Callable[[bytes], Awaitable[None]], form: str, data: bytes) -> None:
    try:
        await target(data)
    except Exception as error:
        raise Broken(f"{form}: {type(error).__name__}: {error}; input {data!r}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.process_time()
    done = asyncio.run(fuzz(inputs=arguments.inputs, seed=arguments.seed))
    print(json.dumps(done | {"cpu_s": round(time.process_time() - began)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
