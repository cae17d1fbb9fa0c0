"""free = allocatable − scheduled − reserved, never negative, nothing counted twice (docs/architecture.md §2, rule
4).
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId, namespace_name
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.inventory.capacity import Capacity, Card, Overcommit
from provider.inventory.ledger import Ledger, free_snapshot
from provider.inventory.matcher import place
from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, VolumeClaim
from tests.world.work import calls_of

US = "akash1provider"
GI = 2**30
ORDER = OrderId("akash1tenant", 7, 1, 1)
SPACE = namespace_name(ORDER.bid_by(US))
T4, A100 = Card("nvidia", "t4"), Card("nvidia", "a100")


def spec(cpu: int = 1000, *, count: int = 1, gpu: int = 0, volumes: tuple[Volume, ...] = (), ips: int = 0) -> GroupSpec:
    gpus = (Attribute("vendor/nvidia/model/*", "true"),) if gpu else ()
    endpoints = tuple(Endpoint(EndpointKind.LEASED_IP, number) for number in range(1, ips + 1))
    resources = Resources(1, cpu, GI, volumes, gpu_units=gpu, gpu_attributes=gpus, endpoints=endpoints)
    return GroupSpec("g", Requirements(), (ResourceUnit(resources, count, Price("uact", Decimal(1))),))


def cluster(*cpus: int, cards: tuple[Card, ...] = (), **more: object) -> Inventory:
    nodes = tuple(
        Node(f"n{index}", Capacity(cpu, 64 * GI, 64 * GI, 110), cards if index == 0 else (), ("beta2",))
        for index, cpu in enumerate(cpus)
    )
    return Inventory(nodes=nodes, **more)  # type: ignore[arg-type]


def promised(inventory: Inventory, group: GroupSpec, order: OrderId = ORDER) -> Ledger:
    ledger = Ledger(US)
    found = place(order, group, snapshot=ledger.free(inventory), overcommit=Overcommit())
    assert isinstance(found, Reservation)
    ledger.reserve(found)
    return ledger


def pod(
    node: str, cpu: int = 1000, *, namespace: str = SPACE, name: str = "web-0", gpu: int = 0, model: str = ""
) -> ScheduledPod:
    return ScheduledPod(namespace, name, node, Capacity(cpu, GI, 0, 1), "nvidia" if gpu else "", model, gpu)


def free_cpu(ledger: Ledger, inventory: Inventory) -> list[int]:
    return [node.capacity.cpu_milli for node in ledger.free(inventory).nodes]


def test_a_promise_takes_room_until_it_is_released() -> None:
    inventory = cluster(4000)
    ledger = promised(inventory, spec(count=2))
    assert free_cpu(ledger, inventory) == [2000]
    assert ledger.reservation(ORDER) is not None
    assert ledger.release(ORDER)
    assert free_cpu(ledger, inventory) == [4000]
    assert not ledger.release(ORDER)


def test_promising_twice_for_one_order_counts_once() -> None:
    inventory = cluster(4000)
    ledger = promised(inventory, spec())
    again = ledger.reservation(ORDER)
    assert again is not None
    ledger.reserve(again)
    assert free_cpu(ledger, inventory) == [3000]


def exposed_by(count: int) -> GroupSpec:
    """A group with so many endpoints on random ports."""
    plain = spec(count=2)
    unit = plain.units[0]
    ports = tuple(Endpoint(EndpointKind.RANDOM_PORT, 0) for _ in range(count))
    return replace(plain, units=(replace(unit, resources=replace(unit.resources, endpoints=ports)),))


def test_node_ports_are_reserved_once_and_a_deployment_reported_twice_counts_once() -> None:
    """The Go provider counts RANDOM_PORT endpoints of what is deployed, and nothing reads the counter (bidding.md
    §4.3).
    """
    exposed = exposed_by(30)
    inventory = cluster(4000, address_count=3, node_port_count=100, node_ports={"others": 20})
    running = replace(inventory, pods=(pod("n0"), pod("n0", name="web-1")))
    before = Ledger(US).free(inventory)
    ledger = promised(inventory, exposed)
    assert (before.free_node_ports, ledger.free(inventory).free_node_ports) == (80, 50)
    once = ledger.free(running)
    for _ in range(2):
        ledger.rebuild(ORDER, exposed, inventory=running, overcommit=Overcommit())
        assert ledger.free(running) == once
    made = replace(running, node_ports={"others": 20, SPACE: 30})
    assert ledger.free(made).free_node_ports == 50
    assert once.free_addresses == 3
    assert ledger.release(ORDER)
    assert ledger.free(inventory) == before


def test_node_ports_that_are_overdrawn_are_none_not_negative() -> None:
    inventory = cluster(4000, node_port_count=10)
    assert promised(inventory, exposed_by(30)).free(inventory).free_node_ports == 0


def test_a_pod_that_is_scheduled_moves_from_promised_to_scheduled() -> None:
    inventory = cluster(4000)
    ledger = promised(inventory, spec(count=2))
    one = replace(inventory, pods=(pod("n0"),))
    both = replace(inventory, pods=(pod("n0"), pod("n0", name="web-1")))
    assert [free_cpu(ledger, state) for state in (inventory, one, both)] == [[2000], [2000], [2000]]


def test_a_pod_on_another_node_than_planned_frees_the_plan() -> None:
    inventory = cluster(4000, 4000)
    ledger = promised(inventory, spec())
    assert free_cpu(ledger, inventory) == [3000, 4000]
    assert free_cpu(ledger, replace(inventory, pods=(pod("n1"),))) == [4000, 3000]


def test_a_strangers_pod_on_the_planned_node_moves_the_promise_to_another() -> None:
    inventory = cluster(1000, 4000)
    ledger = promised(inventory, spec())
    taken = replace(inventory, pods=(pod("n0", namespace="other"),))
    assert free_cpu(ledger, taken) == [0, 3000]


def test_pods_of_other_leases_do_not_fulfil_a_promise() -> None:
    inventory = cluster(4000)
    ledger = promised(inventory, spec())
    assert free_cpu(ledger, replace(inventory, pods=(pod("n0", namespace="other"),))) == [2000]


def test_ram_volumes_stay_promised_while_the_pod_runs() -> None:
    """The scheduler does not know them: no pod request states them (kubernetes-objects.md §2.5.2)."""
    ram = Volume("shm", 2 * GI, (Attribute("class", "ram"), Attribute("persistent", "false")))
    inventory = cluster(4000)
    ledger = promised(inventory, spec(volumes=(ram,)))
    running = replace(inventory, pods=(pod("n0"),))
    assert ledger.free(inventory).nodes[0].capacity.memory_bytes == 61 * GI
    assert ledger.free(running).nodes[0].capacity.memory_bytes == 61 * GI


def test_a_promised_card_is_not_given_again_and_not_counted_twice() -> None:
    inventory = cluster(4000, cards=(A100, T4))
    ledger = promised(inventory, spec(gpu=1))
    reservation = ledger.reservation(ORDER)
    assert reservation is not None
    mine = reservation.replicas[0].cards[0]
    other = T4 if mine == A100 else A100
    assert ledger.free(inventory).nodes[0].cards == (other,)
    running = replace(inventory, pods=(pod("n0", gpu=1, model=mine.model),))
    assert ledger.free(running).nodes[0].cards == (other,)


def test_a_pod_that_names_no_kind_of_its_model_leaves_the_reserved_cards_on_their_node() -> None:
    """A pod states `a100`, not which of two kinds of A100. Its node still holds the other lease's cards (seed 369)."""
    large, small = Card("nvidia", "a100", "80Gi", "sxm4"), Card("nvidia", "a100", "40Gi", "pcie")
    nodes = tuple(
        Node(name, Capacity(8000, 64 * GI, 64 * GI, 110), (large, large, small, small)) for name in ("n0", "n1")
    )
    inventory = Inventory(nodes=nodes)
    ledger = promised(inventory, spec(gpu=2))
    planned = ledger.free(inventory).nodes[0].cards
    assert len(planned) == 2
    running = pod("n0", namespace="other", gpu=2, model="a100")
    free = ledger.free(replace(inventory, pods=(running,))).nodes
    assert [len(node.cards) for node in free] == [0, 4]


def test_a_reserved_card_is_taken_before_another_kind_of_its_model() -> None:
    large, small = Card("nvidia", "a100", "80Gi"), Card("nvidia", "a100", "40Gi")
    inventory = cluster(8000, cards=(large, small))
    ledger = promised(inventory, spec(gpu=1))
    reservation = ledger.reservation(ORDER)
    assert reservation is not None
    replicas = tuple(replace(one, cards=(small,)) for one in reservation.replicas)
    ledger.reserve(replace(reservation, replicas=replicas))
    assert ledger.free(inventory).nodes[0].cards == (large,)


def test_a_claim_moves_from_promised_to_claimed() -> None:
    data = Volume("data", 10 * GI, (Attribute("class", "beta2"), Attribute("persistent", "true")))
    inventory = cluster(4000, pool_bytes={"beta2": 100 * GI})
    ledger = promised(inventory, spec(volumes=(data,), count=2))
    claims = tuple(VolumeClaim(SPACE, f"data-web-{index}", "beta2", 10 * GI) for index in range(2))
    half = replace(inventory, claims=claims[:1])
    for state in (inventory, half, replace(inventory, claims=claims)):
        assert ledger.free(state).pools == {"beta2": 80 * GI}
    ledger.release(ORDER)
    assert ledger.free(half).pools == {"beta2": 90 * GI}


def test_a_pool_that_is_overdrawn_is_empty_not_negative() -> None:
    claims = (VolumeClaim("x", "big", "beta2", 200 * GI),)
    assert Ledger(US).free(cluster(4000, pool_bytes={"beta2": GI}, claims=claims)).pools == {"beta2": 0}


def test_an_address_moves_from_promised_to_assigned() -> None:
    inventory = cluster(4000, address_count=3)
    ledger = promised(inventory, spec(ips=2))
    assert ledger.free(inventory).free_addresses == 1
    assigned = replace(inventory, addresses={"203.0.113.1": frozenset({SPACE})})
    assert ledger.free(assigned).free_addresses == 1
    strangers = replace(inventory, addresses={"203.0.113.1": frozenset({"other"})})
    assert ledger.free(strangers).free_addresses == 0


def test_a_running_lease_is_taken_over_where_it_runs_on_its_card() -> None:
    inventory = cluster(1000, cards=(T4, A100), pods=(pod("n0", gpu=1, model="a100"),))
    ledger = Ledger(US)
    found = ledger.rebuild(ORDER, spec(gpu=1), inventory=inventory, overcommit=Overcommit())
    assert found.nodes == {1: ("n0",)}
    assert found.placements[1] is not None
    assert found.placements[1].model == "a100"
    assert free_cpu(ledger, inventory) == [0]
    assert ledger.free(inventory).nodes[0].cards == (T4,)


def test_a_lease_is_taken_over_even_when_there_is_no_room_left() -> None:
    inventory = cluster(500)
    ledger = Ledger(US)
    found = ledger.rebuild(ORDER, spec(), inventory=inventory, overcommit=Overcommit())
    assert found.nodes == {1: ("",)}
    assert ledger.orders() == (ORDER,)
    assert free_cpu(ledger, cluster(4000)) == [3000]


def test_what_is_free_without_one_order_is_what_is_free_if_it_had_never_been() -> None:
    order, other = replace(ORDER, dseq=8), namespace_name(replace(ORDER, dseq=9).bid_by(US))
    own = namespace_name(order.bid_by(US))
    claims = tuple(VolumeClaim(space, "data", "beta2", 10 * GI) for space in (own, other))
    pods = (pod("n0", gpu=1, model="a100", namespace=other), pod("n0", gpu=1, model="t4", namespace=own), pod("gone"))
    inventory = cluster(
        8000, 500, cards=(T4, A100, A100), pods=pods, claims=claims, pool_bytes={"beta2": 100 * GI}, address_count=4
    )
    volume = Volume("data", 30 * GI, (Attribute("persistent", "true"), Attribute("class", "beta2")))
    ledger = Ledger(US)
    for each in (order, ORDER):
        group = spec(gpu=1, volumes=(volume,), ips=1)
        ledger.rebuild(each, group, inventory=inventory, overcommit=Overcommit())
    found, kept = ledger._headroom(inventory).without(order), ledger.reservation(ORDER)
    never = replace(inventory, pods=(pods[0], pods[2]), claims=claims[1:])
    assert kept is not None
    assert found == free_snapshot(never, (kept,), provider=US)
    assert found != ledger.free(inventory)


def _work_for_one_more(others: int) -> int:
    orders = [replace(ORDER, dseq=1000 + number) for number in range(others)]
    pods = tuple(pod(f"n{at // 50}", 10, namespace=namespace_name(one.bid_by(US))) for at, one in enumerate(orders))
    inventory, ledger = cluster(*[4000] * 10, pods=pods), Ledger(US)
    for one in orders:
        ledger.rebuild(one, spec(10), inventory=inventory, overcommit=Overcommit())
    return calls_of(lambda: ledger.rebuild(ORDER, spec(10), inventory=inventory, overcommit=Overcommit()))[0]


def test_the_work_to_take_one_lease_over_does_not_grow_with_the_others() -> None:
    """A start takes all of them over before its first bid."""
    assert _work_for_one_more(400) < 1.5 * _work_for_one_more(50)


CPUS = st.integers(100, 4000)
ORDERS = st.lists(st.tuples(CPUS, st.integers(1, 3), st.integers(0, 2)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(st.lists(CPUS, min_size=1, max_size=4), ORDERS, st.data())
def test_free_is_allocatable_less_scheduled_and_promised_whatever_happens(nodes, orders, data) -> None:
    """Random reservations of which some pods run: free is never negative, never above allocatable less what runs, and
    the sum over the nodes is exactly allocatable − scheduled − what is promised and does not run yet.
    """
    inventory = cluster(*nodes, cards=(T4, T4, A100))
    ledger = Ledger(US)
    pods: list[ScheduledPod] = []
    for index, (cpu, count, gpu) in enumerate(orders):
        order = OrderId("akash1tenant", index + 1, 1, 1)
        state = replace(inventory, pods=tuple(pods))
        found = place(order, spec(cpu, count=count, gpu=gpu), snapshot=ledger.free(state), overcommit=Overcommit())
        if isinstance(found, Reservation):
            ledger.reserve(found)
            for replica in found.replicas[: data.draw(st.integers(0, count))]:
                model = replica.cards[0].model if replica.cards else ""
                name = f"p{len(pods)}"
                namespace = namespace_name(order.bid_by(US))
                pods.append(pod(replica.node, cpu, namespace=namespace, name=name, gpu=gpu, model=model))
        state = replace(inventory, pods=tuple(pods))
        free = ledger.free(state)
        bare = free_snapshot(state, (), provider=US)
        for left, most in zip(free.nodes, bare.nodes, strict=True):
            assert most.capacity.holds(left.capacity)
            assert left.capacity.cpu_milli >= 0
        outstanding = sum(
            replica.requests.cpu_milli
            for promise in map(ledger.reservation, ledger.orders())
            if promise is not None
            for replica in promise.replicas
        ) - sum(one.requests.cpu_milli for one in pods)
        total = sum(node.capacity.cpu_milli for node in bare.nodes)
        assert sum(node.capacity.cpu_milli for node in free.nodes) == total - outstanding


def test_while_nothing_changes_the_free_picture_is_the_very_same() -> None:
    inventory = cluster(4000, 4000)
    ledger = promised(inventory, spec())
    assert ledger.free(inventory) is ledger.free(inventory)
    before = ledger.free(inventory)
    assert not ledger.release(OrderId("akash1tenant", 99, 1, 1))
    assert ledger.free(inventory) is before
    ledger.release(ORDER)
    assert ledger.free(inventory) != before


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["promise", "release", "look", "pod"])), max_size=25))
def test_what_is_free_is_the_same_whether_it_was_kept_up_or_counted_anew(steps) -> None:
    inventory, ledger, held = cluster(9000, 5000, cards=(T4, A100)), Ledger(US), {}
    for number, step in steps:
        order = OrderId("akash1tenant", number, 1, 1)
        if step == "promise":
            found = place(
                order, spec(number * 300, gpu=number % 2), snapshot=ledger.free(inventory), overcommit=Overcommit()
            )
            if isinstance(found, Reservation):
                ledger.reserve(found)
                held[order] = found
        elif step == "release":
            ledger.release(order)
            held.pop(order, None)
        elif step == "pod":
            space = namespace_name(order.bid_by(US))
            inventory = replace(inventory, pods=(pod("n1", number * 300, namespace=space),))
        assert ledger.free(inventory) == free_snapshot(inventory, held.values(), provider=US)
