"""The cool-down of a released hostname before another owner may take it (field problem J1)."""

from __future__ import annotations

import pytest

from lease.ids import LeaseId
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError, HostnameRules
from provider.claims.released import Release, read_releases, releases_object
from provider.errors import ClusterError
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import PROVIDER_HOST, SECRET
from tests.provider.lifecycle.world import OTHER, OWNER, World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

FIRST, AGAIN, THEIRS = a_lease(1), a_lease(2), a_lease(3, owner=OTHER)
HOST = "a.example.com"
GROUP = a_group(hosts=[HOST])
HOUR = 3600.0


async def released(cooldown_s: float = HOUR) -> World:
    """FIRST had the hostname, and has ended."""
    world = World(hostnames=HostnameRules(cooldown_s=cooldown_s))
    await world.run(FIRST, GROUP)
    await end(world, FIRST)
    assert world.cluster.named(PROVIDER_HOST) == []
    return world


async def end(world: World, lease: LeaseId) -> None:
    world.chain.put_lease(lease, LeaseState.CLOSED)
    await world.converge(lease)


async def test_another_owner_is_refused_until_the_time_is_over_and_reads_when_that_is() -> None:
    world = await released()
    world.restart()
    await world.win(THEIRS, GROUP)
    outcome = await world.converge(THEIRS)
    assert outcome.phase is Phase.BLOCKED
    assert f'host "{HOST}" was released by another account, and may be taken from ' in outcome.reason
    assert OWNER not in outcome.reason
    await world.elapse(HOUR + 1)
    assert (await world.converge(THEIRS)).phase is Phase.RUNNING


async def test_the_same_owner_takes_the_hostname_at_once() -> None:
    world = await released()
    await world.run(AGAIN, GROUP)
    assert world.cluster.named(PROVIDER_HOST) == [HOST]
    await end(world, AGAIN)
    await world.win(THEIRS, GROUP)
    assert (await world.converge(THEIRS)).phase is Phase.BLOCKED


async def test_a_hostname_that_a_manifest_drops_is_released_too() -> None:
    world = World(hostnames=HostnameRules(cooldown_s=HOUR))
    await world.run(FIRST, GROUP)
    await world.send(FIRST, a_group())
    await world.converge(FIRST)
    await world.win(THEIRS, GROUP)
    assert (await world.converge(THEIRS)).phase is Phase.BLOCKED


async def test_without_a_cool_down_nothing_is_noted() -> None:
    world = await released(0.0)
    assert world.cluster.find(SECRET, "released-hostnames", "lease") is None
    await world.win(THEIRS, GROUP)
    assert (await world.converge(THEIRS)).phase is Phase.RUNNING


async def test_a_claim_stays_until_its_release_is_noted() -> None:
    world = World(hostnames=HostnameRules(cooldown_s=HOUR))
    await world.run(FIRST, GROUP)
    world.chain.put_lease(FIRST, LeaseState.CLOSED)

    def fail(operation: str, kind: str, name: str) -> None:
        if name == "released-hostnames" and operation == "apply":
            raise ClusterError("https://fake", "no luck", status=500)

    world.cluster.before = fail
    for _ in range(3):
        await world.check(FIRST)
    assert world.cluster.named(PROVIDER_HOST) == [HOST]
    world.cluster.before = lambda operation, kind, name: None
    await world.converge(FIRST)
    assert world.cluster.named(PROVIDER_HOST) == []


async def test_a_lease_that_never_had_the_hostname_cannot_migrate_it_from_the_cool_down() -> None:
    world = await released()
    await world.run(THEIRS, a_group())
    with pytest.raises(HostnameRefusedError, match="was released by another account"):
        await world.parts.claims.migrate_hosts(THEIRS, [HostnameClaim(HOST, THEIRS, "web", 80)])


@pytest.mark.parametrize("data", [None, {}, {"releases": "!"}, {"releases": "e30="}, {"releases": "W10="}])
def test_a_record_that_cannot_be_read_keeps_no_hostname(data: object) -> None:
    assert read_releases({"data": data}) == {}


def test_the_record_keeps_the_newest_releases() -> None:
    before = {f"{number}.example.com": Release(OWNER, float(number)) for number in range(6000)}
    kept = read_releases(releases_object(before, [HOST], OTHER, until=1e9, namespace="lease"))
    assert len(kept) == 5000 and kept[HOST] == Release(OTHER, 1e9) and "999.example.com" not in kept
