"""An update rolls while clients outside go on asking; what they lose is counted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import pytest

from devnet.node.network import NODE_PUBLIC_ADDRESS
from lease.sdl import Sdl
from tests.whole.conftest import Rented, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import document, expose, service

pytestmark = MARKS

LONGEST_S = 200
PAUSE_MS = 20
Lost = Mapping[str, tuple[int, int]]
"""Way in to how many requests a client made and how many of them failed."""


def _version(number: int, *, replicas: int) -> Sdl:
    """Two services: only `web` differs from version to version."""
    front = f"front{replicas}"
    web = service(
        expose(80, accept=[_host(replicas)]),
        expose(8443, external=443, ip=front),
        expose(53, ip=front, proto="udp"),
        expose(9000),
        count=replicas,
        env=[f"STANDIN_VERSION={number}"],
    )
    return document({"web": web, "db": service(expose(5432, "web"))}, endpoints=[front])


def _host(replicas: int) -> str:
    return f"updates-{replicas}.example.com"


async def ahead(site: Site) -> tuple[Rented, Rented]:
    """Version 1 with one replica and with two."""
    one, two = await asyncio.gather(*(_rent(site, replicas) for replicas in (1, 2)))
    return one, two


async def _rent(site: Site, replicas: int) -> Rented:
    rented = await rent(site.world, _version(1, replicas=replicas))
    await deploy(site.world, site.provider, rented)
    return rented


@pytest.mark.long
async def test_an_update_costs_the_seconds_between_two_pods_of_one_replica_and_little_with_two(site: Site) -> None:
    leases: tuple[Rented, Rented] = await site.ahead[__name__]
    one, two = await asyncio.gather(*(_update(site, lease, replicas=n) for n, lease in enumerate(leases, start=1)))
    for replicas, lost in ((1, one), (2, two)):
        print(f"replicas {replicas}, requests and how many of them failed: {lost}")
    assert one["leased address, UDP"][1] > 0, f"not asked while the pod was replaced: {one}"
    assert all(failed * PAUSE_MS < 8000 for _, failed in one.values()), one
    # Nothing holds a pod's end back until the proxies know of it, and no probe says when its successor listens.
    assert all(failed * PAUSE_MS < 4000 for _, failed in two.values()), two


async def _update(site: Site, rented: Rented, *, replicas: int) -> Lost:
    """Poll version 1 from outside by every way in, roll version 2 out meanwhile, and close."""
    status = await site.lease_status(site.world, rented.deployment)
    leased = status["ips"]["web"][0]["IP"]
    port = next(item["externalPort"] for item in status["forwarded_ports"]["web"] if item["port"] == 9000)
    page, host = f"http://{NODE_PUBLIC_ADDRESS}/", _host(replicas)
    others = await site.pods(rented.lease, "db")
    await _until_answers(site, f"http://{leased}:443/")
    pace = (str(PAUSE_MS), str(LONGEST_S))
    async with (
        site.asking("poll", page, *pace, host) as by_hostname,
        site.asking("poll", f"http://{leased}:443/", *pace) as by_address,
        site.asking("poll", f"http://{NODE_PUBLIC_ADDRESS}:{port}/", *pace) as by_port,
        site.asking("probe", *pace, f"udp:{leased}:53") as by_datagram,
    ):
        await asyncio.sleep(1)
        await site.update(site.world, rented, _version(2, replicas=replicas))
        await asyncio.sleep(2)
    ways = {"hostname": by_hostname, "leased address, TCP": by_address, "node port": by_port}
    lost = {name: _lost(printed[0]) for name, printed in {**ways, "leased address, UDP": by_datagram}.items()}
    answer = await site.outside("curl", "-sS", "-m", "5", "-H", f"Host: {host}", page)
    assert "version 2" in answer.stdout, answer
    assert await site.pods(rented.lease, "db") == others, "a service that did not change was rolled too"
    site.close(rented)
    return lost


def _lost(printed: str) -> tuple[int, int]:
    asked, kind, count = re.findall(r"^asked (\d+) (failed|opened) (\d+)", printed, re.M)[0]
    return int(asked), int(count) if kind == "failed" else int(asked) - int(count)


async def _until_answers(site: Site, url: str) -> None:
    """A leased address is announced a little after the pods run."""
    answer = await site.outside(
        "curl", "-sS", "--retry", "20", "--retry-all-errors", "--retry-delay", "1", "-m", "2", url
    )
    assert "hello from" in answer.stdout, answer
