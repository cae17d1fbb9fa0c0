"""Rules 4 and 7 of docs/architecture.md §2 for the market, computed with plain sums, independently of the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, Snapshot
from tests.laws.orders.cluster import RandomCluster, replica_names

__all__ = ["free_is_what_is_left", "overlapping"]

Sum = Counter[object]


def free_is_what_is_left(
    cluster: RandomCluster, free: Snapshot, reservations: Iterable[Reservation]
) -> tuple[list[str], bool]:
    """What breaks rule 4, and whether the sums had to be equal. A reservation whose node is gone, or is used by other
    pods, cannot be deducted anywhere; then more may be free than the sums leave, never less. Of cards less may be free
    as well: Kubernetes counts cards without their model, so another card of the vendor replaces a missing one.
    """
    inventory = cluster.inventory
    problems = list(_bounds(inventory, free))
    left, tight = _left(cluster, list(reservations))
    have = _sum_free(free)
    for name in sorted({*left, *have}, key=str):
        if have[name] < left[name] and not (tight and isinstance(name, tuple)):
            problems.append(f"rule 4: {name}: {have[name]} free, {left[name]} are left: something is counted twice")
        elif have[name] > max(0, left[name]) and not tight:
            problems.append(f"rule 4: {name}: {have[name]} free, {left[name]} are left: something is not counted")
    return problems, not tight


def _bounds(inventory: Inventory, free: Snapshot) -> Iterator[str]:
    room = {node.name: node for node in inventory.nodes}
    if [node.name for node in free.nodes] != list(room):
        yield f"rule 4: there is free capacity of {len(free.nodes)} nodes, there are {len(room)}"
        return
    for node in free.nodes:
        low = min(
            node.capacity.cpu_milli, node.capacity.memory_bytes, node.capacity.ephemeral_bytes, node.capacity.pods
        )
        if low < 0 or not room[node.name].capacity.holds(node.capacity):
            yield f"rule 4: {node.name} has {node.capacity} free of {room[node.name].capacity}"
        if not Counter(node.cards) <= Counter(room[node.name].cards):
            yield f"rule 4: {node.name} has cards free that it does not have"
    if not 0 <= free.free_addresses <= inventory.address_count:
        yield f"rule 4: {free.free_addresses} of {inventory.address_count} addresses are free"
    if not 0 <= free.free_node_ports <= inventory.node_port_count:
        yield f"rule 4: {free.free_node_ports} of {inventory.node_port_count} node ports are free"


def _sum_free(free: Snapshot) -> Sum:
    total: Sum = Counter()
    for node in free.nodes:
        total.update(_of_node(node))
    total.update({f"class {name}": size for name, size in free.pools.items()})
    total["addresses"] += free.free_addresses
    return total


def _left(cluster: RandomCluster, reservations: list[Reservation]) -> tuple[Sum, bool]:
    """All capacity less what runs and what is reserved and does not run yet; and whether any of these has no node."""
    inventory = cluster.inventory
    nodes = {node.name: _of_node(node) for node in inventory.nodes}
    rest: Sum = Counter({f"class {name}": size for name, size in inventory.pool_bytes.items()})
    rest["addresses"] = inventory.address_count - len(inventory.addresses)
    for claim in inventory.claims:
        rest[f"class {claim.storage_class}"] -= claim.size_bytes
    running: dict[tuple[str, str], str] = {}
    for pod in inventory.pods:
        running[pod.namespace, pod.name] = pod.node
        nodes[pod.node].subtract(_of_pod(pod))
    nowhere = False
    for reservation in reservations:
        nowhere |= _subtract(cluster, reservation, running, nodes, rest)
    tight = nowhere or any(amount < 0 for left in (*nodes.values(), rest) for amount in left.values())
    total = Counter(rest)
    for left in nodes.values():
        total.update(left)
    return total, tight


def _subtract(
    cluster: RandomCluster,
    reservation: Reservation,
    running: dict[tuple[str, str], str],
    nodes: dict[str, Sum],
    rest: Sum,
) -> bool:
    """Deducts a reservation. Returns whether a part of it has no node."""
    namespace, nowhere = cluster.namespace_of(reservation.order), False
    for name, replica in replica_names(reservation):
        ran = running.get((namespace, name))
        where = nodes.get(replica.node if ran is None else ran)
        if where is None:
            nowhere, where = True, rest
        if ran is None:
            where.subtract(cpu=replica.requests.cpu_milli, memory=replica.requests.memory_bytes)  # type: ignore[call-overload]
            where.subtract(disk=replica.requests.ephemeral_bytes, pods=1)  # type: ignore[call-overload]
            where.subtract((card.vendor, card.model) for card in replica.cards)
    claimed = {one.storage_class for one in cluster.inventory.claims if one.namespace == namespace}
    rest.subtract({f"class {name}": size for name, size in reservation.volumes.items() if name not in claimed})
    held = sum(namespace in users for users in cluster.inventory.addresses.values())
    rest["addresses"] -= max(0, reservation.leased_ips - held)
    return nowhere


def overlapping(cluster: RandomCluster, fresh: Reservation, others: Iterable[Reservation]) -> list[str]:
    """Rule 4 at the moment of a new reservation: each node, and each card model on it, holds it beside `others`. Not
    checked when one of those has lost its node, since it was deducted elsewhere, nor when the scheduler put one of
    several equal pods on another node, since nobody knows which of them is still to come.
    """
    held = list(others)
    if _left(cluster, held)[1] or _moved(cluster, held):
        return []
    after = _taken(cluster, [*held, fresh])
    return [
        f"rule 4: {-amount} of {name} are reserved on {node.name}, which has {has[name]}"
        for node in cluster.inventory.nodes
        for has in (_of_node(node),)
        for name, amount in after[node.name].items()
        if -amount > has[name]
    ]


def _moved(cluster: RandomCluster, reservations: Iterable[Reservation]) -> bool:
    running = {(pod.namespace, pod.name): pod.node for pod in cluster.inventory.pods}
    return any(
        running.get((cluster.namespace_of(reservation.order), name), replica.node) != replica.node
        for reservation in reservations
        for name, replica in replica_names(reservation)
    )


def _taken(cluster: RandomCluster, reservations: Iterable[Reservation]) -> dict[str, Sum]:
    """Node → its pods, and what is reserved on it and does not run yet, as negative amounts."""
    nodes: dict[str, Sum] = {node.name: Counter() for node in cluster.inventory.nodes}
    running = {(pod.namespace, pod.name): pod.node for pod in cluster.inventory.pods}
    for pod in cluster.inventory.pods:
        nodes[pod.node].subtract(_of_pod(pod))
    for reservation in reservations:
        _subtract(cluster, reservation, running, nodes, Counter())
    return nodes


def _of_pod(pod: ScheduledPod) -> Sum:
    want = pod.requests
    taken: Sum = Counter({"cpu": want.cpu_milli, "memory": want.memory_bytes, "disk": want.ephemeral_bytes, "pods": 1})
    if pod.gpu_units:
        taken[pod.gpu_vendor, pod.gpu_model] = pod.gpu_units
    return taken


def _of_node(node: Node) -> Sum:
    room = node.capacity
    has: Sum = Counter({"cpu": room.cpu_milli, "memory": room.memory_bytes, "disk": room.ephemeral_bytes})
    has["pods"] = room.pods
    has.update((card.vendor, card.model) for card in node.cards)
    return has
