"""Migrations of hostnames and of ports on leased addresses between two leases of one owner (field problem J2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from lease.ids import LeaseId, namespace_name
from lease.manifest import Group
from provider.claims.edge import EdgeAnswer
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError, host_object
from provider.claims.leased_ips import wanted_addresses
from provider.claims.moves import SEQUENCE, SOURCE, Move, read_move
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import INGRESS, MANIFEST, PROVIDER_HOST, PROVIDER_LEASED_IP, SERVICE
from tests.provider.lifecycle.world import OTHER, World, a_group, a_lease
from tests.world.engine import Fault, Killed

pytestmark = pytest.mark.virtual_time

FIRST, SECOND, THIRD = a_lease(1), a_lease(2), a_lease(3)
HOST = "a.example.com"
GROUP = a_group(hosts=[HOST])
ADDRESSED = a_group(ip="meow")


@dataclass
class Edge:
    """Serves what the cluster's routes say; `down`: answers 503 for every hostname."""

    world: World
    down: bool = False
    asked: list[str] = field(default_factory=list)

    async def __call__(self, hostname: str) -> EdgeAnswer:
        self.asked.append(hostname)
        return EdgeAnswer(503 if self.down else 200 if routes(self.world) else 404)


def routes(world: World, host: str = HOST) -> list[int]:
    """The leases (their dseq) whose Ingress serves the hostname."""
    leases = (FIRST, SECOND, THIRD)
    return [lease.dseq for lease in leases if world.cluster.find(INGRESS, host, namespace_name(lease)) is not None]


def ports(world: World) -> dict[int, str]:
    """dseq → the address on which the lease serves."""
    found = {}
    for lease in (FIRST, SECOND):
        service = world.cluster.find(SERVICE, "web-ip-80-tcp", namespace_name(lease))
        if service is not None:
            ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", [])
            found[lease.dseq] = ingress[0]["ip"] if ingress else ""
    return found


async def migrate(world: World, lease: LeaseId) -> None:
    await world.parts.claims.migrate_hosts(lease, [HostnameClaim(HOST, lease, "web", 80)])


async def migrate_port(world: World, lease: LeaseId) -> None:
    await world.parts.claims.migrate_ports(lease, wanted_addresses(lease, ADDRESSED))


def claim(world: World) -> Mapping[str, str]:
    """dseq of the holder, sequence number and source of the claim on HOST."""
    obj = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert obj is not None
    move = read_move(obj)
    source = str(move.source.dseq) if move.source else ""
    return {"holder": str(obj["spec"]["dseq"]), "sequence": str(move.sequence), "from": source}


async def rounds(world: World, count: int = 12, *, restart: bool = False) -> list[list[int]]:
    """Check both leases again and again, a second apart; the routes after each check, without repetitions."""
    seen = [routes(world)]
    for _ in range(count):
        for lease in (FIRST, SECOND, THIRD):
            if world.cluster.find(MANIFEST, namespace_name(lease), "lease") is None:
                continue
            await world.check(lease)
            if routes(world) != seen[-1]:
                seen.append(routes(world))
            world.cluster.settle()
            if restart:
                since = world.parts.claims._served_since
                world.restart()
                world.parts.claims._served_since = since
        await world.elapse(1)
    return seen


async def two_leases(*, overlap: bool, group: Group = GROUP) -> World:
    world = World(routes_overlap=overlap)
    world.ask = Edge(world)
    world.restart()
    await world.run(FIRST, group)
    await world.run(SECOND, group)
    return world


@pytest.mark.parametrize("restart", [False, True])
async def test_where_two_routes_may_share_a_host_the_new_one_answers_before_the_old_one_goes(restart: bool) -> None:
    world = await two_leases(overlap=True)
    await migrate(world, SECOND)
    assert claim(world) == {"holder": "2", "sequence": "2", "from": "1"}
    assert await rounds(world, restart=restart) == [[1], [1, 2], [2]]
    assert claim(world) == {"holder": "2", "sequence": "2", "from": ""}


@pytest.mark.parametrize("restart", [False, True])
async def test_where_the_edge_refuses_a_second_route_the_old_one_goes_first(restart: bool) -> None:
    world = await two_leases(overlap=False)
    await migrate(world, SECOND)
    assert await rounds(world, restart=restart) == [[1], [], [2]]
    assert claim(world) == {"holder": "2", "sequence": "2", "from": ""}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 20])
async def test_a_migration_is_reversed_at_any_moment(overlap: bool, steps: int) -> None:
    world = await two_leases(overlap=overlap)
    await migrate(world, SECOND)
    await rounds(world, steps)
    await migrate(world, FIRST)
    seen = await rounds(world)
    assert seen[-1] == [1] and claim(world) == {"holder": "1", "sequence": "3", "from": ""}
    if overlap:
        assert [] not in seen
    else:
        assert [1, 2] not in seen


@pytest.mark.parametrize("overlap", [False, True])
async def test_a_hostname_goes_on_to_a_third_lease_while_it_migrates(overlap: bool) -> None:
    world = await two_leases(overlap=overlap)
    await world.run(THIRD, GROUP)
    await migrate(world, SECOND)
    await world.check(FIRST)
    await migrate(world, THIRD)
    seen = await rounds(world)
    assert seen[-1] == [3] and claim(world)["holder"] == "3" and claim(world)["from"] == ""
    assert ([] not in seen) if overlap else all(len(one) < 2 for one in seen)


async def test_the_old_lease_serves_until_the_edge_answers_for_the_new_one() -> None:
    world = await two_leases(overlap=True)
    edge = world.ask = Edge(world, down=True)
    world.restart()
    await migrate(world, SECOND)
    assert await rounds(world, 30) == [[1], [1, 2]]
    status = world.reconciler.statuses[SECOND]
    assert "hostname a.example.com is still served by the lease that had it: the edge answers 503" in status.reason
    edge.down = False
    assert await rounds(world) == [[1, 2], [2]]


async def test_the_old_lease_serves_while_the_new_one_does_not_run() -> None:
    world = await two_leases(overlap=True)
    for obj in list(world.cluster.objects.values()):
        if obj["kind"] == "Deployment" and obj["metadata"]["namespace"] == namespace_name(SECOND):
            world.cluster.make_ready(obj, 0)
    world.cluster.settle = lambda **_: None  # type: ignore[method-assign]
    await migrate(world, SECOND)
    assert await rounds(world, 30) == [[1], [1, 2]]
    assert "this lease does not run yet" in world.reconciler.statuses[SECOND].reason


@pytest.mark.parametrize("overlap", [False, True])
async def test_a_migrated_hostname_does_not_return_by_itself_when_its_new_lease_ends(overlap: bool) -> None:
    world = await two_leases(overlap=overlap)
    await migrate(world, SECOND)
    await rounds(world)
    world.restart()
    world.chain.put_lease(SECOND, LeaseState.CLOSED)
    await world.converge(SECOND)
    outcome = await world.converge(FIRST)
    assert routes(world) == [] and outcome.phase is Phase.RUNNING
    assert "a.example.com is not served: it was migrated to another lease" in outcome.reason
    await world.send(FIRST, GROUP)
    world.reconciler.manifest_sent(FIRST)
    await world.converge(FIRST)
    assert routes(world) == [1] and claim(world)["holder"] == "1"


async def test_a_lease_whose_hostname_went_to_another_owner_meanwhile_runs_on() -> None:
    world = await two_leases(overlap=True)
    await migrate(world, SECOND)
    await rounds(world)
    world.chain.put_lease(SECOND, LeaseState.CLOSED)
    await world.converge(SECOND)
    await world.run(a_lease(9, owner=OTHER), GROUP)
    outcome = await world.converge(FIRST)
    assert (outcome.phase, outcome.reason) == (
        Phase.RUNNING,
        f"hostname {HOST} is not served: another lease has it",
    )


@pytest.mark.parametrize("overlap", [False, True])
async def test_a_lease_that_goes_back_to_its_previous_version_gives_the_hostname_up(overlap: bool) -> None:
    world = await two_leases(overlap=overlap)
    world.engine.refused["bad"] = "is invalid: no"
    await world.send(FIRST, a_group("bad", hosts=[HOST]))
    await world.converge(FIRST)
    assert world.reconciler.statuses[FIRST].phase is Phase.UPDATE_FAILED and routes(world) == [1]
    await migrate(world, SECOND)
    assert (await rounds(world, 30))[-1] == [2]
    assert world.reconciler.statuses[FIRST].phase is Phase.UPDATE_FAILED and world.image(FIRST) == "nginx:1"


async def test_the_watch_of_claims_alone_carries_a_migration_through() -> None:
    world = await two_leases(overlap=False)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.loop.run())
        await world.elapse(5)
        await migrate(world, SECOND)
        await world.elapse(10)  # much sooner than the next check of all leases
        running.cancel()
    assert routes(world) == [2] and claim(world)["from"] == ""


async def test_the_end_of_a_migration_is_told_to_the_lease_that_had_the_hostname_after_a_restart_too() -> None:
    world = await two_leases(overlap=True)
    await migrate(world, SECOND)
    await rounds(world, 1)
    assert routes(world) == [1, 2]
    since = world.parts.claims._served_since
    world.restart()
    world.parts.claims._served_since = since
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.loop.run())
        await world.elapse(20)
        running.cancel()
    assert routes(world) == [2]


async def test_the_same_migration_again_changes_nothing() -> None:
    world = await two_leases(overlap=True)
    await migrate(world, SECOND)
    await rounds(world)
    writes = world.cluster.writes
    await migrate(world, SECOND)
    assert world.cluster.writes == writes


async def test_a_hostname_of_another_owner_is_not_migrated() -> None:
    world = await two_leases(overlap=True)
    theirs = a_lease(9, owner=OTHER)
    await world.run(theirs, a_group(hosts=["b.example.com"]))
    with pytest.raises(HostnameRefusedError, match=r'host "a\.example\.com" in use'):
        await migrate(world, theirs)
    assert claim(world)["holder"] == "1"


async def test_a_claim_that_was_never_migrated_has_no_annotations() -> None:
    """So that an upgrade writes no claim, and the claim is what the Go provider writes."""
    world = await two_leases(overlap=True)
    obj = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert obj is not None and not {SEQUENCE, SOURCE} & (obj["metadata"].get("annotations") or {}).keys()


@pytest.mark.parametrize("restart", [False, True])
async def test_a_port_migrates_and_keeps_its_address(restart: bool) -> None:
    world = await two_leases(overlap=True, group=ADDRESSED)
    address, pools = ports(world)[1], world.pools()
    await migrate_port(world, SECOND)
    seen = []
    for _ in range(8):
        for lease in (FIRST, SECOND):
            await world.check(lease)
            world.cluster.settle()
            seen.append(ports(world))
            assert world.pools() == pools
            if restart:
                world.restart()
        await world.elapse(1)
    assert all(len(one) < 2 for one in seen), "MetalLB refuses a second Service on the port"
    assert seen[-1] == {2: address}
    (name,) = world.cluster.named(PROVIDER_LEASED_IP)
    obj = world.cluster.find(PROVIDER_LEASED_IP, name, "lease")
    assert obj is not None and read_move(obj).source is None and read_move(obj).sequence == 2


async def test_a_migrated_port_does_not_return_by_itself() -> None:
    world = await two_leases(overlap=False, group=ADDRESSED)
    await migrate_port(world, SECOND)
    for _ in range(8):
        await world.check(FIRST)
        await world.check(SECOND)
        world.cluster.settle()
    world.chain.put_lease(SECOND, LeaseState.CLOSED)
    await world.converge(SECOND)
    outcome = await world.converge(FIRST)
    assert outcome.phase is Phase.RUNNING and "port 80/TCP of service web has no address: it was migrated" in (
        outcome.reason
    )
    assert ports(world) == {} and world.pools() == []
    await world.send(FIRST, ADDRESSED)
    world.reconciler.manifest_sent(FIRST)
    await world.converge(FIRST)
    assert list(ports(world)) == [1]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("steps", [0, 1])
async def test_a_migration_ends_when_its_destination_no_longer_asks_for_the_hostname(overlap: bool, steps: int) -> None:
    """Seed 21 of the simulation: the destination kept the claim for good, and served nothing by it."""
    world = await two_leases(overlap=overlap)
    await migrate(world, SECOND)
    await world.send(SECOND, a_group())
    for _ in range(steps):
        await world.check(FIRST)
    await rounds(world)
    if overlap:  # else the old lease has given the hostname up
        assert routes(world) == [1] and claim(world)["holder"] == "1" and claim(world)["from"] == ""
    else:
        assert routes(world) == [] and world.cluster.named(PROVIDER_HOST) == []


async def test_a_claim_that_is_migrated_while_its_lease_gives_it_back_stays() -> None:
    """The lease lists its claims, then deletes them: in between another lease may have got one."""
    world = await two_leases(overlap=True)
    stored = world.cluster.find(PROVIDER_HOST, HOST, "lease")
    assert stored is not None
    moved = host_object(SECOND, HostnameClaim(HOST, SECOND, "web", 80), namespace="lease", move=Move(2, FIRST))

    def moves(operation: str, kind: str, name: str) -> None:
        if (operation, kind) == ("delete", "ProviderHost"):
            world.cluster.before = lambda *_: None
            world.cluster.put(moved)

    world.cluster.before = moves
    await world.send(FIRST, a_group())
    await world.converge(FIRST)
    assert claim(world)["holder"] == "2"


async def test_a_claim_whose_status_changes_while_it_is_given_back_goes_all_the_same() -> None:
    """The hostname operator writes the health of a hostname at any moment."""
    world = await two_leases(overlap=True)

    def checked(operation: str, kind: str, name: str) -> None:
        if (operation, kind) == ("delete", "ProviderHost"):
            world.cluster.before = lambda *_: None
            stored = world.cluster.find(PROVIDER_HOST, HOST, "lease")
            world.cluster.put({**(stored or {}), "status": {"state": "healthy"}}, status=True)

    world.cluster.before = checked
    world.chain.put_lease(FIRST, LeaseState.CLOSED)
    await world.converge(FIRST)
    assert world.leftovers(FIRST) == []


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("how", ["ends", "asks no more"])
async def test_a_hostname_whose_new_holder_gives_it_up_first_goes_back_and_to_no_other_owner(
    overlap: bool, how: str
) -> None:
    """Seed 69 of the simulation: the old lease still publishes it."""
    world = await two_leases(overlap=overlap)
    await migrate(world, SECOND)
    if how == "ends":
        world.chain.put_lease(SECOND, LeaseState.CLOSED)
    else:
        await world.send(SECOND, a_group())
    await world.converge(SECOND)
    assert claim(world) == {"holder": "1", "sequence": "3", "from": ""} and routes(world) == [1]
    theirs = a_lease(9, owner=OTHER)
    await world.win(theirs, GROUP)
    assert (await world.converge(theirs)).phase is Phase.BLOCKED
    await world.converge(FIRST)
    assert claim(world)["holder"] == "1" and routes(world) == [1]
    world.chain.put_lease(FIRST, LeaseState.CLOSED)
    await world.converge(FIRST)
    assert (await world.converge(theirs)).phase is Phase.RUNNING


@pytest.mark.parametrize("overlap", [False, True])
async def test_a_hostname_whose_two_leases_end_together_is_free(overlap: bool) -> None:
    world = await two_leases(overlap=overlap)
    await migrate(world, SECOND)
    for lease in (FIRST, SECOND):
        world.chain.put_lease(lease, LeaseState.CLOSED)
    await asyncio.gather(*(world.check(lease) for lease in (SECOND, FIRST)))
    for _ in range(2):
        for lease in (SECOND, FIRST):
            await world.converge(lease)
    assert world.cluster.find(PROVIDER_HOST, HOST, "lease") is None
    assert world.leftovers(FIRST) == world.leftovers(SECOND) == []


@pytest.mark.parametrize("removed", [False, True], ids=["before its route went", "after"])
async def test_a_lost_disk_in_the_update_that_gives_a_hostname_up_makes_its_route_not_again(removed: bool) -> None:
    """Seed 110 of the simulation: the stack of the version before is adopted again, and its hostname is elsewhere."""
    world = await two_leases(overlap=False)
    await world.send(FIRST, a_group("nginx:2"))
    await migrate(world, SECOND)
    world.engine.faults.append(Fault(kill=True, objects=99 if removed else 0))
    with pytest.raises(Killed):
        await world.check(FIRST)
    assert routes(world) == ([] if removed else [1])
    if removed:
        await world.check(SECOND)
        assert routes(world) == [2]
    world.engine.lose_state()
    world.restart()
    before = len(world.engine.specs)
    seen = await rounds(world)
    adopted = [spec for spec in world.engine.specs[before:] if spec.lease == FIRST and spec.hostnames]
    assert len(adopted) == (0 if removed else 1)
    assert seen[-1] == [2] and all(len(one) < 2 for one in seen)
    assert claim(world) == {"holder": "2", "sequence": "2", "from": ""}


@pytest.mark.parametrize("overlap", [False, True])
async def test_a_lease_that_runs_its_previous_version_gives_up_a_hostname_that_its_manifest_has_not(
    overlap: bool,
) -> None:
    """Seed 37 of the simulation: the previous version has the hostname, the refused one does not ask for it."""
    world = await two_leases(overlap=overlap)
    world.engine.refused["bad"] = "is invalid: no"
    await world.send(FIRST, a_group("bad"))
    await world.converge(FIRST)
    assert world.reconciler.statuses[FIRST].phase is Phase.UPDATE_FAILED and routes(world) == [1]
    await migrate(world, SECOND)
    assert (await rounds(world, 30))[-1] == [2]
    assert claim(world) == {"holder": "2", "sequence": "2", "from": ""}
    assert world.reconciler.statuses[FIRST].phase is Phase.UPDATE_FAILED and world.image(FIRST) == "nginx:1"


async def test_a_lease_that_runs_its_previous_version_gives_up_a_port_that_its_manifest_has_not() -> None:
    world = await two_leases(overlap=False, group=ADDRESSED)
    world.engine.refused["bad"] = "is invalid: no"
    await world.send(FIRST, a_group("bad"))
    await world.converge(FIRST)
    assert world.reconciler.statuses[FIRST].phase is Phase.UPDATE_FAILED and list(ports(world)) == [1]
    await migrate_port(world, SECOND)
    for _ in range(12):
        for lease in (FIRST, SECOND):
            await world.check(lease)
            world.cluster.settle()
        await world.elapse(1)
    assert list(ports(world)) == [2]


async def blocked_after_its_route(overlap: bool, *, image: str = "") -> World:
    """The new lease has its route, and then a manifest that cannot be made, or one that is refused (`image`)."""
    world = await two_leases(overlap=overlap)
    await world.run(a_lease(9, owner=OTHER), a_group(hosts=["b.example.com"]))
    await migrate(world, SECOND)
    while 2 not in routes(world):
        for lease in (FIRST, SECOND):
            await world.check(lease)
    world.engine.refused["bad"] = "is invalid: no"
    await world.send(SECOND, a_group(image, hosts=[HOST]) if image else a_group(hosts=[HOST, "b.example.com"]))
    return world


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("image", "phase"), [("", Phase.BLOCKED), ("bad", Phase.UPDATE_FAILED)])
async def test_a_migration_ends_although_the_newest_version_of_its_destination_cannot_run(
    overlap: bool, image: str, phase: Phase
) -> None:
    world = await blocked_after_its_route(overlap, image=image)
    assert (await rounds(world))[-1] == [2]
    assert world.reconciler.statuses[SECOND].phase is phase
    assert claim(world) == {"holder": "2", "sequence": "2", "from": ""}


async def test_a_destination_that_cannot_be_made_before_it_serves_leaves_the_route_where_it_is() -> None:
    world = await two_leases(overlap=True)
    await world.run(a_lease(9, owner=OTHER), a_group(hosts=["b.example.com"]))
    await world.send(SECOND, a_group(hosts=[HOST, "b.example.com"]))
    await world.converge(SECOND)
    await migrate(world, SECOND)
    assert (await rounds(world))[-1] == [1]
    assert claim(world) == {"holder": "2", "sequence": "2", "from": "1"}


@pytest.mark.parametrize("overlap", [False, True])
async def test_what_a_lease_of_a_refused_version_has_lost_does_not_return_by_itself(overlap: bool) -> None:
    world = await two_leases(overlap=overlap)
    world.engine.refused["bad"] = "is invalid: no"
    await world.send(FIRST, a_group("bad", hosts=[HOST]))
    await world.converge(FIRST)
    await migrate(world, SECOND)
    assert (await rounds(world, 30))[-1] == [2]
    assert world.applied(FIRST).moved == {HOST}
    world.chain.put_lease(SECOND, LeaseState.CLOSED)
    await world.converge(SECOND)
    world.restart()
    outcome = await world.converge(FIRST)
    assert outcome.phase is Phase.UPDATE_FAILED and routes(world) == []
    assert world.cluster.named(PROVIDER_HOST) == []
