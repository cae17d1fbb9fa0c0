"""What strangers cost: a gateway under every hostile input of the corpus, and under floods of connections and requests.

    nice python -m benchmarks.hostile [--rounds 1] [--peers 8]

A process of its own serves REST and gRPC over a scripted chain and cluster; this process attacks it from several
loopback addresses. A heartbeat in the server's event loop measures the longest pause: the lateness of a timer of 5 ms,
less what its thread waited for a processor, and no more than the processor time that all threads of the server used
meanwhile: other work of the machine is no pause. Memory is the largest resident set during an attack, less the one
before all attacks and 100 KB for each of the connections admitted at one time until then: the allocator keeps
their memory. Queries are those of the chain and of the API server. The last line is one
JSON object: `longest_pause_ms`, `grown_mb`, `queries_caused`; exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import logging
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import grpc.aio
import structlog
from akash.deployment.v1beta4 import types_pb2 as deployment_pb
from akash.provider.v1 import service_pb2, service_pb2_grpc

from provider.daemon.heap import keep_heap_small
from provider.gateway.admission import ConnectionLimits
from provider.gateway.grpc.bid_screening import BidScreening, screened_hostnames
from provider.gateway.grpc.methods import provider_methods
from provider.gateway.grpc.server import GrpcServer
from provider.gateway.verdict import screen_of
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import Inventory, Node
from provider.market.public_sources import PublicSources
from provider.market.screening import Screening
from provider.protocols.clock import SystemClock
from provider.store import open_database
from tests.hostile.corpus import hostile_inputs
from tests.provider.gateway.accounts import Account
from tests.provider.gateway.manifests import DSEQ, TENANT
from tests.provider.gateway.world import PROVIDER, new_world
from tests.provider.market.world import make_spec, make_world
from tests.world.chain import FakeChain

__all__ = ["main"]

BARS = {"longest_pause_ms": 50.0, "grown_mb": 50.0}
_BEAT_S = 0.005
_PER_CONNECTION_MB = 0.1
_ATTACK_S = 2.0
_ROOM = Capacity(64_000, 2**38, 2**40, 110)
_NODES = tuple(Node(f"n{number:03}", _ROOM, (Card("nvidia", "a100", "80Gi", "sxm"),) * 8) for number in range(300))


# the server's side


@dataclass
class _Watch:
    """The longest pause of the loop and the largest resident set since `reset`."""

    pause_s: float = 0.0
    rss_mb: float = 0.0
    connections: int = 0
    calls: list[str] = field(default_factory=list)

    def reset(self) -> None:
        self.pause_s, self.rss_mb, self.connections = 0.0, _rss_mb(), 0
        self.calls.clear()

    async def beat(self, connections: Callable[[], int]) -> None:
        loop, count = asyncio.get_running_loop(), 0
        while True:
            due, waited, used = loop.time() + _BEAT_S, _waited_s(), time.process_time()
            await asyncio.sleep(_BEAT_S)
            late = loop.time() - due - (_waited_s() - waited)
            self.pause_s = max(self.pause_s, min(late, time.process_time() - used))
            self.connections = max(self.connections, connections())
            count += 1
            if count % 10 == 0:
                self.rss_mb = max(self.rss_mb, _rss_mb())


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _waited_s() -> float:
    """Seconds that this thread was ready to run and other processes had the processor."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


async def _serve(folder: Path) -> None:
    keep_heap_small()  # as the daemon does
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=Path(os.devnull).open("w")))  # noqa: ASYNC230, SIM115
    watch, clock = _Watch(), SystemClock()
    world = new_world(folder)
    world.clock.set(time.time())
    world.clock = clock  # type: ignore[assignment]
    world.chain.before = watch.calls.append
    world.chain.public_keys[TENANT.address] = TENANT.public
    world.is_tenant = lambda _: False
    world.cluster.before = lambda operation, kind, name: watch.calls.append(f"{operation} {kind}")
    public = FakeChain()
    public.before = watch.calls.append
    database = await open_database(f"sqlite+aiosqlite:///{folder}/market.db")
    market = make_world(database, inventory=Inventory(nodes=_NODES)).market
    market.book.record = await market.chain.provider(market.provider)
    screen = screen_of(Screening(market, public=PublicSources(market, public)))
    names = screened_hostnames(world.cluster, clock, namespace="lease", rules=world.config.hostnames)
    async with world.running():
        assert world.gateway is not None
        gateway = world.gateway
        methods = provider_methods(BidScreening(screen, hostnames=names))  # each connection counts as a peer
        server = GrpcServer(
            methods,
            host="127.0.0.1",
            port=0,
            served=gateway.served,
            clients=gateway.clients,
            limits=ConnectionLimits(connections=128, of_one_address=16),
        )
        await server.start()
        gc.freeze()  # as the daemon does
        beat = asyncio.create_task(watch.beat(lambda: gateway.admission.connections + server.admission.connections))
        print(
            json.dumps({"rest": gateway.address[1], "grpc": server.port, "pem": gateway.served.account.pem}), flush=True
        )
        await _obey(watch, world_calls=lambda: world.kube_calls)
        beat.cancel()
        await server.stop()
    await database.close()


async def _obey(watch: _Watch, *, world_calls: Callable[[], int]) -> None:
    """Answer each line on stdin: `reset`, or anything else for what was measured since."""
    before = 0
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.strip() == "reset":
            watch.reset()
            before = world_calls()
        figures = {
            "pause_ms": watch.pause_s * 1000,
            "rss_mb": watch.rss_mb,
            "connections": watch.connections,
            "queries": len(watch.calls) + world_calls() - before,
        }
        print(json.dumps(figures), flush=True)


# the attacker's side


@dataclass
class _Target:
    process: subprocess.Popen[str]
    rest: int
    grpc: int
    pem: str
    peers: tuple[str, ...]

    def context(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.pem)
        context.check_hostname = False
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context

    def say(self, line: str) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer


Attack = Callable[[_Target], Awaitable[None]]


@contextlib.contextmanager
def _started(peers: int) -> Iterator[_Target]:
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "benchmarks.hostile", "--serve", folder]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = json.loads(process.stdout.readline())
            addresses = tuple(f"127.0.0.{2 + number}" for number in range(peers))
            yield _Target(process, found["rest"], found["grpc"], found["pem"], addresses)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


async def _send(target: _Target, data: bytes, *, peer: str, port: int, context: ssl.SSLContext | None) -> None:
    """Send the bytes and read what comes back, until the server closes."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_ATTACK_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=(peer, 0))
            try:
                writer.write(data)
                while await reader.read(2**16):
                    pass
            finally:
                writer.transport.abort()


def _http(data: bytes, *, times: int = 4) -> Attack:
    """The same bytes from every peer, `times` connections each."""

    async def attack(target: _Target) -> None:
        context = target.context()
        peers = target.peers * times
        await asyncio.gather(*(_send(target, data, peer=peer, port=target.rest, context=context) for peer in peers))

    return attack


def _http2(data: bytes) -> Attack:
    async def attack(target: _Target) -> None:
        context, peers = target.context("h2"), target.peers * 4
        await asyncio.gather(*(_send(target, data, peer=peer, port=target.grpc, context=context) for peer in peers))

    return attack


def _token(value: bytes) -> Attack:
    head = b"GET /lease/1/1/1/status HTTP/1.1\r\nHost: x\r\nAuthorization: " + value + b"\r\n\r\n"
    return _http(head * 50)


def _manifest(data: bytes) -> Attack:
    """From an account of the chain that has no lease here."""
    now = int(time.time())
    token = TENANT.token(TENANT.claims(iat=now - 60, nbf=now - 60, exp=now + 3600))
    head = f"PUT /deployment/{DSEQ}/manifest HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n"
    return _http(f"{head}Authorization: Bearer {token}\r\n\r\n".encode() + data)


def _invented_issuers() -> Attack:
    now = int(time.time())
    accounts = [Account.named(f"issuer {number}") for number in range(500)]
    tokens = [account.token(account.claims(iat=now - 60, nbf=now - 60, exp=now + 3600)) for account in accounts]
    head = "GET /lease/1/1/1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer"
    return _http("".join(f"{head} {token}\r\n\r\n" for token in tokens).encode(), times=1)


def _group(data: bytes) -> Attack:
    return _screenings(service_pb2.BidScreeningRequest(group_spec=deployment_pb.GroupSpec.FromString(data)), count=16)


def _screenings(request: service_pb2.BidScreeningRequest, *, count: int) -> Attack:
    async def attack(target: _Target) -> None:
        options = [("grpc.ssl_target_name_override", "provider.example.com"), ("grpc.use_local_subchannel_pool", 1)]
        credentials = grpc.ssl_channel_credentials(target.pem.encode())
        async with contextlib.AsyncExitStack() as stack:
            address = f"127.0.0.1:{target.grpc}"
            channels = [grpc.aio.secure_channel(address, credentials, options=options) for _ in range(4)]
            for channel in channels:
                await stack.enter_async_context(channel)
            stubs = [service_pb2_grpc.ProviderRPCStub(channel) for channel in channels]
            calls = (stub.BidScreening(request, timeout=_ATTACK_S) for stub in stubs for _ in range(count))
            await asyncio.gather(*calls, return_exceptions=True)

    return attack


def _many_hosts() -> service_pb2.BidScreeningRequest:
    from provider.chain import codec  # noqa: PLC0415

    hosts = [f"h{number}.example.com" for number in range(100)]
    return service_pb2.BidScreeningRequest(group_spec=codec.group_to_pb(make_spec()), hostnames=hosts)


async def _idle(target: _Target) -> None:
    """As many connections as are taken, without a TLS greeting, then with one and nothing after it."""
    for context in (None, target.context()):
        for port in (target.rest, target.grpc):
            sends = (_send(target, b"", peer=peer, port=port, context=context) for peer in target.peers * 150)
            await asyncio.gather(*sends)


async def _never_reading(target: _Target) -> None:
    async def hold(peer: str) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_ATTACK_S):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", target.rest, ssl=target.context(), local_addr=(peer, 0)
                )
                reader._transport.pause_reading()  # type: ignore[attr-defined]
                try:
                    while True:
                        writer.write(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
                        await writer.drain()
                finally:
                    writer.transport.abort()

    await asyncio.gather(*(hold(peer) for peer in target.peers * 8))


_FORMS: dict[str, Callable[[bytes], Attack]] = {
    "http": _http,
    "http2": _http2,
    "token": _token,
    "manifest": _manifest,
    "group": _group,
}


def _attacks() -> dict[str, Attack]:
    inputs = (item for item in hostile_inputs() if item.form in _FORMS)
    return {f"{item.form}: {item.name}": _FORMS[item.form](item.data) for item in inputs} | {
        "500 invented issuers from each peer": _invented_issuers(),
        "screenings with a hundred hostnames": _screenings(_many_hosts(), count=50),
        "requests for /version": _http(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n" * 500),
        "idle connections": _idle,
        "clients that pipeline and never read": _never_reading,
    }


async def _run(target: _Target, attacks: dict[str, Attack], *, rounds: int) -> dict[str, float]:
    worst = {"longest_pause_ms": 0.0, "grown_mb": 0.0, "queries_caused": 0.0}
    await _http(b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", times=1)(target)  # what is loaded once is no growth
    await _screenings(_many_hosts(), count=1)(target)
    base, admitted = target.say("reset")["rss_mb"], 0.0
    for _ in range(rounds):
        for name, attack in attacks.items():
            target.say("reset")
            await attack(target)
            found = target.say("figures")
            admitted = max(admitted, found["connections"])
            grown = found["rss_mb"] - base - _PER_CONNECTION_MB * admitted
            print(
                f"{name[:60]:60} pause {found['pause_ms']:7.1f} ms   grown {grown:7.1f} MB   "
                f"queries {found['queries']:5.0f}   connections {found['connections']:5.0f}",
                flush=True,
            )
            worst["longest_pause_ms"] = max(worst["longest_pause_ms"], round(found["pause_ms"], 1))
            worst["grown_mb"] = max(worst["grown_mb"], round(grown, 1))
            worst["queries_caused"] += found["queries"]
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--peers", type=int, default=8, help="loopback addresses that attack at the same time")
    parser.add_argument("--only", default="", help="attacks whose name contains this text")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(_serve(arguments.serve))
        return 0
    logging.disable(logging.CRITICAL)  # of the attacker's own broken connections
    attacks = {name: attack for name, attack in _attacks().items() if arguments.only in name}
    with _started(arguments.peers) as target:
        worst = asyncio.run(_run(target, attacks, rounds=arguments.rounds))
    missed = [name for name, bar in BARS.items() if worst[name] >= bar]
    print(json.dumps({**worst, "attacks": len(attacks), "provider": PROVIDER}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
