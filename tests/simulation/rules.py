"""The seven rules of docs/architecture.md §2 as plain functions over a world; each yields what breaks it.

`ALWAYS` hold after every step, `IN_THE_END` once the faults have stopped and everything had its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lease.ids import namespace_name
from provider.chain.model import BidState, OrderState
from provider.lifecycle.state import Phase
from tests.provider.lifecycle.world import PROVIDER
from tests.simulation.world import BAD, NODE_CPU, NODES, World

__all__ = ["ALWAYS", "IN_THE_END", "broken"]

Rule = Callable[[World], Iterator[str]]
_LOOK_S = 900.0
"""Every lease is looked at again within this: the resync (300 s), a full queue and a slow engine between."""


def what_was_seen_at_once(world: World) -> Iterator[str]:
    """Rules 1 and 7 are watched at the removal and at the broadcast."""
    yield from world.memory.violations


def the_daemon_lives(world: World) -> Iterator[str]:
    if (why := world.daemon.ended()) is not None:
        yield f"rule 6: the daemon ended by itself: {why!r} {getattr(why, 'exceptions', '')}"


def what_ran_runs_while_it_is_active(world: World) -> Iterator[str]:
    """Rules 1 and 3."""
    for lease in world.alive():
        if world.workload(lease) in world.cluster.objects:
            world.memory.ran.add(lease)
        elif lease in world.memory.ran:
            yield f"rule 1: lease {lease.dseq} is active and was running, its workload is gone"


def free_is_within_bounds(world: World) -> Iterator[str]:
    """Rule 4: never negative, never above allocatable; and what we hold of the chain fits into the cluster."""
    inventory = world.daemon.inventory.inventory
    room = {node.name: node.room for node in inventory.nodes}
    for node in world.daemon.ledger.free(inventory).nodes:
        if not room[node.name].holds(node.room) or node.room.cpu_milli < 0:
            yield f"rule 4: {node.name} has {node.room} free of {room[node.name]}"
    bids = [b.id for b in world.chain.bid_states.values() if b.id.provider == PROVIDER and b.state is BidState.OPEN]
    held = sum(world.cpu(lease.order) for lease in {*bids, *world.alive()})
    if held > NODES * NODE_CPU:
        yield f"rule 4: {held} mCPU are promised on the chain, the cluster has {NODES * NODE_CPU}"


def a_tenant_runs_what_he_sent(world: World) -> Iterator[str]:
    """Rule 5: never anything but an accepted version."""
    for lease in world.alive():
        sent = {group.services[0].image for group in world.memory.accepted.get(lease, ()) if group.services}
        if (image := world.image(lease)) and image not in sent:
            yield f"rule 5: lease {lease.dseq} runs {image}, sent were {sorted(sent)}"


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


def nothing_is_left_of_what_ended(world: World) -> Iterator[str]:
    """Rule 2."""
    for lease in world.ended():
        name = namespace_name(lease)
        left = [f"{key[1]} {key[3]}" for key in world.cluster.objects if name in (key[2], key[3]) or name in key[3]]
        left += [f"{key[1]} {key[3]}" for key, obj in world.cluster.objects.items() if _claims(obj, lease.dseq)]
        left += ["the stack"] if name in world.engine.state else []
        left += ["its promise"] if world.daemon.order_known(lease.order) else []
        if left:
            yield f"rule 2: lease {lease.dseq} has ended and left {', '.join(left)}"


def _claims(obj: dict[str, object], dseq: int) -> bool:
    meta = obj["metadata"]
    assert isinstance(meta, dict)
    labels = meta.get("labels") or {}
    return obj["kind"] in ("ProviderHost", "ProviderLeasedIP") and labels.get("akash.network/lease.id.dseq") == str(
        dseq
    )


def no_bid_is_open_for_a_closed_order(world: World) -> Iterator[str]:
    """Rule 7."""
    for bid in world.chain.bid_states.values():
        mine = bid.id.provider == PROVIDER and bid.state is BidState.OPEN
        if mine and world.chain.orders[bid.id.order].state is not OrderState.OPEN:
            yield f"rule 7: the bid for order {bid.id.dseq} is open, the order is not"


def promises_are_what_the_chain_says(world: World) -> Iterator[str]:
    """Rules 3 and 4."""
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
    a_tenant_runs_what_he_sent, every_lease_says_why_it_waits,
)  # fmt: skip
IN_THE_END: tuple[Rule, ...] = (
    *ALWAYS, nothing_is_left_of_what_ended, no_bid_is_open_for_a_closed_order, promises_are_what_the_chain_says,
    every_lease_is_what_its_tenant_sent,
)  # fmt: skip


def broken(world: World, rules: tuple[Rule, ...]) -> list[str]:
    return [text for rule in rules for text in rule(world)]
