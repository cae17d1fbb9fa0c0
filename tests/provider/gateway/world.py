"""A gateway on loopback over scripted fakes, and a client that sends bytes as they are recorded."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from lease.ids import DeploymentId, LeaseId
from lease.resources import Price
from lease.spec import ClusterFacts
from provider.claims.hostnames import HostnameRules
from provider.errors import ChainError, ClusterError
from provider.gateway.config import GatewayConfig, Limits
from provider.gateway.intake import Intake, ManifestIntake
from provider.gateway.lease_objects import LeaseObjects, lease_reader
from provider.gateway.provider_status import ProviderStatus
from provider.gateway.refusals import Refusals
from provider.gateway.rented_deployments import Rented
from provider.gateway.rest.public_routes import Metrics
from provider.gateway.server import Gateway
from provider.gateway.streams.kept_events import KeptEvents
from provider.gateway.trial_build import TrialBuild, trial_build
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_claims import LeaseClaims
from provider.lifecycle.spec_maker import SpecMaker
from provider.protocols.chain import Deployment, LeaseState
from provider.protocols.cluster import Kind
from tests.world.bus import FakeBus
from tests.world.chain import FakeChain
from tests.world.cluster import FakeCluster
from tests.world.patience import PATIENCE_S
from tests.world.pods import FakePods
from tests.world.virtual import VirtualClock

PROVIDER = "akash1pdsv0s32065drerxxdyltpk5tq0h8d2vtzs685"
FREE = Price("uact", Decimal(1))


SPECS = SpecMaker(ClusterFacts(api_server_endpoints=("192.0.2.1:6443",)))


def rented(chain: FakeChain, deployment: Deployment, *leases: LeaseId, state: LeaseState = LeaseState.ACTIVE) -> None:
    """The chain has the deployment and its leases."""
    chain.deployments[deployment.id] = deployment
    for lease in leases:
        chain.put_lease(lease, state, price=FREE)


def chain_is_away(chain: FakeChain) -> None:
    """Every query fails from now on."""

    def fail(name: str) -> None:
        raise ChainError("http://127.0.0.1:26657", "connection refused")

    chain.before = fail


def cluster_fails(cluster: FakeCluster, status: int) -> None:
    """Every call fails from now on."""

    def fail(operation: str, kind: str, name: str) -> None:
        raise ClusterError("https://127.0.0.1:6443", "no luck", status=status)

    cluster.before = fail


def place(cluster: FakeCluster, kind: Kind, name: str, *, namespace: str | None = None, **parts: Any) -> None:
    """An object in the cluster, labelled as the provider labels its own."""
    metadata = {"name": name, "labels": parts.pop("labels", {"akash.network": "true"})}
    metadata |= {"namespace": namespace} if namespace else {}
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts}
    cluster.put(obj)
    if "status" in parts:
        cluster.put(obj, status=True)


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
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(1_795_820_000.0))
    chain: FakeChain = field(default_factory=FakeChain)
    cluster: FakeCluster = field(default_factory=FakeCluster)
    pods: FakePods = field(default_factory=FakePods)
    bus: FakeBus = field(default_factory=FakeBus)
    status: ProviderStatus = field(default_factory=ProviderStatus)
    kube: dict[str, str] = field(default_factory=lambda: {"major": "1", "minor": "36"})
    placements: dict[LeaseId, Mapping[int, Any]] = field(default_factory=dict)
    gateway: Gateway = field(init=False)
    """From `running` on."""
    intake: ManifestIntake = field(init=False)
    """From `running` on."""
    build: TrialBuild = field(default_factory=lambda: trial_build(SPECS))
    kube_calls: int = 0
    strangers: FakeChain | None = None
    """The chain that is asked about accounts that are no tenants; None: `chain`."""
    is_tenant: Callable[[str], bool] = lambda _: True
    rented: Callable[[DeploymentId], Rented | None] = lambda _: None
    metrics: Metrics | None = None
    kept_events: KeptEvents | None = None
    linked_intake: Intake | None = None
    """What the gateway uses in place of `intake`."""
    trouble: str = ""
    """Why the newest manifest of every lease does not run."""

    def configure(self, **changes: Any) -> None:
        self.config = replace(self.config, **changes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        async def status() -> ProviderStatus:
            return self.status

        async def kube_version() -> Mapping[str, Any]:
            self.kube_calls += 1
            return self.kube

        read = lease_reader(self.cluster, self.config.manifest_namespace)

        async def read_lease(lease: LeaseId) -> LeaseObjects:
            return replace(await read(lease), trouble=self.trouble)

        refusals = Refusals()
        self.intake = self.make_intake(refusals)
        self.gateway = Gateway(
            self.config,
            chain=self.chain,
            cluster=self.cluster,
            pods=self.pods,
            clock=self.clock,
            status=status,
            kube_version=kube_version,
            intake=self.linked_intake or self.intake,
            migrations=LeaseClaims(self.cluster, LifecycleConfig(provider=self.config.provider)),
            read_lease=read_lease,
            strangers=self.strangers,
            is_tenant=self.is_tenant,
            metrics=self.metrics,
            refusals=refusals,
            kept_events=self.kept_events,
        )
        await self.gateway.start()
        try:
            yield self
        finally:
            await self.gateway.stop()

    def make_intake(self, refusals: Refusals) -> ManifestIntake:
        async def placements(lease: LeaseId) -> Mapping[int, Any] | None:
            return self.placements.get(lease)

        return ManifestIntake(
            self.config,
            chain=self.chain,
            cluster=self.cluster,
            bus=self.bus,
            clock=self.clock,
            placements=placements,
            build=self.build,
            strangers=self.strangers,
            is_tenant=self.is_tenant,
            refusals=refusals,
            rented=self.rented,
        )

    @property
    def pinned(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.gateway.served.account.pem)
        context.check_hostname = False
        return context

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self.gateway.address
        return await asyncio.open_connection(host, port, ssl=self.pinned)

    async def raw(self, data: bytes) -> bytes:
        """Send bytes and read until the server closes."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE_S):
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
        "hostnames": HostnameRules(
            ("blocked.example.net", ".blocked.example.org"), "provider.example.com", "ingress.example.com", True
        ),
        "static_hosts": True,
        "limits": Limits(behind_pauses=()),
    }
    return World(GatewayConfig(**settings | changes))
