"""What many connections at once cost the gateway, and whether bids and manifests wait for them.

    nice python -m benchmarks.gateway_load [--idle 2000] [--logs 200] [--shells 50]

One process serves: the REST gateway with the default limits, and a market, over a scripted chain, API server and
kubelet; this process is all its clients. `growth_mb_2250_connections` is the growth of the server's resident memory by
that many connections at once, from 127 addresses: idle ones after a request each, log streams, and shells.
`bid_ms_under_load` is the time from 20 orders of a block to 20 bids meanwhile, and `bid_ms_quiet` without them.
`manifest_ms_median` is the time from a manifest to its acceptance. `bid_ms_streaming` is the time of the bids while
eight clients connect, ask and leave as fast as they can. With `--apart` the gateway is a process of its own beside the
market's, as with LESSOR_GATEWAY_PROCESS=child. The last line is one JSON object; exit code 1 if a bar is missed.
`benchmarks.gateway` prints these figures of both forms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from lease.ids import OrderId, namespace_name
from provider.bus import CHAIN_BLOCK
from provider.gateway.link.calls import LinkedIntake, gateway_calls
from provider.gateway.link.client import ProviderLink
from provider.gateway.link.server import LinkServer
from provider.gateway.link.wire import Facts
from provider.gateway.refusals import Refusals
from provider.inventory.capacity import Capacity
from provider.inventory.snapshot import Inventory, Node
from provider.market.loop import run_market
from provider.protocols.chain import Order, OrderState
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import DEPLOYMENT, NAMESPACE
from provider.store import open_database
from tests.provider.gateway.accounts import Account
from tests.provider.gateway.manifests import DSEQ, TENANT, body, deployment, lease
from tests.provider.gateway.sockets import upgrade_headers
from tests.provider.gateway.world import World, new_world, place, rented
from tests.provider.market.world import World as MarketWorld
from tests.provider.market.world import make_spec, make_world
from tests.world.pods import FakeExecution, pod_object

__all__ = ["load_figures"]

BARS: dict[str, Callable[[dict[str, float]], bool]] = {
    "growth_mb_2250_connections": lambda found: found["growth_mb_2250_connections"] <= 250,
    "manifest_ms_median": lambda found: found["manifest_ms_median"] <= 50,
    "bid_ms_under_load": lambda found: found["bid_ms_under_load"] <= 1.5 * found["bid_ms_quiet"],
}
_ORDERS = 20
_COMERS = 8
_LEASE = f"/lease/{DSEQ}/1/1"
_TENANTS = (TENANT, Account.named("second"), Account.named("third"))
"""A tenant has at most a hundred streams."""


# the server's side


def _filled(world: World) -> None:
    """A lease of each tenant that runs, with a pod that is silent."""
    for tenant in _TENANTS:
        world.chain.public_keys[tenant.address] = tenant.public
        leased = lease(owner=tenant.address)
        rented(world.chain, deployment(body(), owner=tenant.address), leased)
        space = namespace_name(leased)
        place(world.cluster, NAMESPACE, space)
        status = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
        place(world.cluster, DEPLOYMENT, "web", namespace=space, spec={}, status=status)
        pod = pod_object(space, "web", "web")
        world.cluster.put(pod)
        world.cluster.put(pod, status=True)
    world.pods.log_of("web").write(b"one line")
    world.pods.play = _silent


async def _silent(_: Any, execution: FakeExecution) -> None:
    await asyncio.Event().wait()


def _world(folder: Path) -> World:
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(file=Path(os.devnull).open("w")))  # noqa: SIM115
    world = new_world(folder)
    world.clock = SystemClock()  # type: ignore[assignment]
    _filled(world)
    return world


async def _serve(folder: Path) -> None:
    """The market and the gateway in one process."""
    world = _world(folder)
    async with _market(folder) as market, world.running():
        await _answer_lines(world, market)


async def _serve_gateway(folder: Path) -> None:
    """The gateway of a market in another process."""
    world = _world(folder)
    link = ProviderLink(folder / "gateway.sock", SystemClock())
    world.linked_intake = LinkedIntake(link)
    linked = asyncio.create_task(link.run())
    async with world.running():
        await _answer_lines(world, None)
    linked.cancel()


async def _serve_market(folder: Path) -> None:
    """The market, and the provider's end of the socket."""
    world = _world(folder)
    world.intake = world.make_intake(Refusals())
    facts = Facts(provider=world.config.provider, chain_id="local", certificate="", key="")
    calls = gateway_calls(
        intake=world.intake, migrations=_nothing(), status=_nothing(), screen=_nothing(), metrics=_nothing()
    )
    link = LinkServer(calls, lambda: facts)
    await link.start(folder / "gateway.sock")
    async with _market(folder) as market:
        await _answer_lines(None, market)
    await link.stop()


def _nothing() -> Any:
    """A port that is not used."""
    return None


@asynccontextmanager
async def _market(folder: Path) -> AsyncIterator[MarketWorld]:
    database = await open_database(f"sqlite+aiosqlite:///{folder}/market.db")
    room = Capacity(64_000_000, 2**48, 2**50, 110_000)
    market = make_world(database, inventory=Inventory(nodes=tuple(Node(f"n{at}", room) for at in range(20))))
    running = asyncio.create_task(run_market(market.market))
    yield market
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)  # it uses the database to its end
    await database.close()


async def _answer_lines(world: World | None, market: MarketWorld | None) -> None:
    """Say what serves, then answer each line of standard input."""
    first: dict[str, Any] = {}
    if world is not None:
        stored = await world.put_manifest(DSEQ, body(), _token())
        assert stored.status == 200, stored.text
        first = {"port": world.gateway.address[1], "pem": world.gateway.served.account.pem}
    gc.collect()
    gc.freeze()  # as the daemon does
    print(json.dumps(first), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await _answer(line.strip(), world, market)), flush=True)


async def _answer(line: str, world: World | None, market: MarketWorld | None) -> dict[str, float]:
    if line.startswith("bid"):
        assert market is not None
        return {"ms": await _bid_ms(market, int(line.split()[1]))}
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "cpu_s": time.process_time(),
        "rss_mb": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "connections": world.gateway.admission.connections if world is not None else 0,
    }


async def _bid_ms(market: MarketWorld, number: int) -> float:
    """Milliseconds from a block with 20 orders until 20 bids are sent."""
    wanted = len(market.chain.sent) + _ORDERS
    events = []
    for at in range(_ORDERS):
        order = Order(OrderId(TENANT.address, number * 1000 + at, 1, 1), OrderState.OPEN, make_spec(cpu=1000), 90)
        events.append(market.chain.add_order(order))
    began = time.monotonic()
    market.bus.publish(CHAIN_BLOCK, await market.chain.push())
    while len(market.chain.sent) < wanted:
        await asyncio.sleep(0.001)
    return (time.monotonic() - began) * 1000


def _token(number: int = 0) -> str:
    now, tenant = int(time.time()), _TENANTS[number % len(_TENANTS)]
    return tenant.token(tenant.claims(iat=now - 60, nbf=now - 60, exp=now + 3600))


# the clients' side


@dataclass
class _Server:
    """`market`: the process that bids, which may be the gateway's."""

    process: subprocess.Popen[str]
    market: subprocess.Popen[str]
    port: int
    context: ssl.SSLContext
    bids: int = 0

    def say(self, line: str) -> dict[str, float]:
        process = self.market if line.startswith("bid") else self.process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        answer: dict[str, float] = json.loads(process.stdout.readline())
        return answer

    async def bid_ms(self, rounds: int = 5) -> float:
        found = []
        for _ in range(rounds):
            self.bids += 1
            found.append((await asyncio.to_thread(self.say, f"bid {self.bids}"))["ms"])
        return statistics.median(found)

    async def open(self, number: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        local = (f"127.0.{number % 127}.2", 0)
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context, local_addr=local, limit=2**18)

    def request(
        self, path: str, *headers: tuple[str, str], method: str = "GET", data: bytes = b"", tenant: int = 0
    ) -> bytes:
        rows = [("Host", "x"), ("Authorization", f"Bearer {_token(tenant)}"), *headers]
        rows += [("Content-Length", str(len(data)))] if data else []
        return "\r\n".join([f"{method} {path} HTTP/1.1", *(": ".join(row) for row in rows), "", ""]).encode() + data


@contextlib.contextmanager
def _process(form: str, folder: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "benchmarks.gateway_load", form, folder]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def _first_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@contextlib.contextmanager
def _started(*, apart: bool) -> Iterator[_Server]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        market = stack.enter_context(_process("--serve-market" if apart else "--serve", folder))
        found, process = _first_line(market), market
        if apart:
            process = stack.enter_context(_process("--serve-gateway", folder))
            found = _first_line(process)
        context = ssl.create_default_context(cadata=found["pem"])
        context.check_hostname = False
        yield _Server(process, market, found["port"], context)


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith((b"HTTP/1.1 200 ", b"HTTP/1.1 101 ")):
        raise RuntimeError(head.decode())
    if found := head.lower().partition(b"content-length: ")[2]:
        await reader.readexactly(int(found.partition(b"\r\n")[0]))


async def _manifest_ms(server: _Server, count: int = 40) -> float:
    reader, writer = await server.open()
    request = server.request(f"/deployment/{DSEQ}/manifest", method="PUT", data=body())
    found = []
    for _ in range(count):
        began = time.monotonic()
        await _exchange(reader, writer, request)
        found.append((time.monotonic() - began) * 1000)
    writer.transport.abort()
    return statistics.median(found)


@asynccontextmanager
async def _load(server: _Server, *, idle: int, logs: int, shells: int) -> AsyncIterator[None]:
    """So many connections at once, each with its request answered; an idle one asks again before it would be closed."""
    requests = [server.request("/address")] * idle
    log, shell = (
        f"{_LEASE}/logs?follow=true&service=web",
        f"{_LEASE}/shell?cmd0=sh&tty=0&service=web&stdin=0&podIndex=0",
    )
    for at in range(logs + shells):
        requests.append(server.request(log if at < logs else shell, *upgrade_headers(), tenant=at))
    places = asyncio.Semaphore(32)

    async def one(number: int, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with places:
            reader, writer = await server.open(number)
            await _exchange(reader, writer, request)
            return reader, writer

    kept = await asyncio.gather(*(one(number, request) for number, request in enumerate(requests)))
    try:
        yield
    finally:
        for _, writer in kept:
            writer.transport.abort()


@asynccontextmanager
async def _comings_and_goings(server: _Server) -> AsyncIterator[None]:
    """Eight clients that connect, ask for a status and leave, again and again."""

    async def one(number: int) -> None:
        request = server.request(f"{_LEASE}/status", tenant=number)
        while True:
            reader, writer = await server.open(number)
            await _exchange(reader, writer, request)
            writer.transport.abort()

    clients = [asyncio.create_task(one(number)) for number in range(_COMERS)]
    try:
        await asyncio.sleep(1)
        yield
    finally:
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)


async def _run(server: _Server, *, idle: int, logs: int, shells: int) -> dict[str, float]:
    async with _load(server, idle=8, logs=3, shells=3):
        pass  # what is loaded once is no growth
    found = {"bid_ms_quiet": await server.bid_ms(), "manifest_ms_median": await _manifest_ms(server)}
    before = server.say("figures")
    async with _load(server, idle=idle, logs=logs, shells=shells):
        after = server.say("figures")
        found["bid_ms_under_load"] = await server.bid_ms()
        found["connections"] = server.say("figures")["connections"] - before["connections"]
    async with _comings_and_goings(server):
        found["bid_ms_streaming"] = await server.bid_ms()
    found["growth_mb_2250_connections"] = after["rss_mb"] - before["rss_mb"]
    return {name: round(value, 1) for name, value in found.items()}


def load_figures(*, idle: int = 2000, logs: int = 200, shells: int = 50, apart: bool = False) -> dict[str, float]:
    with _started(apart=apart) as server:
        return asyncio.run(_run(server, idle=idle, logs=logs, shells=shells))


_PROGRAMS = {"--serve": _serve, "--serve-market": _serve_market, "--serve-gateway": _serve_gateway}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--shells", type=int, default=50)
    parser.add_argument("--apart", action="store_true")
    for form in _PROGRAMS:
        parser.add_argument(form, type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for form, program in _PROGRAMS.items():
        if folder := getattr(arguments, form.removeprefix("--").replace("-", "_")):
            asyncio.run(program(folder))
            return 0
    given = {"idle": arguments.idle, "logs": arguments.logs, "shells": arguments.shells}
    found = load_figures(**given, apart=arguments.apart)
    missed = [name for name, holds in BARS.items() if not holds(found)]
    print(f"missed: {', '.join(missed) or 'nothing'}; load {os.getloadavg()[0]:.1f}")
    print(json.dumps(found))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
