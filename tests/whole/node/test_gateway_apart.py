"""The gateway in a process of its own on a real node, with a certificate that the provider orders through the edge.

The CA runs outside. It asks for the challenge at port 80 of the provider's name, which is the node's edge; the route of
`examples/certificate` leads from there to the provider.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from devnet.demo.leftovers import leftovers
from devnet.node.network import NODE_ADDRESS, NODE_PUBLIC_ADDRESS
from provider.settings import GatewayForm
from tests.provider.gateway.issuer.pebble import NAME, Pebble, running_pebble
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.gateways import BEHIND_EDGE, Apart, running_apart
from tests.whole.node.conftest import MARKS, Done, Site
from tests.whole.node.documents import small
from tests.whole.node.readers import until
from tests.whole.node.test_streams import shell
from tests.whole.node.test_streams import until as until_line
from tests.whole.streams import opened
from tests.world.patience import PATIENCE_S

pytestmark = [*MARKS, pytest.mark.long]
CHALLENGES = Path(__file__).resolve().parents[3] / "examples" / "certificate" / "challenges.yaml"
COUNTS = "i=0; while true; do i=$((i+1)); echo line $i of it; sleep 0.2; done"


@asynccontextmanager
async def apart(site: Site, form: GatewayForm, **settings: str) -> AsyncIterator[Apart]:
    """The site's provider with a gateway of its own process; as it was, afterwards."""
    await site.begun()
    await site.provider.stop()
    try:
        async with running_apart(site.world, form, **settings) as both:
            site.provider = both.provider
            yield both
    finally:
        site.provider = await site.world.run_provider(seconds=2 * PATIENCE_S)


async def lease_of(site: Site, both: Apart) -> Rented:
    """A lease with a page and a log, both seen by its tenant."""
    rented = await rent(site.world, small(web={}, db={"command": ["sh", "-c", COUNTS]}))
    await deploy(site.world, both.provider, rented)
    gateway = await site.world.tenant.gateway(site.world.provider)
    status = json.loads((await gateway.lease_status(rented.lease.dseq)).body)
    assert {name: service["available"] for name, service in status["services"].items()} == {"db": 1, "web": 1}
    host = status["services"]["web"]["uris"][0]
    asked = ("curl", "-sS", "-m", "5", "-H", f"Host: {host}", f"http://{NODE_PUBLIC_ADDRESS}/")

    async def answers() -> bool:
        return "hello from web-" in (await site.outside(*asked)).stdout

    await until(answers, "the page of the lease")
    assert (await shell(site, rented, "echo", "there"))[0] == b"dthere\n"
    return rented


async def end(site: Site, both: Apart, rented: Rented) -> None:
    await close(site.world, both.provider, rented)
    assert await leftovers(site.world, rented.lease) == ()


async def test_a_page_a_status_a_shell_and_logs_go_through_a_child_that_serves_what_the_ca_has_issued(
    site: Site, tmp_path: Path
) -> None:
    await site.apply(*(yaml.safe_load_all(CHALLENGES.read_text().replace("192.0.2.10", NODE_ADDRESS))))
    async with (
        running_pebble(tmp_path / "ca", place=BEHIND_EDGE) as ca,
        apart(site, GatewayForm.CHILD, **_ordering(ca)) as both,
    ):
        rented = await lease_of(site, both)
        async with opened(site.world, rented, "logs?follow=true&service=db") as socket:
            assert len(await until_line(socket, "line 3 ")) >= 3
        await both.provider.wait_for("gateway.certificate_issued", seconds=PATIENCE_S)
        root = tmp_path / "root.pem"
        root.write_bytes(await ca.root())

        async def browser_trusts_it() -> bool:
            return (await _version_from_outside(site, "--cacert", str(root))).status == 0

        await until(browser_trusts_it, "a certificate that a client trusts which knows the CA alone")
        await end(site, both, rented)
    await site.kubectl("delete", "-f", str(CHALLENGES))


async def test_a_log_is_followed_through_a_separate_gateway_while_the_provider_restarts(site: Site) -> None:
    async with apart(site, GatewayForm.SEPARATE) as both:
        rented = await lease_of(site, both)
        async with opened(site.world, rented, "logs?follow=true&service=db&tail=0") as socket:
            first = await until_line(socket, "line ")
            assert await both.provider.stop() == 0
            away = await until_line(socket, f"line {_number(first[-1]) + 20} ")
            await both.start_provider()
            site.provider = both.provider
            again = await until_line(socket, f"line {_number(away[-1]) + 20} ")
        numbers = [_number(line) for line in (*first, *away, *again)]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no line is missing, none comes twice"
        await end(site, both, rented)


def _ordering(ca: Pebble) -> dict[str, str]:
    """Challenges are answered at the default address, which is the port of the route."""
    return {
        "AP_CERT_ISSUER_ENABLED": "true",
        "AP_CERT_ISSUER_CA_DIR_URL": ca.directory,
        "LESSOR_CERT_ISSUER_CA_FILE": str(ca.roots),
    }


async def _version_from_outside(site: Site, *options: str) -> Done:
    port = site.world.gateway_port
    resolved = ("--resolve", f"{NAME}:{port}:{NODE_PUBLIC_ADDRESS}")
    return await site.outside("curl", "-sS", "-m", "5", *options, *resolved, f"https://{NAME}:{port}/version")


def _number(line: tuple[str, str]) -> int:
    return int(line[1].split()[1])
