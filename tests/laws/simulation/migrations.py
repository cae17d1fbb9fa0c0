"""Hostnames that tenants migrate between their leases, and the laws of their claims and routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from lease.ids import LeaseId
from lease.manifest import Group
from provider.claims.hostnames import HostnameClaim, host_claims
from provider.claims.moves import read_move
from provider.errors import ProviderError
from provider.kube.labels import lease_of
from provider.lifecycle.state import Phase

if TYPE_CHECKING:
    from tests.laws.simulation.world import World

__all__ = ["hostnames_have_one_route", "migrate", "migrations_end", "unordered_move"]

_SHARED = ("a.example.com", "b.example.com")


async def migrate(world: World, random: Random) -> None:
    """A tenant has a hostname migrated to another of its leases, whose manifest asks for it, seldom back at once."""
    having = sorted(lease for lease in world.alive() if lease in world.memory.accepted)
    pairs = [(one, two) for one in having for two in having if one != two and one.owner == two.owner]
    if pairs:
        source, destination = random.choice(pairs)
        host = random.choice((f"{source.dseq}.example.com", f"{destination.dseq}.example.com", *_SHARED))
        world.spawn(_migrate(world, host, (source, destination), random))


async def _migrate(world: World, host: str, leases: tuple[LeaseId, LeaseId], random: Random) -> None:
    for lease in leases:
        group = _asking(world.memory.accepted[lease][-1], host)
        if lease not in world.alive() or not await world.send(lease, group):
            return
    source, destination = leases
    targets = (destination, source) if random.random() < 0.3 else (destination,)
    for target in targets:
        claim = HostnameClaim(host, target, "web", 80)
        with suppress(ProviderError):
            if not _of_another(world, host, target):
                world.memory.migrations += 1
                await world.daemon.leases.claims.migrate_hosts(target, [claim])


def _of_another(world: World, host: str, lease: LeaseId) -> bool:
    claim = _claims(world).get(host)
    return claim is not None and claim.lease.owner != lease.owner


def _asking(group: Group, host: str) -> Group:
    """The group, with this hostname too."""
    (service,) = group.services or ()
    first, *others = service.expose or ()
    hosts = tuple(dict.fromkeys((*(first.hosts or ()), host)))
    return replace(group, services=(replace(service, expose=(replace(first, hosts=hosts), *others)),))


def _claims(world: World) -> dict[str, HostnameClaim]:
    return host_claims(obj for key, obj in world.cluster.objects.items() if key[1] == "ProviderHost")


def unordered_move(before: Mapping[str, Any] | None, obj: Mapping[str, Any]) -> str:
    """Each change of a claim's holder has the next sequence number; what is wrong, empty when nothing is."""
    if obj["kind"] != "ProviderHost" or before is None:
        return ""
    old, new = lease_of(before), lease_of(obj)
    if old is None or new is None or old.group == new.group:
        return ""
    earlier, later = read_move(before).sequence, read_move(obj).sequence
    return "" if later == earlier + 1 else f"rule 2: {obj['metadata']['name']} moved from {earlier} to {later}"


def _routes(world: World) -> Mapping[str, set[LeaseId]]:
    """The living leases that publish each hostname."""
    namespaces = {world.namespace(lease): lease for lease in world.alive()}
    found: dict[str, set[LeaseId]] = defaultdict(set)
    for key, obj in world.cluster.objects.items():
        if key[1] == "Ingress" and key[2] in namespaces and not world.cluster.terminating(key[2]):
            for rule in obj["spec"]["rules"]:
                found[rule["host"]].add(namespaces[key[2]])
    return found


def hostnames_have_one_route(world: World) -> Iterator[str]:
    """Rule 2: two living leases publish one hostname only where the edge takes two routes, and only of one owner. A
    claim that somebody has deleted by hand is free for the next one.
    """
    for host, leases in _routes(world).items():
        if len(leases) < 2 or host in world.memory.unclaimed:
            continue
        shown = ", ".join(str(lease.dseq) for lease in sorted(leases))
        if len({lease.owner for lease in leases}) > 1:
            yield f"rule 2: leases {shown} of two owners publish {host}"
        elif not world.overlap:
            yield f"rule 2: leases {shown} publish {host}, which the edge refuses"
        elif len(leases) > 2 or not world.memory.migrations:
            yield f"rule 2: leases {shown} publish {host}, and it does not migrate"


def migrations_end(world: World) -> Iterator[str]:
    """Rule 6, once all is calm: no migration goes on; the holder of a claim publishes its hostname, and nobody else."""
    routes = _routes(world)
    for host, claim in _claims(world).items():
        status = world.daemon.leases.statuses.get(claim.lease)
        if claim.lease not in world.alive() or status is None or status.phase is not Phase.RUNNING:
            continue
        if claim.move.source is not None:
            yield f"rule 6: {host} still migrates from lease {claim.move.source.dseq} to {claim.lease.dseq}"
        if routes.get(host, set()) != {claim.lease}:
            shown = sorted(lease.dseq for lease in routes.get(host, set()))
            yield f"rule 2: lease {claim.lease.dseq} has the claim on {host}, leases {shown} publish it"
