"""What happens in a run, a list drawn from the seed that can be shortened: tenants, faults, crashes, hands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from random import Random

from lease.groups import GroupSpec
from lease.ids import LeaseId, OrderId
from lease.manifest import Group
from lease.resources import Attribute, Volume
from provider.protocols.chain import BidState, Order, OrderState
from tests.laws.simulation.cluster import WORKLOADS
from tests.laws.simulation.liars import DASHBOARD, lie, peer
from tests.laws.simulation.migrations import migrate
from tests.laws.simulation.volumes import restore
from tests.laws.simulation.world import BAD, World
from tests.provider.lifecycle.world import OTHER, OWNER, PROVIDER, a_group
from tests.provider.market.world import RIVAL, make_spec

__all__ = ["FAULTS", "Step", "draw", "take"]

FAULTS = (
    "node away", "node errors", "node behind", "node catching up", "not found", "wrong chain", "empty pages",
    "slow node", "lost answers", "lost blocks", "cluster away", "cluster errors", "conflicts", "slow cluster",
    "lost events", "repeated events", "late events", "slow namespaces", "crash loops", "engine errors",
    "engine killed", "engine locked", "engine too slow", "slow engine", "late answers", "disk full",
    "lying node",
)  # fmt: skip
_TENANTS = (*("order",) * 4, *("update",) * 12, *("close",) * 3, "drop")
_HANDS = ("by hand", "crash", "crash", "lose disk", "jump", "fees", "fees", "restore", "restore", "lie", "lie", "peer")
_FIRST = 3
_MIGRATING = 0.15
_NOT_OF_LEASES = ("lease", "metallb-system", DASHBOARD["metadata"]["name"])


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
    kinds = (*_TENANTS, *_HANDS, *("fault",) * 8)
    steps = [Step(0.1, "order", random.randrange(10**6)) for _ in range(_FIRST)]
    for _ in range(count):
        what = random.choice(kinds)
        what = random.choice(FAULTS) if what == "fault" else what
        gap = round(random.choice((0.2, 1.0, 10.0, 30.0)) * random.random(), 2)
        steps.append(Step(gap, what, random.randrange(10**6)))
    return _with_migrations(seed, steps)


def _with_migrations(seed: int, steps: list[Step]) -> list[Step]:
    """Migrations between the other steps, drawn by themselves: the other steps of a seed stay what they were."""
    random = Random(f"{seed} migrations")
    found = steps[:_FIRST]
    for step in steps[_FIRST:]:
        if random.random() < _MIGRATING:
            found.append(Step(round(10 * random.random(), 2), "migrate", random.randrange(10**6)))
        found.append(step)
    return found


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
    """A new deployment, or the next order of one whose lease has ended."""
    again = [lease.order for lease in world.ended() if not _has_order(world, lease.order)]
    if again and random.random() < 0.5:
        old = random.choice(sorted(again))
        order, spec = replace(old, oseq=old.oseq + 1), world.spec(old)
    else:
        order, spec = OrderId(random.choice((OWNER, OTHER)), len(world.chain.orders) + 1, 1, 1), _spec(random)
    world.chain.add_order(Order(order, OrderState.OPEN, spec, world.chain.height))
    world.spawn(_tenant(world, order, random))


def _has_order(world: World, order: OrderId) -> bool:
    return any(other.group == order.group and other.oseq > order.oseq for other in world.chain.orders)


def _spec(random: Random) -> GroupSpec:
    volumes = [Volume("default", 512 << 20)]
    if random.random() < 0.3:
        volumes.append(Volume("data", 1 << 30, (Attribute("class", "beta2"), Attribute("persistent", "true"))))
    return make_spec(
        cpu=random.choice((100, 300, 900)),
        ips=random.choice((0, 0, 1)),
        volumes=tuple(volumes),
        gpus=random.choice(((), (), (), ("vendor/nvidia/model/a100",))),
    )


async def _tenant(world: World, order: OrderId, random: Random) -> None:
    """Takes the first bid, seldom another's; sends the manifest soon, seldom never, and again when it is not taken."""
    if not await _takes(world, order, random) or random.random() < 0.04:
        return
    lease = order.bid_by(PROVIDER)
    first = _group(world, lease, random, bad=0.03)
    for _ in range(60):
        await asyncio.sleep(random.uniform(0.3, 4))
        if lease not in world.alive() or lease in world.memory.accepted or await world.send(lease, first):
            return


async def _takes(world: World, order: OrderId, random: Random) -> bool:
    """Whether our bid came within two minutes and was taken; most close an order without one."""
    bid = order.bid_by(PROVIDER)
    for _ in range(1500 if random.random() < 0.4 else 60):
        await asyncio.sleep(random.uniform(0.5, 3))
        if world.chain.orders[order].state is not OrderState.OPEN:
            return False
        found = world.chain.bid_states.get(bid)
        if found is not None and found.state is BidState.OPEN:
            ours = random.random() < 0.93
            world.chain.create_lease(bid if ours else order.bid_by(RIVAL))
            await world.chain.push()
            return ours
    world.chain.close_order(order)
    return False


async def _update(world: World, random: Random) -> None:
    having = [lease for lease in world.alive() if lease in world.memory.accepted]
    if having:
        lease = random.choice(sorted(having))
        await world.send(lease, _group(world, lease, random, bad=0.12))


async def _lie(world: World, random: Random) -> None:
    having = [lease for lease in world.alive() if lease in world.memory.accepted]
    if having:
        lease = random.choice(sorted(having))
        await lie(world, _group(world, lease, random, bad=0.0), lease, random)


def _group(world: World, lease: LeaseId, random: Random, *, bad: float) -> Group:
    """What fits the order: the volume, the cards and the room are as rented, all else is the tenant's choice."""
    rented = world.spec(lease.order).units[0].resources
    hosts = [f"{lease.dseq}.example.com", *random.sample(["a.example.com", "b.example.com"], random.choice((0, 0, 1)))]
    ip = random.choice(("", "meow", "purr")) if rented.endpoints else ""
    image = BAD if random.random() < bad else random.choice(("nginx:1", "nginx:2", "nginx:3"))
    group = a_group(
        image, hosts=hosts if random.random() < 0.7 else (), ip=ip, ip_port=8000 + lease.dseq,
        volume_bytes=(1 << 30) if world.persistent(lease.order) else 0,
    )  # fmt: skip
    services = tuple(
        replace(
            service,
            resources=replace(
                service.resources,
                cpu_milli=rented.cpu_milli,
                gpu_units=rented.gpu_units,
                gpu_attributes=rented.gpu_attributes,
            ),
        )
        for service in group.services or ()
    )
    return replace(group, services=services)


async def _close(world: World, random: Random) -> None:
    if world.alive():
        world.chain.close_lease(random.choice(sorted(world.alive())))


async def _drop(world: World, random: Random) -> None:
    """An order without a lease is closed."""
    still = [order.id for order in world.chain.orders.values() if order.state is OrderState.OPEN]
    if still:
        world.chain.close_order(random.choice(sorted(still)))


ADDED = {"somebody": "else"}
"""A label that a hand adds to a Service's selector: it then selects no pod, and no field of the stack has changed."""


async def _by_hand(world: World, random: Random) -> None:
    """Somebody deletes or edits an object of a lease."""
    kinds = ("Deployment", "StatefulSet", "Service", "Ingress", "Namespace", "ProviderHost", "IPAddressPool")
    ours = sorted(key for key in world.cluster.objects if key[1] in kinds and key[3] not in _NOT_OF_LEASES)
    if not ours:
        return
    key = random.choice(ours)
    world.touch(key)
    world.cluster.actor = "human"
    obj = world.cluster.objects[key]
    if key[1] in WORKLOADS and random.random() < 0.5:
        world.cluster.put({**obj, "spec": {**obj["spec"], "replicas": 0}})
    elif key[1] == "Service" and random.random() < 0.5:
        world.cluster.put({**obj, "spec": {**obj["spec"], "selector": {**obj["spec"]["selector"], **ADDED}}})
    else:
        world.cluster.remove(key)
    world.cluster.actor = "us"


async def _crash(world: World, random: Random) -> None:
    await asyncio.sleep(random.uniform(0, 3))
    await world.restart()


async def _lose_disk(world: World, random: Random) -> None:
    await world.restart(lose_disk=True)


async def _fees(world: World, random: Random) -> None:
    """For a while no bid can be paid, or only what closes, or nothing at all."""
    await world.fees.use_up(random.choice((0.75, 0.95, 1.0)), seconds=random.uniform(20, 120))


async def _jump(world: World, random: Random) -> None:
    world.clock.jump(random.choice((-3600.0, -30.0, 30.0, 3600.0, 86400.0)))


_DO: dict[str, Callable[[World, Random], Awaitable[None]]] = {
    "order": _order, "update": _update, "close": _close, "drop": _drop,
    "by hand": _by_hand, "crash": _crash, "lose disk": _lose_disk, "jump": _jump, "fees": _fees, "restore": restore,
    "lie": _lie, "peer": peer, "migrate": migrate,
}  # fmt: skip
