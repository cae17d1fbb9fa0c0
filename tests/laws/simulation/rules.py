"""The seven rules of docs/architecture.md §2 as plain functions over a world; each yields what breaks it.

`ALWAYS` hold after every step, `IN_THE_END` once the faults have stopped and everything had its time, `LATER` when
nothing has happened since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from lease.addresses import pool_name
from lease.ids import LeaseId
from provider.lifecycle.state import Phase
from provider.protocols.chain import BidState, OrderState
from tests.laws.simulation.liars import names_stay_with_their_owners
from tests.laws.simulation.migrations import hostnames_have_one_route, migrations_end
from tests.laws.simulation.volumes import kept_ones, restored_volumes_are_used, volumes_go_in_time
from tests.laws.simulation.world import BAD, NODE_CPU, NODES, World, namespace_of
from tests.provider.lifecycle.world import PROVIDER

__all__ = ["ALWAYS", "IN_THE_END", "LATER", "broken"]

Rule = Callable[[World], Iterator[str]]
_RESYNC_S = 330.0
"""The resync is every 300 s."""
_LOOK_S = 900.0
"""Every lease is looked at again within this: the resync (300 s), a full queue and a slow engine between."""


def what_was_seen_at_once(world: World) -> Iterator[str]:
    """Rules 1 and 7 are watched at the removal and at the broadcast."""
    yield from world.memory.violations


def the_daemon_lives(world: World) -> Iterator[str]:
    if (why := world.daemon.ended()) is not None:
        yield f"rule 6: the daemon ended by itself: {why!r} {getattr(why, 'exceptions', '')}"


def what_ran_runs_while_it_is_active(world: World) -> Iterator[str]:
    """Rule 1."""
    for lease in world.alive():
        if world.workload(lease) in world.cluster.objects:
            world.memory.running.add(lease)
            world.memory.ran.add(lease)
        elif lease in world.memory.running:
            yield f"rule 1: lease {lease.dseq} is active and was running, its workload is gone"


def free_is_within_bounds(world: World) -> Iterator[str]:
    """Rule 4: never negative, never above allocatable; and what we hold of the chain fits into the cluster."""
    inventory = world.daemon.inventory.inventory
    room = {node.name: node.capacity for node in inventory.nodes}
    for node in world.daemon.ledger.free(inventory).nodes:
        if not room[node.name].holds(node.capacity) or node.capacity.cpu_milli < 0:
            yield f"rule 4: {node.name} has {node.capacity} free of {room[node.name]}"
    bids = [b.id for b in world.chain.bid_states.values() if b.id.provider == PROVIDER and b.state is BidState.OPEN]
    held = sum(world.cpu(lease.order) for lease in {*bids, *world.alive()})
    if held > NODES * NODE_CPU:
        yield f"rule 4: {held} mCPU are promised on the chain, the cluster has {NODES * NODE_CPU}"


def free_is_recounted(world: World) -> Iterator[str]:
    """Rule 4: each pod, card, volume and address is taken once. Less free than a plain sum says is counted twice; more
    is not counted, but where a promise finds no room at all.
    """
    inventory, ledger = world.daemon.inventory.inventory, world.daemon.ledger
    free, left = ledger.free(inventory), _recount(world)
    have = {
        "cpu": sum(node.capacity.cpu_milli for node in free.nodes),
        "cards": sum(len(node.cards) for node in free.nodes),
        "volumes": sum(free.pools.values()),
        "addresses": free.free_addresses,
    }
    tight = _no_room(world) or any(not node.capacity.cpu_milli for node in free.nodes)
    for name, wanted in left.items():
        if have[name] < wanted:
            yield f"rule 4: {name}: {have[name]} are free, {wanted} should be: something is counted twice"
        elif have[name] > max(0, wanted) and not tight:
            yield f"rule 4: {name}: {have[name]} are free, {wanted} should be: something is not counted"


def _no_room(world: World) -> bool:
    """Whether anything is promised that was nowhere to be placed: a lease taken over, charged where there is room."""
    held = (world.daemon.ledger.reservation(order) for order in world.daemon.ledger.orders())
    return any(not replica.node for one in held if one for replica in one.replicas)


def _recount(world: World) -> Counter[str]:
    """Everything less what is there, less what is promised and not there yet."""
    inventory, ledger = world.daemon.inventory.inventory, world.daemon.ledger
    left = Counter(
        cpu=sum(node.capacity.cpu_milli for node in inventory.nodes)
        - sum(p.requests.cpu_milli for p in inventory.pods),
        cards=sum(len(node.cards) for node in inventory.nodes) - sum(pod.gpu_units for pod in inventory.pods),
        volumes=sum(inventory.pool_bytes.values()) - sum(claim.size_bytes for claim in inventory.claims),
        addresses=inventory.address_count - len(inventory.addresses),
    )
    for order in ledger.orders():
        found, name = ledger.reservation(order), namespace_of(order.bid_by(PROVIDER))
        if found is None:
            continue
        missing = found.replicas[sum(pod.namespace == name for pod in inventory.pods) :]
        claimed = sum(claim.size_bytes for claim in inventory.claims if claim.namespace == name)
        held = sum(name in users for users in inventory.addresses.values())
        left["cpu"] -= sum(replica.requests.cpu_milli for replica in missing)
        left["cards"] -= sum(len(replica.cards) for replica in missing)
        left["volumes"] -= max(0, sum(found.volumes.values()) - claimed)
        left["addresses"] -= max(0, found.leased_ips - held)
    return left


def the_picture_is_the_cluster(world: World) -> Iterator[str]:
    """Rule 4: what is counted as scheduled and claimed is what is there."""
    inventory, objects = world.daemon.inventory.inventory, world.cluster.objects
    for kind, seen in (("Pod", inventory.pods), ("PersistentVolumeClaim", inventory.claims)):
        there = {(key[2], key[3]) for key in objects if key[1] == kind}
        if kind == "PersistentVolumeClaim":
            there |= {(kept.namespace, kept.claim) for kept in kept_ones(world) if not kept.bound}
        if there != {(item.namespace, item.name) for item in seen}:
            yield f"rule 4: {kind}: there are {len(there)}, {len(seen)} are counted"


def a_restart_rolls_no_pod(world: World) -> Iterator[str]:
    """Rule 3: neither a crash nor a lost disk; only a manifest or a human's hand changes what runs."""
    for lease, kept in world.memory.kept.items():
        sent, touched = len(world.memory.accepted.get(lease, ())), world.memory.touched[namespace_of(lease)]
        same = lease in world.alive() and (sent, touched) == (kept.sent, kept.touched)
        if same and kept.uid and world.pod(lease) != kept.uid:
            yield f"rule 3: the pod of lease {lease.dseq} was rolled, and its tenant had sent nothing"


def a_tenant_runs_what_he_sent(world: World) -> Iterator[str]:
    """Rule 5: never anything but an accepted version, under the label of the Manifest that brought it."""
    for lease in world.alive():
        versions = world.memory.versions.get(lease, {})
        label, image = world.version(lease)
        if image and image not in versions.values():
            yield f"rule 5: lease {lease.dseq} runs {image}, sent were {sorted(set(versions.values()))}"
        elif image and versions.get(label) != image:
            yield f"rule 3: lease {lease.dseq} runs {image} labelled {label}, which its tenant did not send as that"


def every_lease_says_why_it_waits(world: World) -> Iterator[str]:
    """Rule 6: a reason, and a look within a bounded time."""
    for lease, status in world.daemon.leases.statuses.items():
        if status.phase is not Phase.RUNNING and not status.reason:
            yield f"rule 6: lease {lease.dseq} is {status.phase} and says nothing"
        if "unexpected" in status.reason:
            yield f"rule 6: lease {lease.dseq}: {status.reason}"
    for lease in world.alive():
        since = max(world.memory.looked.get(lease, 0.0), world.daemon.started_at)
        if world.now - since > _LOOK_S:
            yield f"rule 6: lease {lease.dseq} was not looked at for {world.now - since:.0f} s"


def nothing_stays_added(world: World) -> Iterator[str]:
    """Drift, once all is calm: what a hand has added to a selector is gone, also where the newest manifest is
    blocked.
    """
    for key, obj in world.cluster.objects.items():
        if key[1] == "Service" and "somebody" in obj["spec"]["selector"]:
            yield f"drift: service {key[3]} of {key[2]} has a selector that nobody takes back"


def every_lease_is_looked_at(world: World) -> Iterator[str]:
    """Rule 6, once all is calm: by the resync alone, without any event."""
    for lease in world.alive():
        since = world.now - world.memory.looked.get(lease, 0.0)
        if since > _RESYNC_S:
            yield f"rule 6: lease {lease.dseq} was not looked at for {since:.0f} s, and all is calm"


def nothing_is_left_of_what_ended(world: World) -> Iterator[str]:
    """Rule 2."""
    for lease in world.ended():
        name = namespace_of(lease)
        left = [f"{key[1]} {key[3]}" for key in world.cluster.objects if name in (key[2], key[3]) or name in key[3]]
        left += [f"{key[1]} {key[3]}" for key, obj in world.cluster.objects.items() if _claims(obj, lease)]
        left += ["the stack"] if name in world.engine.state else []
        left += ["its promise"] if world.daemon.order_known(lease.order) else []
        if left:
            yield f"rule 2: lease {lease.dseq}/{lease.oseq} has ended and left {', '.join(left)}"
    used = {pool_name(obj["spec"]["sharing_key"]) for obj in _all(world, "ProviderLeasedIP")}
    for kind in ("IPAddressPool", "L2Advertisement"):
        for obj in _all(world, kind):
            if obj["metadata"]["name"] not in used:
                yield f"rule 2: {kind} {obj['metadata']['name']} is left, nobody has its address"


def _all(world: World, kind: str) -> list[dict[str, Any]]:
    return [obj for key, obj in world.cluster.objects.items() if key[1] == kind]


def _claims(obj: dict[str, Any], lease: LeaseId) -> bool:
    labels = obj["metadata"].get("labels") or {}
    wanted = {"owner": lease.owner, "dseq": lease.dseq, "gseq": lease.gseq, "oseq": lease.oseq}
    return obj["kind"] in ("ProviderHost", "ProviderLeasedIP") and all(
        labels.get(f"akash.network/lease.id.{name}") == str(value) for name, value in wanted.items()
    )


def no_bid_is_open_for_a_closed_order(world: World) -> Iterator[str]:
    """Rule 7."""
    for bid in world.chain.bid_states.values():
        mine = bid.id.provider == PROVIDER and bid.state is BidState.OPEN
        if mine and world.chain.orders[bid.id.order].state is not OrderState.OPEN:
            yield f"rule 7: the bid for order {bid.id.dseq} is open, the order is not"


def every_order_has_its_answer(world: World) -> Iterator[str]:
    """Rule 6: nothing that a fault or a budget held back is forgotten. A hold is in wall time, so it lasts longer where
    the clock went back by much.
    """
    book, now = world.daemon.market.book, world.clock.now()
    if min(world.clock.jumps, default=0.0) < -60:
        return
    for order in world.chain.orders.values():
        if order.state is not OrderState.OPEN or order.id.bid_by(PROVIDER) in world.chain.bid_states:
            continue
        held = book.held.get(order.id)
        waits = held is not None and held.until > now
        if waits or order.id not in book.declined:
            yield f"rule 6: order {order.id.dseq} is open, and has neither a bid nor a refusal"


def promises_are_what_the_chain_says(world: World) -> Iterator[str]:
    """Rules 3 and 4: whatever was forgotten is promised again, and nothing else."""
    bids = [b.id for b in world.chain.bid_states.values() if b.id.provider == PROVIDER and b.state is BidState.OPEN]
    wanted = {lease.order for lease in {*bids, *world.alive()}}
    have = set(world.daemon.ledger.orders())
    for order in wanted - have:
        yield f"rule 4: nothing is promised for order {order.dseq}"
    for order in have - wanted:
        yield f"rule 4: order {order.dseq} is still promised"


def every_lease_is_what_its_tenant_sent(world: World) -> Iterator[str]:
    """Rules 3, 5 and 6: the newest version runs, or the reason why not is told and the one before runs."""
    for lease in world.alive():
        groups = world.memory.accepted.get(lease)
        status = world.daemon.leases.statuses.get(lease)
        if status is None:
            yield f"rule 3: lease {lease.dseq} is active and nobody knows it"
        elif not groups:
            if status.phase is not Phase.WAITING_FOR_MANIFEST:
                yield f"rule 6: lease {lease.dseq} has no manifest and is {status.phase}"
        else:
            wanted = groups[-1].services[0].image if groups[-1].services else ""
            yield from _one(world.image(lease), wanted, f"lease {lease.dseq}", status.phase, status.reason)


def _one(image: str, wanted: str, lease: str, phase: Phase, reason: str) -> Iterator[str]:
    excused = phase is Phase.BLOCKED and any(text in reason for text in ("in use", "no free address", "hostname"))
    if wanted == BAD:
        if not excused and phase not in (Phase.FAILED, Phase.UPDATE_FAILED):
            yield f"rule 5: {lease} was sent a version that is refused, and is {phase}: {reason}"
        if phase is Phase.UPDATE_FAILED and image in ("", BAD):
            yield f"rule 5: {lease} runs {image or 'nothing'} instead of its previous version"
    elif not excused and (phase is not Phase.RUNNING or image != wanted):
        yield f"rule 6: {lease} should run {wanted}, runs {image or 'nothing'} and is {phase}: {reason}"


ALWAYS: tuple[Rule, ...] = (
    what_was_seen_at_once, the_daemon_lives, what_ran_runs_while_it_is_active, free_is_within_bounds,
    free_is_recounted, names_stay_with_their_owners, hostnames_have_one_route, a_tenant_runs_what_he_sent,
    every_lease_says_why_it_waits,
)  # fmt: skip
IN_THE_END: tuple[Rule, ...] = (
    *ALWAYS, migrations_end, nothing_is_left_of_what_ended, nothing_stays_added, volumes_go_in_time,
    restored_volumes_are_used, no_bid_is_open_for_a_closed_order, every_order_has_its_answer,
    promises_are_what_the_chain_says, the_picture_is_the_cluster, a_restart_rolls_no_pod,
    every_lease_is_what_its_tenant_sent,
)  # fmt: skip
LATER: tuple[Rule, ...] = (*IN_THE_END, every_lease_is_looked_at)


def broken(world: World, rules: tuple[Rule, ...]) -> list[str]:
    return [text for rule in rules for text in rule(world)]
