"""How fast the gateway answers and streams: `/status`, lease statuses, and logs from a scripted API server.

    nice python -m benchmarks.gateway [--seconds 4] [--megabytes 120] [--node]

The gateway is a process of its own on one core, with TLS and checked tokens; the API server and the clients share
another. `status_per_s` and `lease_status_per_s` are requests over 16 connections that stay open, each of another
tenant; lease statuses come from the watches. `log_mb_per_s` is the log of one pod with lines of 1 KiB, and
`log_lines_per_s` of one with lines of 100 bytes, a frame each; `first_line_ms` is the median time from the request of
a stream to its first line. The figures that end in `_of_cpu` are per second of the gateway's processor time, which
other programs on the machine hardly change. The figures of `benchmarks.gateway_load` follow; those that end in `_apart`
are of a gateway in a process of its own beside the market's. With `--node` (as root) those of `benchmarks.node_logs`
stand beside them: what a real node gives of such a log. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web

from benchmarks.gateway_load import load_figures
from benchmarks.node_logs import node_log_figures
from lease.ids import LeaseId, namespace_name
from lease.manifest_decode import manifest_from_json
from provider.gateway.config import GatewayConfig
from provider.gateway.intake import ManifestIntake
from provider.gateway.lease_objects import lease_reader
from provider.gateway.provider_status import Amounts, NodeAmounts, ProviderStatus
from provider.gateway.server import Gateway
from provider.gateway.trial_build import trial_build
from provider.gateway.watched_objects import WatchedObjects, read_or_known
from provider.kube.client import KubeCluster
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import (
    DEPLOYMENT,
    MANIFEST,
    NAMESPACE,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SERVICE,
    STATEFUL_SET,
    WatchEvent,
)
from provider.records.manifests import ManifestRecord, manifest_object
from tests.provider.gateway.accounts import Account
from tests.provider.gateway.manifests import body
from tests.provider.gateway.world import PROVIDER, SPECS
from tests.world.bus import FakeBus
from tests.world.chain import FakeChain
from tests.world.pods import pod_object

__all__ = ["gateway_figures"]

_CLIENTS = 16
_PIECE = 64 * 1024
_SPAWN = multiprocessing.get_context("spawn")
_STREAMS = 5
_WATCHED = (MANIFEST, NAMESPACE, DEPLOYMENT, STATEFUL_SET, SERVICE, PROVIDER_HOST, PROVIDER_LEASED_IP)


def _tenant(number: int) -> Account:
    return Account.named(f"tenant {number}")


def _lease(number: int) -> LeaseId:
    return LeaseId(_tenant(number).address, 42, 1, 1, PROVIDER)


def _on_core(number: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def _api_server(ready: Connection) -> None:
    """Writes the log of a pod: `tailLines` megabytes, in lines as long as the pod's name says."""
    _on_core(1)

    async def log(request: web.Request) -> web.StreamResponse:
        size = int(request.match_info["pod"].rpartition("-")[2])
        line = (b"x" * (size - 1) + b"\n") * (_PIECE // size)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(int(request.query["tailLines"]) * 1_000_000 // len(line) + 1):
            await response.write(line)
        return response

    async def pods(request: web.Request) -> web.StreamResponse:
        names = (("long-1024", "long"), ("short-100", "short"))
        return web.json_response({"items": [pod_object("ns", name, service) for name, service in names]})

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{ns}/pods/{pod}/log", log)
        app.router.add_get("/api/v1/namespaces/{ns}/pods", pods)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


def _watched() -> WatchedObjects:
    """The leases of all tenants as the watches would have reported them."""
    objects = WatchedObjects()
    for number in range(_CLIENTS):
        lease, space = _lease(number), namespace_name(_lease(number))
        record = ManifestRecord(lease, manifest_from_json(body())[0], {})
        status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1}
        metadata = {"name": "web", "namespace": space, "uid": f"web {number}"}
        for kind, obj in (
            (MANIFEST, manifest_object(record, namespace="lease")),
            (NAMESPACE, {"metadata": {"name": space, "uid": f"space {number}"}}),
            (DEPLOYMENT, {"metadata": metadata, "status": status}),
        ):
            objects.note(kind, WatchEvent("ADDED", obj))
    for kind in _WATCHED:
        objects.mark(kind, True)
    return objects


def _gateway(ready: Connection, folder: str, port: int) -> None:
    """Serves; answers each message on `ready` with the processor time so far."""
    _on_core(0)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(Path(os.devnull).open("w")))  # noqa: SIM115

    async def serve() -> None:
        chain = FakeChain()
        for number in range(_CLIENTS):
            chain.public_keys[_tenant(number).address] = _tenant(number).public
        cluster = KubeCluster(_kubeconfig(Path(folder), port))
        read = read_or_known(_watched(), lease_reader(cluster, "lease"))
        clock = SystemClock()
        config = GatewayConfig(PROVIDER, Path(folder), host="127.0.0.1", port=0, public_hostname="provider.example.com")
        intake = ManifestIntake(
            config,
            chain=chain,
            cluster=cluster,
            bus=FakeBus(),
            clock=clock,
            placements=_placements,
            build=trial_build(SPECS),
            is_tenant=lambda _: True,
        )
        gateway = Gateway(
            config,
            chain=chain,
            cluster=cluster,
            pods=cluster.pods,
            clock=clock,
            status=_status,
            kube_version=_version,
            intake=intake,
            migrations=LeaseClaims(cluster, LifecycleConfig(provider=PROVIDER)),
            read_lease=read,
            is_tenant=lambda _: True,
        )
        await gateway.start()
        ready.send((gateway.address[1], gateway.served.account.pem))
        loop = asyncio.get_running_loop()

        def answer() -> None:
            ready.recv()
            ready.send(time.process_time())

        loop.add_reader(ready.fileno(), answer)
        await asyncio.Event().wait()

    asyncio.run(serve())


async def _status() -> ProviderStatus:
    amounts = Amounts(8000, 1, 32 << 30, 500 << 30)
    nodes = tuple(NodeAmounts(f"node-{number}", amounts, amounts) for number in range(10))
    return ProviderStatus(20, 3, 20, active=(amounts,) * 20, nodes=nodes, storage_bytes={"beta2": 1 << 40})


async def _version() -> dict[str, Any]:
    return {}


async def _placements(_: LeaseId) -> None:
    return None


def _kubeconfig(folder: Path, port: int) -> Path:
    file = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(config))
    return file


@dataclass
class _Site:
    port: int
    tls: ssl.SSLContext
    control: Connection

    def cpu_s(self) -> float:
        self.control.send(None)
        return float(self.control.recv())


@contextmanager
def _site() -> Iterator[_Site]:
    """A running gateway and its API server."""
    ours, theirs = _SPAWN.Pipe()
    control, gateway_end = _SPAWN.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        api = _SPAWN.Process(target=_api_server, args=(theirs,), daemon=True)
        api.start()
        gateway = _SPAWN.Process(target=_gateway, args=(gateway_end, folder, ours.recv()), daemon=True)
        gateway.start()
        try:
            port, pem = control.recv()
            tls = ssl.create_default_context(cadata=pem)
            tls.check_hostname = False
            yield _Site(port, tls, control)
        finally:
            gateway.terminate()
            api.terminate()
            gateway.join()
            api.join()


class _Asker(asyncio.Protocol):
    """Sends a request again as soon as its answer is whole, until `end`."""

    def __init__(self, request: bytes, end: Callable[[], bool]) -> None:
        self._request = request
        self._end = end
        self._received = b""
        self.count = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found or not _whole(head, body):
            return
        self._received = b""
        if not head.startswith(b"HTTP/1.1 200"):
            self.over.set_exception(RuntimeError(head.decode()))
            self._transport.abort()
            return
        self.count += 1
        if not self._end():
            self._transport.write(self._request)
            return
        self._transport.close()
        if not self.over.done():
            self.over.set_result(None)


def _whole(head: bytes, body: bytes) -> bool:
    length = head.partition(b"Content-Length: ")[2].split(b"\r\n", 1)[0]
    return len(body) == int(length) if length else body.endswith(b"\r\n0\r\n\r\n")


async def _requests(site: _Site, path: str, seconds: float) -> tuple[float, float]:
    """Requests a second, and a second of the gateway's processor time, over 16 connections."""
    loop, deadline = asyncio.get_running_loop(), [0.0]
    askers = []
    for number in range(_CLIENTS):
        token = _tenant(number).token(_claims(_tenant(number)))
        credentials = f"Authorization: Bearer {token}\r\n" if path.startswith("/lease") else ""
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\n"
        asker = _Asker(head.encode(), lambda: time.monotonic() >= deadline[0])
        askers.append(asker)
    deadline[0] = time.monotonic() + seconds
    cpu, began = site.cpu_s(), time.monotonic()
    for asker in askers:
        await loop.create_connection(lambda asker=asker: asker, "127.0.0.1", site.port, ssl=site.tls)  # type: ignore[misc]
    await asyncio.gather(*(asker.over for asker in askers))
    passed, used = time.monotonic() - began, site.cpu_s() - cpu
    count = sum(asker.count for asker in askers)
    return count / passed, count / used


def _claims(account: Account) -> dict[str, Any]:
    now = int(time.time())
    return account.claims(iat=now - 10, nbf=now - 10, exp=now + 900)


@asynccontextmanager
async def _stream(site: _Site, service: str, megabytes: int) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port, ssl=site.tls, limit=1 << 20)
    token = _tenant(0).token(_claims(_tenant(0)))
    head = (
        f"GET /lease/42/1/1/logs?service={service}&tail={megabytes} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: Bearer {token}",
    )
    writer.write("\r\n".join((*head, "", "")).encode())
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(answer.decode())
        yield reader
    finally:
        writer.transport.abort()


async def _lines(site: _Site, service: str, size: int, megabytes: int) -> tuple[float, float]:
    """Lines a second, and a second of the gateway's processor time; each line is a frame of one length."""
    cpu, began, received = site.cpu_s(), time.monotonic(), 0
    async with _stream(site, service, megabytes) as reader:
        while data := await reader.read(1 << 18):
            received += len(data)
    passed, used = time.monotonic() - began, site.cpu_s() - cpu
    head = 4 if size + 40 > 125 else 2
    frame = head + len(f'{{"name":"{service}-{size}","message":"') + size - 1 + len('"}\n')
    count, rest = divmod(received, frame)
    if rest % 2 or rest > 100:  # pings have two bytes
        raise RuntimeError(f"{received} bytes are not frames of {frame} bytes")
    return count / passed, count / used


async def _first_line_ms(site: _Site) -> float:
    found = []
    for _ in range(_STREAMS):
        began = time.monotonic()
        async with _stream(site, "short", 1) as reader:
            await reader.readexactly(1)
        found.append((time.monotonic() - began) * 1000)
    return statistics.median(found)


async def _measured(site: _Site, seconds: float, megabytes: int) -> dict[str, float]:
    status = await _requests(site, "/status", seconds)
    lease = await _requests(site, "/lease/42/1/1/status", seconds)
    long = await _lines(site, "long", 1024, megabytes)
    short = await _lines(site, "short", 100, megabytes // 10)
    return {
        "status_per_s": status[0],
        "status_of_cpu": status[1],
        "lease_status_per_s": lease[0],
        "lease_status_of_cpu": lease[1],
        "log_mb_per_s": long[0] * 1024 / 1e6,
        "log_mb_of_cpu": long[1] * 1024 / 1e6,
        "log_lines_per_s": short[0],
        "log_lines_of_cpu": short[1],
        "first_line_ms": await _first_line_ms(site),
    }


def gateway_figures(*, seconds: float, megabytes: int) -> dict[str, float]:
    with _site() as site:
        _on_core(1)
        return {name: round(value, 1) for name, value in asyncio.run(_measured(site, seconds, megabytes)).items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--megabytes", type=int, default=120)
    parser.add_argument("--node", action="store_true")
    given = parser.parse_args()
    figures = gateway_figures(seconds=given.seconds, megabytes=given.megabytes) | load_figures()
    apart = load_figures(apart=True)
    figures |= {f"{name}_apart": value for name, value in apart.items() if name.startswith(("bid_", "manifest_"))}
    if given.node:
        figures |= node_log_figures()
    print(json.dumps(figures | {"load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
