"""What says it is a lease's and is not: another builder's objects, of which the state was lost."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lease.ids import namespace_name
from provider.lifecycle.drift import NETWORK_POLICY
from provider.lifecycle.state import Phase
from provider.protocols.cluster import DEPLOYMENT, SECRET, SERVICE, STATEFUL_SET, Kind
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

LEASE = a_lease()
SPACE = namespace_name(LEASE)


async def _with(kind: Kind, name: str = "stray", **labels: Any) -> World:
    """A lease that runs, an object more in its namespace, and a provider that starts."""
    world = World()
    await world.run(LEASE, a_group())
    service = world.cluster.find(SERVICE, "web", SPACE)
    assert service is not None
    stray = copy.deepcopy(service) | {"apiVersion": kind.api_version, "kind": kind.kind}
    stray["metadata"] = {"name": name, "namespace": SPACE, "labels": service["metadata"]["labels"] | labels}
    world.cluster.put({key: value for key, value in stray.items() if key != "status"})
    world.engine.calls.clear()
    world.restart()
    return world


async def test_a_network_policy_of_no_stack_is_removed_without_the_engine() -> None:
    world = await _with(kind := NETWORK_POLICY)
    assert (await world.converge(LEASE)).phase is Phase.RUNNING
    assert world.cluster.find(kind, "stray", SPACE) is None
    assert world.cluster.find(SERVICE, "web", SPACE) is not None
    assert world.engine.calls == []


@pytest.mark.parametrize("kind", [STATEFUL_SET, SERVICE, DEPLOYMENT, SECRET], ids=lambda kind: kind.kind)
async def test_a_stray_that_may_serve_what_runs_stays_and_is_reported(kind: Kind) -> None:
    world = await _with(kind)
    for _ in range(2):
        outcome = await world.converge(LEASE)
        assert outcome.phase is Phase.RUNNING
        assert f"{kind.kind} stray" in outcome.reason
    assert world.cluster.find(kind, "stray", SPACE) is not None


@pytest.mark.parametrize(
    "labels", [{"akash.network": "no"}, {"akash.network/lease.id.dseq": "77"}], ids=["not ours", "another lease's"]
)
async def test_what_an_operator_put_there_or_is_labelled_otherwise_stays(labels: dict[str, str]) -> None:
    complete = {
        "akash.network/lease.id.owner": LEASE.owner,
        "akash.network/lease.id.provider": LEASE.provider,
        "akash.network/lease.id.dseq": "1",
        "akash.network/lease.id.gseq": "1",
        "akash.network/lease.id.oseq": "1",
    }
    world = await _with(NETWORK_POLICY, **(complete | labels))
    await world.converge(LEASE)
    assert world.cluster.find(NETWORK_POLICY, "stray", SPACE) is not None


async def test_where_drift_is_only_reported_nothing_is_removed() -> None:
    world = await _with(NETWORK_POLICY)
    world.config = type(world.config)(provider=world.config.provider, chain_id="akashnet-2", repair_drift=False)
    world.restart()
    await world.converge(LEASE)
    assert world.cluster.find(NETWORK_POLICY, "stray", SPACE) is not None
