"""The main job on a real node: an SDL becomes a page that answers; after its end nothing answers or is left."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_asyncio

from devnet.demo.leftovers import leftovers
from devnet.node import own_enclosure
from devnet.node.network import NODE_PUBLIC_ADDRESS
from lease.ids import namespace_name
from lease.sdl import Sdl
from tests.whole.conftest import Rented, close, deploy, rent, sdl_of
from tests.whole.node.conftest import MARKS, Done, Site
from tests.whole.node.documents import Fields, document, expose, service
from tests.whole.node.traces import KINDS, node_traces

pytestmark = MARKS
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LONGEST_S = 60
OF_A_PULL = {"image lease"}
"""Kinds that a lease has only while an image is pulled."""
WAYS = ("hostname", "leased address", "node port")


@dataclass(frozen=True, slots=True)
class Job:
    """What was seen of two leases, of which the first is the demo's, from their orders to the end of their traces."""

    running: Mapping[str, Done]
    closed: Mapping[str, Done]
    """Each of WAYS to the demo's page, with the answer while the lease ran and after its end."""
    between: Done
    """A connection from one service of the demo to the other."""
    leftovers: Sequence[str]
    made: frozenset[str]
    left: frozenset[str]
    """The leases' traces on the node: while they ran, and of those what LONGEST_S did not remove."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def job(site: Site) -> Job:
    """One life of both leases at once: alone each would take as long."""
    folder = own_enclosure()
    await site.begun()
    before, reserved = await _traces(folder), await leftovers(site.world)
    documents = (sdl_of(EXAMPLES / "demo.yaml"), document(_everything(), endpoints=["front"]))
    leases = await asyncio.gather(*(_lease(site, sdl) for sdl in documents))
    ways, namespace = await _ways(site, leases[0]), namespace_name(leases[0].lease)
    retried = ("--retry", "5", "--retry-all-errors", "-m", "5")
    running = {name: await site.outside("curl", "-sS", *retried, *ways[name]) for name in WAYS}
    between = await site.inside(namespace, "web", "standin", "dial", "db:5432")
    made = await _traces(folder) - before
    await asyncio.gather(*(close(site.world, site.provider, rented) for rented in leases))
    remaining = set(await leftovers(site.world, *(rented.lease for rented in leases))) - set(reserved)
    closed = {name: await site.outside("curl", "-sS", "-m", "2", *ways[name]) for name in WAYS}
    return Job(running, closed, between, sorted(remaining), made, await _left(folder, made))


async def test_a_lease_answers_by_hostname_leased_address_and_node_port_until_it_is_closed(job: Job) -> None:
    for name, answer in job.running.items():
        assert "hello from web-" in answer.stdout, f"{name}: {answer}"
    assert job.between.stdout.split() == ["OPEN", "db:5432"]
    assert job.leftovers == []
    for name, answer in job.closed.items():
        assert "hello from" not in answer.stdout, f"{name} still answers after the end"


async def test_after_the_close_of_a_lease_nothing_of_it_is_left_on_the_node(job: Job) -> None:
    unseen = set(KINDS) - OF_A_PULL - {trace.partition(":")[0] for trace in job.made}
    assert not unseen, "this test is blind"
    assert job.left == frozenset()


async def _lease(site: Site, sdl: Sdl) -> Rented:
    rented = await rent(site.world, sdl)
    await deploy(site.world, site.provider, rented)
    return rented


async def _ways(site: Site, rented: Rented) -> Mapping[str, Sequence[str]]:
    """Each of WAYS to the demo's page, as arguments of curl."""
    gateway = await site.world.tenant.gateway(site.world.provider)
    status: Any = json.loads((await gateway.lease_status(rented.deployment.dseq)).body)
    leased, port = status["ips"]["web"][0], status["forwarded_ports"]["web"][0]["externalPort"]
    return {
        "hostname": ("-H", "Host: web.demo.example.com", f"http://{NODE_PUBLIC_ADDRESS}/"),
        "leased address": (f"http://{leased['IP']}:{leased['ExternalPort']}/",),
        "node port": (f"http://{NODE_PUBLIC_ADDRESS}:{port}/",),
    }


def _everything() -> dict[str, Fields]:
    """A lease that has whatever an SDL can ask a node for."""
    ram = {"name": "cache", "size": "8Mi", "attributes": {"persistent": False, "class": "ram"}}
    disk = {"name": "data", "size": "16Mi", "attributes": {"persistent": True, "class": "beta3"}}
    mounts = {"cache": {"mount": "/cache"}, "data": {"mount": "/data"}}
    exposes = (
        expose(80, accept=["traces.example.com"]),
        expose(8443, external=443, ip="front"),
        expose(53, ip="front", proto="udp"),
        expose(9000),
    )
    return {
        "web": service(*exposes, count=2),
        "db": service(expose(5432, "web"), storage=[{"size": "64Mi"}, ram, disk], params={"storage": mounts}),
    }


async def _left(folder: Path, made: frozenset[str]) -> frozenset[str]:
    """The traces that are left after LONGEST_S; prints when the last one was gone after the close of the leases."""
    start = time.monotonic()
    while (left := made & await _traces(folder)) and time.monotonic() < start + LONGEST_S:
        await asyncio.sleep(0.2)
    print(f"{len(made)} traces of two leases; the last was gone {time.monotonic() - start:.1f} s after their close")
    return left


async def _traces(folder: Path) -> frozenset[str]:
    return await asyncio.to_thread(node_traces, folder)
