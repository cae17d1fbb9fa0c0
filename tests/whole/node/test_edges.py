"""Tenants' hostnames behind the edges that providers run: Ingress-NGINX, and Traefik with the Gateway API too."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from devnet.controlplane.certificates import Certificates
from devnet.errors import ToolsMissing
from devnet.node.edges import EdgeKind, edge_settings, edge_tools
from devnet.node.network import NODE_PUBLIC_ADDRESS
from devnet.node.nginx import missing_nginx
from devnet.tools import Toolbox, ensure_tools
from lease.ids import namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.node.conftest import MARKS, Done, Site
from tests.whole.node.documents import document, expose, service
from tests.whole.node.readers import restart_provider, until

pytestmark = [*MARKS, pytest.mark.long]

GATEWAY_MODE = {"AP_INGRESS_MODE": "gateway-api"}
PUBLISHERS = ("ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
PAUSE_MS = 20
FEWEST = 20
"""Requests of a poll through a change: a busy machine asks less often than each PAUSE_MS, but it goes on asking."""
LONGEST_S = 200
OPTIONS = {
    "max_body_size": 1000,
    "read_timeout": 2000,
    "send_timeout": 2000,
    "next_tries": 3,
    "next_timeout": 5000,
    "next_cases": ["error", "timeout", "503"],
}
OBEYED = {"900 bytes": "200", "1100 bytes": "413", "after 1 s": "200", "after 5 s": "504", "tries of a 503": 3}
IGNORED = {"900 bytes": "200", "1100 bytes": "200", "after 1 s": "200", "after 5 s": "200", "tries of a 503": 1}

only_traefik = pytest.mark.parametrize("edge", [EdgeKind.TRAEFIK], indirect=True, scope="module")


@dataclass
class Edge:
    """The site with this edge on ports 80 and 443 of the node, in place of the devnet's own."""

    site: Site
    kind: EdgeKind
    mode: Mapping[str, str] = field(default_factory=dict)
    """The settings of the provider that choose between Ingress (none) and HTTPRoute."""

    async def provider_in_mode(self, **mode: str) -> None:
        """Restart the provider with the settings for this edge and `mode`, unless it has them."""
        if mode != self.mode:
            await restart_provider(self.site, **edge_settings(self.kind), **mode)
            self.mode = mode

    async def deploy(self, sdl: Sdl) -> Rented:
        rented = await rent(self.site.world, sdl)
        await deploy(self.site.world, self.site.provider, rented)
        return rented

    async def close(self, rented: Rented) -> None:
        await close(self.site.world, self.site.provider, rented)

    async def ask(self, url: str, *arguments: str) -> Done:
        """Fetch a page of `*.example.com` from outside; the name resolves to the node's public address."""
        host = url.split("/")[2]
        resolved = [word for port in (80, 443) for word in ("--resolve", f"{host}:{port}:{NODE_PUBLIC_ADDRESS}")]
        return await self.site.outside("curl", "-sS", "-m", "15", *resolved, *arguments, url)

    async def status(self, url: str, *arguments: str) -> str:
        return (await self.ask(url, "-o", "/dev/null", "-w", "%{http_code}", *arguments)).stdout

    async def until_answers(self, url: str, *arguments: str) -> None:
        async def answers() -> bool:
            return "hello from" in (await self.ask(url, *arguments)).stdout

        await until(answers, f"an answer of {url}")

    async def until_unknown(self, url: str) -> None:
        """Return when the edge no longer knows the host: it hears of a deletion a moment after the provider."""

        async def unknown() -> bool:
            return await self.status(url) == "404"

        await until(unknown, f"404 for {url}", seconds=10)

    def polling(self, host: str) -> AbstractAsyncContextManager[list[str]]:
        return self.site.asking("poll", f"http://{NODE_PUBLIC_ADDRESS}/", str(PAUSE_MS), str(LONGEST_S), host)

    async def migrate(self, host: str, rented: Rented) -> None:
        """Have the tenant migrate a hostname to this lease."""
        lease, gateway = rented.lease, await self.site.world.tenant.gateway(self.site.world.provider)
        body = {"hostnames_to_migrate": [host], "destination_dseq": lease.dseq, "destination_gseq": lease.gseq}
        answer = await gateway.request("POST", "/hostname/migrate", body=json.dumps(body).encode())
        assert (answer.status, answer.body) == (200, json.dumps({"transferred": [host]}, separators=(",", ":")))

    async def until_only(self, host: str, rented: Rented, other: Rented) -> None:
        """Return when the first of the two leases alone publishes the hostname."""

        async def alone() -> bool:
            return await self._publishes(rented, host) and not await self._publishes(other, host)

        await until(alone, f"the route of {rented.lease} alone")

    async def until_version(self, version: int, host: str) -> None:
        """Return when the edge answers from this version: it hears of a route a moment after the provider."""

        async def answers() -> bool:
            return f"version {version}" in (await self.ask(f"http://{host}/")).stdout

        await until(answers, f"version {version} of {host}")

    async def _publishes(self, rented: Rented, host: str) -> bool:
        kinds = ",".join(await self.publishers(rented))
        if not kinds:
            return False
        return (await self.site.kubectl("-n", namespace_name(rented.lease), "get", kinds, host)).status == 0

    async def publishers(self, rented: Rented) -> Sequence[str]:
        """The kinds of the objects that publish a lease's hostnames."""
        resources = await self.site.kubectl("api-resources", "-o", "name")
        kinds = [kind for kind in PUBLISHERS if kind in resources.stdout.split()]
        listed = await self.site.kubectl("-n", namespace_name(rented.lease), "get", ",".join(kinds), "-o", "name")
        return sorted({line.partition("/")[0].partition(".")[0] for line in listed.stdout.split()})


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=[EdgeKind.NGINX, EdgeKind.TRAEFIK], ids=str)
async def edge(site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Edge]:
    kind = EdgeKind(request.param)
    await _change_edge(site, kind, _tools(kind))
    yield Edge(site, kind)
    await _change_edge(site, EdgeKind.OWN, site.world.plane.toolbox)


def _tools(kind: EdgeKind) -> Toolbox:
    problems = missing_nginx() if kind is EdgeKind.NGINX else ()
    try:
        if not problems:
            return ensure_tools(edge_tools(kind), build=False)
    except ToolsMissing as missing:
        problems = (f"{missing}; `make test-long` builds it",)
    if os.environ.get("CI"):
        pytest.fail("; ".join(problems), pytrace=False)
    pytest.skip("; ".join(problems))


async def _change_edge(site: Site, kind: EdgeKind, toolbox: Toolbox) -> None:
    node = site.world.node
    assert node is not None
    await asyncio.to_thread(node.change_edge, kind, toolbox)
    await asyncio.to_thread(node.wait_for_workloads)
    node.api.close()
    await restart_provider(site, **edge_settings(kind))


def _document(host: str, *, version: int = 1, replicas: int = 1, **options: Any) -> Sdl:
    env = [f"STANDIN_VERSION={version}"]
    return document({"web": service(expose(80, accept=[host], **options), count=replicas, env=env)})


async def test_an_ingress_is_served_by_http_and_https_until_the_lease_is_closed(edge: Edge) -> None:
    await edge.provider_in_mode()
    rented = await edge.deploy(_document("page.example.com"))
    assert await edge.publishers(rented) == ["ingress"]
    await edge.until_answers("http://page.example.com/")
    # Lessor's Ingress has no TLS block: the edge's default certificate serves, which no authority has signed here.
    await edge.until_answers("https://page.example.com/", "--insecure")
    assert await edge.status("http://other.example.com/") == "404"
    await edge.close(rented)
    await edge.until_unknown("http://page.example.com/")


async def test_the_http_options_of_an_ingress_take_effect(edge: Edge) -> None:
    await edge.provider_in_mode()
    assert await _effects(edge, "ingress-options.example.com") == OBEYED


async def test_an_update_by_ingress_loses_little_with_two_replicas(edge: Edge) -> None:
    await edge.provider_in_mode()
    await _update_while_polled(edge, "ingress-update.example.com")


@only_traefik
async def test_a_route_of_the_gateway_api_is_served_with_the_gateways_certificate(edge: Edge) -> None:
    await edge.provider_in_mode(**GATEWAY_MODE)
    rented = await edge.deploy(_document("route.example.com"))
    assert await edge.publishers(rented) == ["httproute"]
    authority = Certificates(edge.site.world.plane.kubeconfig.parent / "pki").certificate("ca")
    await edge.until_answers("http://route.example.com/")
    await edge.until_answers("https://route.example.com/", "--cacert", str(authority))
    await edge.close(rented)
    await edge.until_unknown("http://route.example.com/")


@only_traefik
async def test_traefik_ignores_the_http_options_of_a_route(edge: Edge) -> None:
    await edge.provider_in_mode(**GATEWAY_MODE)
    assert await _effects(edge, "route-options.example.com") == IGNORED


@only_traefik
async def test_an_update_by_route_loses_little_with_two_replicas(edge: Edge) -> None:
    await edge.provider_in_mode(**GATEWAY_MODE)
    await _update_while_polled(edge, "route-update.example.com")


@only_traefik
async def test_a_change_of_the_ingress_mode_moves_a_running_lease_to_a_route(edge: Edge) -> None:
    await edge.provider_in_mode()
    rented = await edge.deploy(_document("moved.example.com"))
    await edge.until_answers("http://moved.example.com/")
    pods = await edge.site.pods(rented.lease, "web")

    async def moved() -> bool:
        return await edge.publishers(rented) == ["httproute"]

    async with edge.polling("moved.example.com") as printed:
        await edge.provider_in_mode(**GATEWAY_MODE)
        await until(moved, "a route in place of the Ingress")
        await asyncio.sleep(2)
    asked, failed = _counted(printed)
    print(f"from Ingress to route: of {asked} requests {failed} failed")
    assert await edge.site.pods(rented.lease, "web") == pods, "pods were replaced although only the route changed"
    await edge.until_answers("http://moved.example.com/")
    await edge.close(rented)
    assert failed * PAUSE_MS < 4000


async def test_a_hostname_migrates_by_ingress(edge: Edge) -> None:
    """Traefik takes two Ingresses of one hostname, so that no request is lost. Ingress-NGINX refuses the second one."""
    await edge.provider_in_mode()
    failed = await _migrate_while_polled(edge, "ingress-migration.example.com")
    assert failed == 0 or edge.kind is EdgeKind.NGINX


@only_traefik
async def test_a_hostname_migrates_by_route_without_a_lost_request(edge: Edge) -> None:
    await edge.provider_in_mode(**GATEWAY_MODE)
    assert await _migrate_while_polled(edge, "route-migration.example.com") == 0


async def _migrate_while_polled(edge: Edge, host: str) -> int:
    """Migrate the hostname from one lease to another and back. Returns how many requests failed meanwhile."""
    first, second = await edge.deploy(_document(host, version=1)), await edge.deploy(_document(host, version=2))
    await edge.until_answers(f"http://{host}/")
    async with edge.polling(host) as printed:
        for version, rented in ((2, second), (1, first)):
            await asyncio.sleep(1)
            await edge.migrate(host, rented)
            await edge.until_only(host, rented, first if rented is second else second)
            await edge.until_version(version, host)
    asked, failed = _counted(printed)
    print(f"{edge.kind}, {host}: of {asked} requests, one each {PAUSE_MS} ms, {failed} failed in two migrations")
    await edge.close(first)
    await edge.close(second)
    assert asked > FEWEST
    return failed


async def _effects(edge: Edge, host: str) -> Mapping[str, object]:
    """What a client sees of a lease with OPTIONS."""
    rented = await edge.deploy(_document(host, http_options=OPTIONS))
    page = f"http://{host}/"
    await edge.until_answers(page)
    await edge.status(f"http://{host}/often?status=503")
    printed = await edge.site.kubectl("-n", namespace_name(rented.lease), "logs", "deployment/web")
    seen: Mapping[str, object] = {
        "900 bytes": await edge.status(page, "--data", "x" * 900),
        "1100 bytes": await edge.status(page, "--data", "x" * 1100),
        "after 1 s": await edge.status(f"{page}?wait=1"),
        "after 5 s": await edge.status(f"{page}?wait=5"),
        "tries of a 503": printed.stdout.count("GET /often "),
    }
    await edge.close(rented)
    return seen


async def _update_while_polled(edge: Edge, host: str) -> None:
    rented = await edge.deploy(_document(host, replicas=2))
    await edge.until_answers(f"http://{host}/")
    async with edge.polling(host) as printed:
        await asyncio.sleep(1)
        await edge.site.update(edge.site.world, rented, _document(host, version=2, replicas=2))
        await asyncio.sleep(2)
    asked, failed = _counted(printed)
    print(f"{edge.kind}, {host}: of {asked} requests {failed} failed")
    assert "version 2" in (await edge.ask(f"http://{host}/")).stdout
    await edge.close(rented)
    assert asked > FEWEST
    assert failed * PAUSE_MS < 4000


def _counted(printed: list[str]) -> tuple[int, int]:
    asked, failed = re.findall(r"^asked (\d+) failed (\d+)", printed[0], re.M)[0]
    return int(asked), int(failed)
