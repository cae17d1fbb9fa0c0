"""The reason of a lease's trouble in what its tenant reads at the gateway."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from provider.gateway.config import GatewayConfig
from provider.gateway.errors import RequestError
from provider.gateway.lease_objects import LeaseObjects
from provider.gateway.lease_status import lease_status
from provider.gateway.rest.tenant_routes import lease_routes
from provider.lifecycle.state import Phase, tenant_text
from provider.protocols.cluster import DEPLOYMENT
from tests.provider.lifecycle.world import OTHER, PROVIDER, World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

L = a_lease()
WHY = "degraded: service web: 0 of 1 ready"


def test_a_lease_status_has_errors_only_when_something_is_wrong() -> None:
    healthy = lease_status(a_group(), LeaseObjects(manifest={}), public_hostname="", leased_ips=False)
    ailing = lease_status(a_group(), LeaseObjects(manifest={}, trouble=WHY), public_hostname="", leased_ips=False)
    assert "errors" not in healthy and ailing == healthy | {"errors": [WHY]}


@pytest.mark.parametrize(
    ("namespace", "words"), [(False, "kube: lease not found"), (True, "kube: no deployments for lease")]
)
@pytest.mark.parametrize("trouble", ["", "failed: volume data cannot change"])
async def test_a_first_version_that_failed_says_why_where_there_is_nothing_to_show(
    trouble: str, words: str, *, namespace: bool
) -> None:
    async def read(lease: object) -> LeaseObjects:
        return LeaseObjects(manifest={}, namespace=namespace, trouble=trouble)

    async def stored(lease: object) -> None:
        return None

    config = GatewayConfig(provider=PROVIDER, data_dir=Path("unused"))
    (route,) = (route for route in lease_routes(config, read, stored) if route.pattern.endswith("{oseq}/status"))
    with pytest.raises(RequestError) as refused:
        await route.handler(SimpleNamespace(lease=a_lease()))  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.text) == (404, f"{words}: {trouble}" if trouble else words)


async def test_a_restart_keeps_since_when_a_state_lasts_and_that_the_application_has_run() -> None:
    world = World()
    await world.run(L, a_group())
    (deployment,) = await world.cluster.list(DEPLOYMENT)
    world.cluster.make_ready(deployment, 0)
    await world.check(L)
    before = world.reconciler.statuses[L]
    assert before.phase is Phase.DEGRADED
    await world.elapse(100)
    world.restart()
    world.loop.recall([before])
    await world.check(L)
    assert world.reconciler.statuses[L] == before
    await world.elapse(100)
    world.cluster.make_ready(deployment)
    await world.check(L)
    after = world.reconciler.statuses[L]
    assert (after.phase, after.since) == (Phase.RUNNING, before.since + 200)


async def test_a_restart_without_the_database_begins_anew() -> None:
    world = World()
    await world.run(L, a_group())
    before = world.reconciler.statuses[L]
    await world.elapse(100)
    world.restart()
    await world.check(L)
    assert world.reconciler.statuses[L].since == before.since + 100


async def test_a_tenant_does_not_read_the_providers_settings_and_records() -> None:
    world = World(ip_ranges=("203.0.113.1-203.0.113.1",))
    await world.run(a_lease(2, owner=OTHER), a_group(ip="meow"))
    await world.win(L, a_group(ip="meow"))
    outcome = await world.check(L)
    assert "ip-ranges (203.0.113.1-203.0.113.1)" in outcome.reason
    text = "blocked: no leased address is free; the lease gets the first one that is"
    assert tenant_text(world.reconciler.statuses[L]) == text
