"""Rules 4 and 7 of docs/architecture.md §2 for the market, counted anew by plain sums: nothing here asks the ledger how
it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory, Node, ScheduledPod, Snapshot
from tests.laws.orders.picture import Picture, replica_names

__all__ = ["free_is_what_is_left", "overlapping"]

Sum = Counter[object]


def free_is_what_is_left(picture: Picture, free: Snapshot, promises: Iterable[Reservation]) -> tuple[list[str], bool]:
    """What breaks rule 4, and whether the sums had to be equal: a promise whose node is gone, or taken by pods of
    others, finds no room, and then more may be free than the sums leave, never less. Of cards less as well: Kubernetes
    counts them without their model, so one that is missing is made up for by another of its vendor.
    """
    inventory = picture.inventory
    problems = list(_bounds(inventory, free))
    left, tight = _left(picture, list(promises))
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
        yield f"rule 4: free is told of {len(free.nodes)} nodes, there are {len(room)}"
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


def _sum_free(free: Snapshot) -> Sum:
    total: Sum = Counter()
    for node in free.nodes:
        total.update(_of_node(node))
    total.update({f"class {name}": size for name, size in free.pools.items()})
    total["addresses"] += free.free_addresses
    return total


def _left(picture: Picture, promises: list[Reservation]) -> tuple[Sum, bool]:
    """Everything, less what is there, less what is promised and not there; and whether any of it has no place."""
    inventory = picture.inventory
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
    for promise in promises:
        nowhere |= _subtract(picture, promise, running, nodes, rest)
    tight = nowhere or any(amount < 0 for left in (*nodes.values(), rest) for amount in left.values())
    total = Counter(rest)
    for left in nodes.values():
        total.update(left)
    return total, tight


def _subtract(
    picture: Picture, promise: Reservation, running: dict[tuple[str, str], str], nodes: dict[str, Sum], rest: Sum
) -> bool:
    """Whether a part of it has no node."""
    namespace, nowhere = picture.namespace_of(promise.order), False
    for name, replica in replica_names(promise):
        ran = running.get((namespace, name))
        where = nodes.get(replica.node if ran is None else ran)
        if where is None:
            nowhere, where = True, rest
        where.subtract(memory=replica.ram_bytes)
        if ran is None:
            where.subtract(cpu=replica.requests.cpu_milli, memory=replica.requests.memory_bytes)
            where.subtract(disk=replica.requests.ephemeral_bytes, pods=1)
            where.subtract((card.vendor, card.model) for card in replica.cards)
    claimed = {one.storage_class for one in picture.inventory.claims if one.namespace == namespace}
    rest.subtract({f"class {name}": size for name, size in promise.volumes.items() if name not in claimed})
    held = sum(namespace in users for users in picture.inventory.addresses.values())
    rest["addresses"] -= max(0, promise.leased_ips - held)
    return nowhere


def overlapping(picture: Picture, fresh: Reservation, others: Iterable[Reservation]) -> list[str]:
    """Rule 4, at the moment of the promise: each node, and each kind of card on it, holds it beside `others`. Nothing
    where one of those has lost its place: it was counted where there was room. Nor where the scheduler put one pod of
    several equal ones elsewhere: which of them is still to come, and so where, is anybody's guess.
    """
    held = list(others)
    if _left(picture, held)[1] or _moved(picture, held):
        return []
    after = _taken(picture, [*held, fresh])
    return [
        f"rule 4: {-amount} of {name} are promised on {node.name}, which has {has[name]}"
        for node in picture.inventory.nodes
        for has in (_of_node(node),)
        for name, amount in after[node.name].items()
        if -amount > has[name]
    ]


def _moved(picture: Picture, promises: Iterable[Reservation]) -> bool:
    running = {(pod.namespace, pod.name): pod.node for pod in picture.inventory.pods}
    return any(
        running.get((picture.namespace_of(promise.order), name), replica.node) != replica.node
        for promise in promises
        for name, replica in replica_names(promise)
    )


def _taken(picture: Picture, promises: Iterable[Reservation]) -> dict[str, Sum]:
    """By node, below zero: its pods, and what is promised on it and does not run yet."""
    nodes: dict[str, Sum] = {node.name: Counter() for node in picture.inventory.nodes}
    running = {(pod.namespace, pod.name): pod.node for pod in picture.inventory.pods}
    for pod in picture.inventory.pods:
        nodes[pod.node].subtract(_of_pod(pod))
    for promise in promises:
        _subtract(picture, promise, running, nodes, Counter())
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
