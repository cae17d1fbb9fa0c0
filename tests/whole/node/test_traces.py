"""After its close nothing of a lease is left on the node, wherever pods, volumes and Services put something."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from devnet.node import own_enclosure
from tests.whole.conftest import close, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import Fields, document, expose, service
from tests.whole.node.traces import KINDS, node_traces

pytestmark = MARKS
LONGEST_S = 60
OF_A_PULL = {"image lease"}
"""Kinds that a lease has only while an image is pulled."""


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


async def test_after_the_close_of_a_lease_nothing_of_it_is_left_on_the_node(site: Site) -> None:
    folder = own_enclosure()
    await site.begun()
    before = await _traces(folder)
    rented = await rent(site.world, document(_everything(), endpoints=["front"]))
    await deploy(site.world, site.provider, rented)
    made = await _traces(folder) - before
    unseen = set(KINDS) - OF_A_PULL - {trace.partition(":")[0] for trace in made}
    assert not unseen, "this test is blind"
    await close(site.world, site.provider, rented)
    await _await_end(folder, made)


async def _await_end(folder: Path, made: frozenset[str]) -> None:
    """Return when none of these traces is left; print how long that took after the lease was closed."""
    start = time.monotonic()
    while left := made & await _traces(folder):
        assert time.monotonic() < start + LONGEST_S, "\n".join(sorted(left))
        await asyncio.sleep(0.2)
    print(f"{len(made)} traces of the lease; the last was gone {time.monotonic() - start:.1f} s after its close")


async def _traces(folder: Path) -> frozenset[str]:
    return await asyncio.to_thread(node_traces, folder)
