"""What happens in a run, a list drawn from the seed that can be shortened: tenants, faults, crashes, hands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random

from lease.ids import LeaseId, OrderId
from lease.manifest import Group
from provider.chain.model import Order, OrderState
from tests.provider.lifecycle.world import OTHER, OWNER, a_group
from tests.provider.market.world import RIVAL, make_spec
from tests.simulation.world import BAD, World

__all__ = ["FAULTS", "Step", "draw", "take"]

FAULTS = (
    "node away", "node errors", "node behind", "node catching up", "not found", "wrong chain", "empty pages",
    "slow node", "lost answers", "lost blocks", "cluster away", "cluster errors", "conflicts", "slow cluster",
    "lost events", "repeated events", "late events", "slow namespaces", "crash loops", "engine errors",
    "engine killed", "engine locked", "engine too slow", "slow engine", "late answers", "disk full",
)  # fmt: skip
_TENANTS = ("order", "order", "take", "take", "take", "send", "send", "send", "update", "update", "close", "drop")
_HANDS = ("by hand", "crash", "lose disk", "jump")


@dataclass(frozen=True)
class Step:
    """After `gap` virtual seconds `what` happens; all its choices come from `seed`, so that others may be left out."""

    gap: float
    what: str
    seed: int

    def __str__(self) -> str:
        return f"+{self.gap:.1f} s {self.what} (choices {self.seed})"


def draw(seed: int, count: int) -> list[Step]:
    random = Random(seed)
    kinds = (*_TENANTS, *_TENANTS, *_HANDS, *("fault",) * 8)
    steps = [Step(0.1, "order", random.randrange(10**6)) for _ in range(3)]
    for _ in range(count):
        what = random.choice(kinds)
        what = random.choice(FAULTS) if what == "fault" else what
        steps.append(
            Step(round(random.choice((0.2, 1.0, 6.0, 20.0)) * random.random(), 2), what, random.randrange(10**6))
        )
    return steps


async def take(world: World, step: Step) -> None:
    """Let the time pass, then do it; a block follows what the tenants did."""
    await asyncio.sleep(step.gap)
    random = Random(step.seed)
    if step.what in FAULTS:
        world.faults.start(step.what, random.uniform(1, 40))
        return
    await _DO[step.what](world, random)
    await world.chain.push()


async def _order(world: World, random: Random) -> None:
    number = len(world.chain.orders) + 1
    owner = random.choice((OWNER, OTHER))
    spec = make_spec(cpu=random.choice((100, 500, 900)), ips=random.choice((0, 0, 1)))
    world.chain.add_order(Order(OrderId(owner, number, 1, 1), OrderState.OPEN, spec, world.chain.height))


async def _take(world: World, random: Random) -> None:
    """A tenant takes our bid, rarely another's."""
    ready = [bid for bid in world.chain.bid_states if world.chain.orders[bid.order].state is OrderState.OPEN]
    ready = [bid for bid in ready if world.chain.bid_states[bid].state.name == "OPEN"]
    if ready:
        bid = random.choice(sorted(ready))
        world.chain.create_lease(bid if random.random() < 0.85 else bid.order.bid_by(RIVAL))


async def _send(world: World, random: Random) -> None:
    waiting = [lease for lease in world.alive() if lease not in world.memory.accepted]
    if waiting:
        lease = random.choice(sorted(waiting))
        await world.send(lease, _group(world, lease, random))


async def _update(world: World, random: Random) -> None:
    having = [lease for lease in world.alive() if lease in world.memory.accepted]
    if having:
        lease = random.choice(sorted(having))
        await world.send(lease, _group(world, lease, random))


def _group(world: World, lease: LeaseId, random: Random) -> Group:
    hosts = random.sample(["a.example.com", "b.example.com", "c.example.com"], random.randint(0, 2))
    ip = random.choice(("", "meow")) if any(u.resources.endpoints for u in world.spec(lease.order).units) else ""
    group = a_group(random.choice(("nginx:1", "nginx:2", "nginx:3", BAD)), hosts=hosts, ip=ip)
    rented = tuple(
        replace(service, resources=replace(service.resources, cpu_milli=world.cpu(lease.order)))
        for service in group.services or ()
    )
    return replace(group, services=rented)


async def _close(world: World, random: Random) -> None:
    if world.alive():
        world.chain.close_lease(random.choice(sorted(world.alive())))


async def _drop(world: World, random: Random) -> None:
    """An order without a lease is closed."""
    still = [order.id for order in world.chain.orders.values() if order.state is OrderState.OPEN]
    if still:
        world.chain.close_order(random.choice(sorted(still)))


async def _by_hand(world: World, random: Random) -> None:
    """Somebody deletes or edits an object of a lease."""
    kinds = ("Deployment", "Service", "Ingress", "Namespace", "ProviderHost")
    ours = sorted(key for key in world.cluster.objects if key[1] in kinds and key[3] not in ("lease", "metallb-system"))
    if not ours:
        return
    key = random.choice(ours)
    world.cluster.actor = "human"
    if key[1] == "Deployment" and random.random() < 0.5:
        obj = world.cluster.objects[key]
        world.cluster.put({**obj, "spec": {**obj["spec"], "replicas": 0}})
    else:
        world.cluster.remove(key)
    world.cluster.actor = "us"


async def _crash(world: World, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 3))
    await world.restart()


async def _lose_disk(world: World, random: Random) -> None:
    await world.restart(lose_disk=True)


async def _jump(world: World, random: Random) -> None:
    world.clock.jump(random.choice((-3600.0, -30.0, 30.0, 3600.0, 86400.0)))


_DO: dict[str, Callable[[World, Random], Awaitable[None]]] = {
    "order": _order, "take": _take, "send": _send, "update": _update, "close": _close, "drop": _drop,
    "by hand": _by_hand, "crash": _crash, "lose disk": _lose_disk, "jump": _jump,
}  # fmt: skip
