"""The main job on a real node: an SDL becomes a page that answers, and after its end nothing answers any more."""

from __future__ import annotations

import json
from pathlib import Path

from devnet.demo.leftovers import leftovers
from devnet.node.network import NODE_PUBLIC_ADDRESS
from lease.ids import namespace_name
from tests.whole.conftest import close, deploy, rent, sdl_of
from tests.whole.node.conftest import MARKS, Site

pytestmark = MARKS
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


async def test_a_lease_answers_by_hostname_leased_address_and_node_port_until_it_is_closed(site: Site) -> None:
    world, provider = site.world, site.provider
    await site.begun()
    reserved = await leftovers(world)
    rented = await rent(world, sdl_of(EXAMPLES / "demo.yaml"))
    await deploy(world, provider, rented)
    gateway = await world.tenant.gateway(world.provider)
    status = json.loads((await gateway.lease_status(rented.deployment.dseq)).body)
    leased = status["ips"]["web"][0]
    port = status["forwarded_ports"]["web"][0]["externalPort"]
    by_host = ("-H", "Host: web.demo.example.com", f"http://{NODE_PUBLIC_ADDRESS}/")
    ways = {
        "hostname": by_host,
        "leased address": (f"http://{leased['IP']}:{leased['ExternalPort']}/",),
        "node port": (f"http://{NODE_PUBLIC_ADDRESS}:{port}/",),
    }
    for name, arguments in ways.items():
        answer = await site.outside("curl", "-sS", "--retry", "5", "--retry-all-errors", "-m", "5", *arguments)
        assert "hello from web-" in answer.stdout, f"{name}: {answer}"
    namespace = namespace_name(rented.lease)
    assert (await site.inside(namespace, "web", "standin", "dial", "db:5432")).stdout.split() == ["OPEN", "db:5432"]
    await close(world, provider, rented)
    assert set(await leftovers(world, rented.lease)) <= set(reserved)
    for name, arguments in ways.items():
        answer = await site.outside("curl", "-sS", "-m", "2", *arguments)
        assert "hello from" not in answer.stdout, f"{name} still answers after the end"
