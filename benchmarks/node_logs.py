"""What a real node gives of one pod that logs as fast as it can, and what of that reaches a tenant through Lessor.

    python -m benchmarks.node_logs [--seconds 4]    # as root; the last line is one JSON object

A container writes lines of 1 KiB for some seconds, as fast as its pipe takes them; then another writes lines of 100
bytes. `node_…` is what the API server streams of that log to a client that follows it, `lessor_…` what the gateway does
at the same place, over TLS with a frame a line, `kept_…` the log as it lies on the disk, read once through the API
server. Everything runs on one machine: containerd and kubelet, the API server, the provider and the client share its
cores. `written_mb_per_s` is what the container wrote meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from devnet.node import is_enclosed
from devnet.tenant.token import full_access, sign_token
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools
from devnet.world import World
from lease.ids import namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.node.conftest import Site
from tests.whole.node.documents import document, expose, service

__all__ = ["node_log_figures"]

SIZES = {"long": 1024, "short": 100}
"""Bytes of a line with its end, by service."""
_SILENCE_S = 3.0
"""A stream that brings nothing for so long is at its end."""


def node_log_figures(seconds: float = 4.0) -> dict[str, float]:
    """The figures, from an enclosure that is made for them."""
    ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE])  # nothing can be downloaded inside
    lessor = Path(sys.executable).with_name("lessor")
    own = [sys.executable, "-m", "benchmarks.node_logs", "--seconds", str(seconds)]
    done = subprocess.run([lessor, "devnet", "enclosed", "--", *own], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _logging(name: str, seconds: float) -> Sdl:
    """A service that waits for the file /go, writes its lines for some seconds, and keeps in /count how many bytes."""
    script = (
        "while [ ! -e /go ]; do sleep 0.1; done; "
        f"timeout {seconds:g} yes {'x' * (SIZES[name] - 1)} | dd bs=64k 2>/count; touch /done; exec sleep 100000"
    )
    command, storage = ["sh", "-c", script], [{"size": "4Gi"}]
    return document({name: service(expose(80), cpu="1000m", memory="128Mi", storage=storage, command=command)})


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a reader got: bytes, and the seconds from the first to the last of them."""

    size: int
    seconds: float

    @property
    def mb_per_s(self) -> float:
        return self.size / 1e6 / self.seconds if self.seconds else 0.0


async def _take(chunks: AsyncIterator[bytes]) -> _Taken:
    size, first, last = 0, 0.0, 0.0
    reading = chunks.__aiter__()
    while True:
        try:
            chunk = await asyncio.wait_for(reading.__anext__(), _SILENCE_S if size else 60.0)
        except (StopAsyncIteration, TimeoutError):
            return _Taken(size, last - first)
        last = time.monotonic()
        first, size = first or last, size + len(chunk)


def _api_context(kubeconfig: Path) -> ssl.SSLContext:
    """TLS with the administrator's certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.NamedTemporaryFile() as pair:
        names = ("client-certificate-data", "client-key-data")
        pair.write(b"\n".join(base64.b64decode(user[name]) for name in names))
        pair.flush()
        context.load_cert_chain(pair.name)
    return context


@asynccontextmanager
async def _of_node(site: Site, rented: Rented, name: str, *, follow: bool) -> AsyncIterator[AsyncIterator[bytes]]:
    """The log of a service as the API server streams it."""
    namespace = namespace_name(rented.lease)
    pod = await site.pod(namespace, name)
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?follow={str(follow).lower()}"
    plane, timeout = site.world.plane, aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 20) as session,
        session.get(plane.api_server + path, ssl=_api_context(plane.kubeconfig)) as answer,
    ):
        answer.raise_for_status()
        yield answer.content.iter_any()


@asynccontextmanager
async def _of_lessor(site: Site, rented: Rented, name: str, *, follow: bool) -> AsyncIterator[AsyncIterator[bytes]]:
    """The frames that the gateway sends of the same log, with their heads."""
    account, world = site.world.tenant.account, site.world
    head = (
        f"GET /lease/{rented.lease.dseq}/1/1/logs?service={name}&follow={str(follow).lower()} HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Authorization: Bearer {sign_token(account.key, full_access(account.address))}",
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", world.gateway_port, ssl=context, limit=1 << 20)
    try:
        writer.write("\r\n".join((*head, "", "")).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 101"):
            raise RuntimeError(answer.decode())
        yield _read(reader)
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await reader.read(1 << 18):
        yield chunk


def _share(site_pod: str, size: int) -> float:
    """What of the gateway's bytes is the text of a line, its end included."""
    head = 4 if size + 40 > 125 else 2
    return size / (head + len(f'{{"name":"{site_pod}","message":"') + size - 1 + len('"}\n'))


async def _measured(site: Site, seconds: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, size in SIZES.items():
        for source in ("node", "lessor"):
            rented = await rent(site.world, _logging(name, seconds))
            await deploy(site.world, site.provider, rented)
            taken, written = await _burst(site, rented, name, source, seconds)
            pod = await site.pod(namespace_name(rented.lease), name)
            text = taken.mb_per_s * (_share(pod, size) if source == "lessor" else 1.0)
            found |= _figures(source, name, text)
            if source == "node":
                found[f"written_mb_per_s_{name}"] = written / 1e6 / seconds
                async with _of_node(site, rented, name, follow=False) as chunks:
                    found |= _figures("kept", name, (await _take(chunks)).mb_per_s)
            await close(site.world, site.provider, rented)
    return {name: round(value, 1) for name, value in found.items()}


def _figures(source: str, name: str, mb_per_s: float) -> dict[str, float]:
    lines = {f"{source}_lines_per_s": mb_per_s * 1e6 / SIZES[name]}
    return {f"{source}_mb_per_s": mb_per_s} if name == "long" else lines


async def _burst(site: Site, rented: Rented, name: str, source: str, seconds: float) -> tuple[_Taken, int]:
    """What one reader got of a burst, and what the runtime has written of it, in bytes."""
    opened = _of_node if source == "node" else _of_lessor
    namespace = namespace_name(rented.lease)
    async with opened(site, rented, name, follow=True) as chunks:
        await site.inside(namespace, name, "touch", "/go")
        taken = await _take(chunks)
    return taken, await _written(site, namespace, name)


async def _written(site: Site, namespace: str, name: str) -> int:
    """The bytes that the container has written, as its `dd` says."""
    while (await site.inside(namespace, name, "test", "-e", "/done")).status:
        await asyncio.sleep(0.5)
    counted = (await site.inside(namespace, name, "cat", "/count")).stdout
    return int(next(line for line in counted.splitlines() if "bytes" in line).split()[0])


async def _inside(seconds: float) -> dict[str, float]:
    toolbox = ensure_tools([*CONTROL_PLANE, *ENGINE, *NODE], build=False)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        async with World.start_real(Path(folder), toolbox) as world:
            await world.apply_cluster_stack(lambda _: None)
            await world.register_provider()
            site = Site(world, await world.run_provider())
            figures = await _measured(site, seconds)
            await world.stop_providers()
            return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    if is_enclosed():
        print(json.dumps(asyncio.run(_inside(options.seconds))))
        return
    figures = node_log_figures(options.seconds)
    for name, figure in figures.items():
        print(f"{name:24} {figure:>12,}")
    print(f"load average {os.getloadavg()[0]:.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
