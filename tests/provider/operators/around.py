"""What the tests of the operators for hostnames and addresses share: claims, an edge, and operators that run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from lease.ids import LeaseId
from lease.manifest import Group
from provider.claims.edge import EdgeAnswer
from provider.claims.hostnames import HostnameClaim, host_object
from provider.claims.leased_ips import AddressClaim, leased_ip_object
from provider.claims.moves import NO_MOVE, Move
from provider.operators.hostname.health import EdgeChecks
from provider.operators.hostname.operator import HostnameOperator
from provider.operators.ip.operator import IpOperator
from provider.operators.process import OperatorOptions
from provider.protocols import Clock, Cluster
from provider.protocols.clock import SystemClock
from provider.records.manifests import ManifestRecord, manifest_object
from provider.settings import Settings
from provider.units import parse_address_range
from tests.provider.lifecycle.world import PROVIDER
from tests.world.patience import eventually as until

HOST = "a.example.com"
OWN = "203.0.113.5"
VERSION = {"name": "lessor"}


OPTIONS = OperatorOptions("127.0.0.1", 0, 0, refresh_s=0.05)


def claim(hostname: str, lease: LeaseId, *, port: int = 80, move: Move = NO_MOVE) -> dict[str, Any]:
    return host_object(lease, HostnameClaim(hostname, lease, "web", port), namespace="lease", move=move)


def manifest(lease: LeaseId, group: Group) -> dict[str, Any]:
    return manifest_object(ManifestRecord(lease, group, {}), namespace="lease")


class Answers:
    """An edge and a resolver that say what a test wants."""

    def __init__(self, *addresses: str, status: int = 200, certificate: str = "") -> None:
        self.addresses = addresses
        self.status = status
        self.certificate = certificate
        self.asked: list[str] = []

    async def resolve(self, hostname: str) -> tuple[str, ...]:
        if not self.addresses:
            raise OSError("no such name")
        return self.addresses

    async def ask(self, hostname: str) -> EdgeAnswer:
        self.asked.append(hostname)
        return EdgeAnswer(self.status, certificate=self.certificate)

    def checks(self) -> EdgeChecks:
        return EdgeChecks(self.resolve, (OWN,), self.ask, self.ask)


def hostnames(cluster: Cluster, answers: Answers | None = None, *, clock: Clock | None = None) -> HostnameOperator:
    checks = (answers or Answers(OWN)).checks()
    return HostnameOperator(
        Settings(), cluster, clock or SystemClock(), version=VERSION, checks=checks, options=OPTIONS, check_s=0
    )


@asynccontextmanager
async def running(operator: HostnameOperator | IpOperator) -> AsyncIterator[str]:
    """The operator's address over HTTP."""
    task = asyncio.create_task(operator.run())
    try:
        await until(lambda: operator.ports[0] > 0 or task.done())
        yield f"http://127.0.0.1:{operator.ports[0]}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def get(url: str, method: str = "GET") -> tuple[int, str, Mapping[str, str]]:
    async with aiohttp.ClientSession() as http, http.request(method, url) as answer:
        return answer.status, await answer.text(), dict(answer.headers)


async def settled(url: str, wanted: int = 200) -> tuple[int, str, Mapping[str, str]]:
    """The answer as soon as it has this status."""
    found: list[tuple[int, str, Mapping[str, str]]] = []

    async def has() -> bool:
        found.append(await get(url))
        return found[-1][0] == wanted

    await until(has)
    return found[-1]


def leased(lease: LeaseId, *, port: int = 80, address: str = "203.0.113.1", endpoint: str = "meow") -> dict[str, Any]:
    key = f"{lease.owner}-ip-{endpoint}"
    one = AddressClaim(lease, "web", 8080, port, "TCP", key, address)
    return {**leased_ip_object(one, namespace="lease"), "status": {"address": address}}


def addresses(cluster: Cluster) -> IpOperator:
    ranges = (parse_address_range("203.0.113.1-203.0.113.10"),)
    settings = Settings(ip_ranges=ranges)
    return IpOperator(settings, cluster, SystemClock(), provider=PROVIDER, version=VERSION, options=OPTIONS)
