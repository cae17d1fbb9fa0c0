"""A gateway on loopback over scripted fakes, and a client that sends bytes as they are recorded."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lease.ids import DeploymentId, LeaseId
from lease.resources import Price
from lease.spec import ClusterFacts
from provider.errors import ChainError, ClusterError
from provider.gateway.config import GatewayConfig
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.server import Gateway
from provider.gateway.trial_build import TrialBuild, trial_build
from provider.lifecycle.spec_maker import SpecMaker
from provider.protocols.chain import Deployment, Lease, LeaseState
from provider.protocols.cluster import Kind

PROVIDER = "akash1pdsv0s32065drerxxdyltpk5tq0h8d2vtzs685"
FREE = Price("uact", 1)


SPECS = SpecMaker(ClusterFacts(api_server_endpoints=("192.0.2.1:6443",)))


class ScriptedClock:
    def __init__(self, now: float = 1_795_820_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class ScriptedChain:
    """Only what the gateway asks. `broken` makes every query fail."""

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}
        self.deployments: dict[DeploymentId, Deployment] = {}
        self.live: list[Lease] = []
        self.broken = False
        self.key_queries = 0
        self.stall: asyncio.Event | None = None

    def add(self, deployment: Deployment, *leases: LeaseId, state: LeaseState = LeaseState.ACTIVE) -> None:
        self.deployments[deployment.id] = deployment
        self.live += [Lease(lease, state, FREE, 1) for lease in leases]

    async def account_public_key(self, address: str) -> bytes | None:
        self.key_queries += 1
        self._check()
        return self.keys.get(address)

    async def deployment(self, deployment: DeploymentId) -> Deployment | None:
        self._check()
        if self.stall is not None:
            await self.stall.wait()
        return self.deployments.get(deployment)

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]:
        self._check()
        return [
            lease
            for lease in self.live
            if lease.id.provider == provider and lease.state in states and lease.id.deployment == deployment
        ]

    def _check(self) -> None:
        if self.broken:
            raise ChainError("http://127.0.0.1:26657", "connection refused")


class ScriptedCluster:
    """Objects by kind, namespace and name; a write that changes nothing keeps the resourceVersion, as the real one."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str | None, str], dict[str, Any]] = {}
        self.writes: list[dict[str, Any]] = []
        self.versions = itertools.count(100)
        self.failing: int | None = None

    def put(self, kind: str, name: str, *, namespace: str | None = None, **parts: Any) -> None:
        metadata = {"name": name, "namespace": namespace, "labels": parts.pop("labels", {"akash.network": "true"})}
        self.objects[kind, namespace, name] = {"kind": kind, "metadata": metadata, **parts}

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> dict[str, Any] | None:
        self._check()
        return self.objects.get((kind.kind, namespace, name))

    async def list(
        self, kind: Kind, *, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        self._check()
        wanted = (labels or {}).items()
        return [
            obj
            for (stored, space, _), obj in sorted(self.objects.items(), key=str)
            if stored == kind.kind and namespace in (None, space) and wanted <= obj["metadata"]["labels"].items()
        ]

    async def apply(self, obj: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
        self._check()
        self.writes.append(dict(obj))
        key = obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]
        stored = self.objects.get(key)
        version = stored["metadata"].get("resourceVersion") if stored else None
        if stored is None or _unversioned(stored) != _unversioned(obj):
            version = str(next(self.versions))
        self.objects[key] = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
        return self.objects[key]

    def _check(self) -> None:
        if self.failing is not None:
            raise ClusterError("https://127.0.0.1:6443", "no luck", status=self.failing)


def _unversioned(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": metadata}


class ScriptedBus:
    def __init__(self) -> None:
        self.published: list[tuple[str, object]] = []

    def publish(self, topic: str, value: object, *, retain: bool = False) -> None:
        self.published.append((topic, value))


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class World:
    """Everything around one gateway; `config` may be changed before `running`."""

    config: GatewayConfig
    clock: ScriptedClock = field(default_factory=ScriptedClock)
    chain: ScriptedChain = field(default_factory=ScriptedChain)
    cluster: ScriptedCluster = field(default_factory=ScriptedCluster)
    bus: ScriptedBus = field(default_factory=ScriptedBus)
    status: ProviderStatus = field(default_factory=ProviderStatus)
    kube: dict[str, str] = field(default_factory=lambda: {"major": "1", "minor": "36"})
    placements: dict[LeaseId, Mapping[int, Any]] = field(default_factory=dict)
    gateway: Gateway | None = None
    build: TrialBuild = field(default_factory=lambda: trial_build(SPECS))

    def configure(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        async def status() -> ProviderStatus:
            return self.status

        async def kube_version() -> Mapping[str, Any]:
            return self.kube

        async def placements(lease: LeaseId) -> Mapping[int, Any] | None:
            return self.placements.get(lease)

        self.gateway = Gateway(
            self.config,
            chain=self.chain,  # type: ignore[arg-type]
            cluster=self.cluster,  # type: ignore[arg-type]
            bus=self.bus,  # type: ignore[arg-type]
            clock=self.clock,
            status=status,
            kube_version=kube_version,
            placements=placements,
            build=self.build,
        )
        await self.gateway.start()
        try:
            yield self
        finally:
            await self.gateway.stop()

    @property
    def pinned(self) -> ssl.SSLContext:
        assert self.gateway is not None
        context = ssl.create_default_context(cadata=self.gateway.certificate.pem)
        context.check_hostname = False
        return context

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert self.gateway is not None
        host, port = self.gateway.address
        return await asyncio.open_connection(host, port, ssl=self.pinned)

    async def raw(self, data: bytes) -> bytes:
        """Send bytes and read until the server closes."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.close()

    async def send(
        self, method: str, path: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes | None = None
    ) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers), "Connection: close"]
        if not any(key.lower() == "host" for key, _ in headers):
            lines.append("Host: localhost")
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        return parse_answer(await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")))

    async def get(self, path: str, token: str = "") -> Answer:
        return await self.send("GET", path, headers=bearer(token))

    async def put_manifest(self, dseq: int, body: bytes, token: str) -> Answer:
        return await self.send("PUT", f"/deployment/{dseq}/manifest", headers=bearer(token), body=body)


def bearer(token: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")] if token else []


def parse_answer(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    headers = [(key, value.strip()) for key, _, value in (line.partition(":") for line in rest)]
    answer = Answer(int(first.split()[1]), headers, body)
    if answer.header("Transfer-Encoding") == "chunked":
        answer.body = _unchunked(body)
    return answer


def _unchunked(data: bytes) -> bytes:
    whole = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        whole, data = whole + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return whole


def new_world(data_dir: Path, **changes: Any) -> World:
    settings: dict[str, Any] = {
        "provider": PROVIDER,
        "data_dir": data_dir,
        "host": "127.0.0.1",
        "port": 0,
        "public_hostname": "provider.example.com",
        "blocked_hostnames": ("blocked.example.net", ".blocked.example.org"),
        "static_hosts": True,
    }
    return World(GatewayConfig(**settings | changes))
