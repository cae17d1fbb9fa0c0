"""Volumes that outlive their lease: what a storage deletes and what operators give back, judged by rules 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from lease.ids import LeaseId
from lease.ids import namespace_name as _namespace_name
from provider.errors import ClusterError
from provider.records.manifests import BadRecordError
from provider.volumes.marks import KeptVolume, read_kept
from provider.volumes.restore import NotRestored, RestoreRequest

if TYPE_CHECKING:
    from tests.laws.simulation.world import World

__all__ = ["KEPT_S", "due_in", "kept_ones", "restore", "restored_volumes_are_used", "volumes_go_in_time", "was_deleted"]

KEPT_S = 240.0
_SLACK_S = 180.0
"""After its time: a minute in which a clock may not jump, ten seconds between looks, and a storage that is slow."""


def kept_ones(world: World) -> list[KeptVolume]:
    return [kept for _, obj in _volumes(world) if (kept := read_kept(obj)) is not None]


def _volumes(world: World) -> list[tuple[LeaseId | None, dict[str, Any]]]:
    """With the lease in whose namespace it is claimed."""
    ours = {_namespace_name(lease): lease for lease in (*world.alive(), *world.ended())}
    found = [obj for key, obj in world.cluster.objects.items() if key[1] == "PersistentVolume"]
    return [(ours.get(obj["spec"]["claimRef"]["namespace"]), obj) for obj in found]


def was_deleted(world: World, name: str) -> Iterator[str]:
    """At the very moment: the storage has deleted a volume. Whatever a human razed is his own doing."""
    lease, obj = next((lease, obj) for lease, obj in _volumes(world) if obj["metadata"]["name"] == name)
    kept = read_kept(obj)
    if kept is not None:
        if world.clock.latest() < kept.until:
            yield f"rule 2: volume {name} of lease {kept.lease.dseq} was deleted before its time"
    elif lease is not None and lease not in world.memory.razed:
        if lease in world.alive():
            yield f"rule 1: volume {name} of lease {lease.dseq} was deleted while it is active"
        elif world.keeps and world.memory.bound.get(name, 0.0) < world.chain.closed_at[lease]:
            yield f"rule 2: volume {name} of lease {lease.dseq} was not kept"


def volumes_go_in_time(world: World) -> Iterator[str]:
    """Rule 2: with their lease, or when their time is over."""
    for lease, obj in _volumes(world):
        kept, name = read_kept(obj), obj["metadata"]["name"]
        if kept is not None and world.clock.now() > kept.until + _SLACK_S:
            yield f"rule 2: the time of volume {name} of lease {kept.lease.dseq} is over, and it is still there"
        elif kept is None and lease not in world.alive():
            yield f"rule 2: volume {name} is nobody's, and is not marked"


def restored_volumes_are_used(world: World) -> Iterator[str]:
    """What an operator gave to a lease is what its claim has. A clock that jumps by a day ends that wait."""
    if sum(jump for jump in world.clock.jumps if jump > 0) > 20 * 3600:
        return
    for lease, kept in world.memory.restored.items():
        claim = world.cluster.objects.get(("v1", "PersistentVolumeClaim", _namespace_name(lease), kept.claim))
        if claim is None or lease not in world.alive() or lease in world.memory.razed:
            continue
        if (has := claim["spec"].get("volumeName")) != kept.name:
            yield f"rule 1: lease {lease.dseq} was given volume {kept.name} and has {has}"


def due_in(world: World) -> float:
    """Seconds until all that is kept must be gone, but for what waits a day for its claim; 0 when there is nothing."""
    times = [kept.until - world.clock.now() for kept in kept_ones(world)]
    return max((wait + 2 * _SLACK_S for wait in times if wait < 4 * 3600), default=0.0)


async def restore(world: World, random: Random) -> None:
    """An operator gives a kept volume to a lease that rents one; sometimes a fresh one must give way."""
    kept = sorted(kept_ones(world), key=lambda volume: volume.name)
    takers = sorted(lease for lease in world.alive() if world.persistent(lease.order))
    if not kept or not takers:
        return
    volume, into, swap = random.choice(kept), random.choice(takers), random.random() < 0.5
    wish = RestoreRequest(volume.lease, into, only=(volume.name,), force_owner=True, swap=swap)
    if swap:
        world.memory.swapped.add(into)
        world.memory.touched[_namespace_name(into)] += 1
    try:
        await world.daemon.leases.restore(wish)
    except (NotRestored, ClusterError, BadRecordError):
        return
    world.memory.restores += 1
    for lease in [lease for lease, other in world.memory.restored.items() if other.name == volume.name]:
        del world.memory.restored[lease]
    world.memory.restored[into] = volume
