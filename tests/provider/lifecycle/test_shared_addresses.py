"""The address that two leases of one owner share, and its pool, when the leases end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest

from lease.ids import LeaseId
from provider.protocols.chain import LeaseState
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.cluster import unreachable

pytestmark = pytest.mark.virtual_time

SHARING = (a_lease(1), a_lease(2))
SHARED_GROUPS = {SHARING[0]: a_group(ip="meow", ip_port=80), SHARING[1]: a_group(ip="meow", ip_port=81)}


@pytest.mark.parametrize("order", [(0, 1), (1, 0), "at once"], ids=str)
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed between"])
async def test_the_pool_of_a_shared_address_goes_with_its_last_lease_whichever_that_is(
    order: tuple[int, int] | str, killed: bool
) -> None:
    """`killed`: the provider dies at every second write to the cluster, and starts again."""
    world = World()
    for lease in SHARING:
        await world.run(lease, SHARED_GROUPS[lease])
    assert len(world.pools()) == 2
    if order == "at once":
        for lease in SHARING:
            world.chain.put_lease(lease, LeaseState.CLOSED)
        await _end(world, SHARING, killed=killed)
    else:
        first, last = (SHARING[int(number)] for number in order)
        world.chain.put_lease(first, LeaseState.CLOSED)
        await _end(world, [first], killed=killed)
        assert len(world.pools()) == 2 and world.leftovers(first) == []
        world.chain.put_lease(last, LeaseState.CLOSED)
        await _end(world, [last], killed=killed)
    assert world.pools() == [] and not any(map(world.leftovers, SHARING))


async def _end(world: World, leases: Sequence[LeaseId], *, killed: bool) -> None:
    """Check the leases in turns until nothing is left, each check from a new life when `killed`."""
    written = count()

    def dies(operation: str, kind: str, name: str) -> None:
        if killed and operation in ("apply", "delete", "patch") and next(written) % 2:
            raise unreachable()

    world.cluster.before = dies
    for _ in range(40):
        await asyncio.gather(*(world.check(lease) for lease in leases))
        world.cluster.settle()
        if killed:
            world.restart()
    world.cluster.before = lambda *_: None
    for lease in leases:
        await world.converge(lease)
    if killed:
        await world.parts.claims.remove_unused_pools()  # as each check of all leases does
