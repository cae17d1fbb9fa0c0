"""Tenants' hostnames behind the edges that providers run: Ingress-NGINX, and Traefik with the Gateway API too."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from devnet.controlplane.certificates import Certificates
from devnet.errors import ToolsMissing
from devnet.node.edges import PLAIN_CLASS, EdgeKind, edge_settings, edge_tools
from devnet.node.network import NODE_PUBLIC_ADDRESS
from devnet.node.nginx import missing_nginx
from devnet.tools import Toolbox, ensure_tools
from lease.ids import namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.node.conftest import MARKS, Done, Site
from tests.whole.node.documents import document, expose, service
from tests.whole.node.readers import restart_provider, tenant_reads, until

pytestmark = [*MARKS, pytest.mark.long]

GATEWAY_MODE = {"AP_INGRESS_MODE": "gateway-api"}
PUBLISHERS = ("ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
PAUSE_MS = 20
FEWEST = 20
"""Requests of a poll through a change: a busy machine asks less often than each PAUSE_MS, but it goes on asking."""
LONGEST_S = 200
CODE = ("-o", "/dev/null", "-w", "%{http_code}")
"""Arguments of curl that print the status in place of the page."""
PLAIN_MODE = {"LESSOR_EDGE": "traefik-plain", "LESSOR_INGRESS_CLASS": PLAIN_CLASS}
SHORT = {
    "max_body_size": 1000,
    "read_timeout": 2000,
    "next_tries": 3,
    "next_cases": ["error", "timeout", "503"],
    "proxy_buffer_size": 16_384,
}
LONG = {
    "max_body_size": 100_000_000,
    "send_timeout": 2000,
    "next_tries": 6,
    "next_timeout": 2000,
    "next_cases": ["503"],
}
"""Options of a second hostname: those of SHORT would stop the requests that show what these do."""
UNREAD_BYTES = 60_000_000
"""A body that no buffers of the kernel hold while the application reads nothing."""
OBEYED: Mapping[str, object] = {
    "max_body_size": ("200", "413"),
    "read_timeout": ("200", "504"),
    "send_timeout": "504",
    "next_tries": 3,
    "next_timeout": 2,
    "next_cases": (True, 1),
    "proxy_buffer_size": ("200", "502"),
}
IGNORED: Mapping[str, object] = {
    "max_body_size": ("200", "200"),
    "read_timeout": ("200", "200"),
    "send_timeout": "200",
    "next_tries": 1,
    "next_timeout": 1,
    "next_cases": (False, 1),
    "proxy_buffer_size": ("200", "200"),
}

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
            await restart_provider(self.site, **{**edge_settings(self.kind), **mode})
            self.mode = mode

    async def deploy(self, sdl: Sdl) -> Rented:
        rented = await rent(self.site.world, sdl)
        await deploy(self.site.world, self.site.provider, rented)
        return rented

    async def close(self, rented: Rented) -> None:
        await close(self.site.world, self.site.provider, rented)

    async def ask(self, url: str, *arguments: str) -> Done:
        """Fetch a page of `*.example.com` from outside; the name resolves to the node's public address."""
        return await self.site.outside(*curl(url, *arguments))

    async def status(self, url: str, *arguments: str) -> str:
        return (await self.ask(url, *CODE, *arguments)).stdout

    async def status_of_upload(self, url: str, size: int) -> str:
        """The status of a POST of so many bytes."""
        command = shlex.join(curl(url, *CODE, "--data-binary", "@-"))
        return (await self.site.outside("sh", "-c", f"head -c {size} /dev/zero | {command}")).stdout

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


def curl(url: str, *arguments: str) -> Sequence[str]:
    """The command that fetches a page from the node's public address, whatever the name resolves to."""
    host = urlsplit(url).hostname
    resolved = [word for port in (80, 443) for word in ("--resolve", f"{host}:{port}:{NODE_PUBLIC_ADDRESS}")]
    return ["curl", "-sS", "-m", "40", *resolved, *arguments, url]


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


async def test_each_http_option_of_an_ingress_takes_effect_or_is_told(edge: Edge) -> None:
    await edge.provider_in_mode()
    effects, told = await _effects(edge, "ingress-options.example.com")
    assert told == ({"proxy_buffer_size"} if edge.kind is EdgeKind.TRAEFIK else set())
    assert effects == {name: (IGNORED if name in told else OBEYED)[name] for name in OBEYED}


@only_traefik
async def test_each_http_option_of_a_plain_ingress_has_no_effect_and_is_told(edge: Edge) -> None:
    await edge.provider_in_mode(**PLAIN_MODE)
    assert await _effects(edge, "plain-options.example.com") == (IGNORED, set(OBEYED))


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
async def test_each_http_option_of_a_route_has_no_effect_and_is_told(edge: Edge) -> None:
    await edge.provider_in_mode(**GATEWAY_MODE)
    assert await _effects(edge, "route-options.example.com") == (IGNORED, set(OBEYED))


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


async def _effects(edge: Edge, host: str) -> tuple[Mapping[str, object], set[str]]:
    """What a client sees of a lease with SHORT and LONG, by option, and the options that the lease's status names."""
    services = {
        name: service(expose(80, accept=[f"{name}.{host}"], http_options=options))
        for name, options in (("short", SHORT), ("long", LONG))
    }
    rented = await edge.deploy(document(services))
    for name in services:
        await edge.until_answers(f"http://{name}.{host}/")
    seen = await _short_effects(edge, rented, f"http://short.{host}/") | await _long_effects(
        edge, rented, f"http://long.{host}/"
    )
    told = await tenant_reads(edge.site, rented.lease)
    await edge.close(rented)
    return seen, {
        name for names in re.findall(r"does not apply its HTTP options \((.*?)\)", told) for name in names.split(", ")
    }


async def _short_effects(edge: Edge, rented: Rented, page: str) -> dict[str, object]:
    bodies = [await edge.status(page, "--data", "x" * size) for size in (900, 1100)]
    waits = [await edge.status(f"{page}?wait={seconds}") for seconds in (1, 5)]
    of_503, of_500 = [await _tries(edge, rented, "short", f"{page}{code}?status={code}") for code in (503, 500)]
    return {
        "max_body_size": tuple(bodies),
        "read_timeout": tuple(waits),
        "next_tries": of_503,
        "next_cases": (of_503 > 1, of_500),
    }


async def _long_effects(edge: Edge, rented: Rented, page: str) -> dict[str, object]:
    headers = [await edge.status(f"{one}?header=10000") for one in (page.replace("//long.", "//short."), page)]
    return {
        "send_timeout": await edge.status_of_upload(f"{page}?unread=6", UNREAD_BYTES),
        "next_timeout": await _tries(edge, rented, "long", f"{page}late?status=503&wait=1.2"),
        "proxy_buffer_size": tuple(headers),
    }


async def _tries(edge: Edge, rented: Rented, name: str, url: str) -> int:
    """How often the edge asks the application for this page before it answers the client."""
    await edge.status(url)
    printed = await edge.site.kubectl("-n", namespace_name(rented.lease), "logs", f"deployment/{name}")
    return printed.stdout.count(f"GET {urlsplit(url).path} ")


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
