"""A tenant and a peer that lie: hostnames of others, automatic names before their lease, manifests beyond what is
rented, and questions about orders that nobody could have.

What a lying tenant sends goes past the gateway, so that the lease loop alone must stand. What the gateway's trial build
must refuse never gets that far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from lease.build import SpecSettings
from lease.ids import LeaseId, auto_hostname
from lease.manifest import Group, Params, StorageMount
from provider.claims.hostnames import HostnameRules
from provider.errors import ProviderError
from provider.gateway.trial_build import trial_build
from provider.kube.labels import lease_of
from provider.lifecycle.spec_maker import SpecMaker
from provider.market.screening import Screening
from provider.protocols.cluster import INGRESS
from provider.records.manifests import ManifestRecord
from tests.provider.lifecycle.world import OTHER, OWNER
from tests.provider.market.world import make_spec

if TYPE_CHECKING:
    from tests.laws.simulation.world import World

__all__ = ["DASHBOARD", "NAMES", "STATIC", "lie", "names_stay_with_their_owners", "peer", "stolen_from"]

_DOMAIN = "in.example.com"
_PUBLIC = "provider.example.com"
_GRAFANA = "grafana.example.com"
NAMES = HostnameRules((), _PUBLIC, _DOMAIN, True)
STATIC = SpecSettings(static_hosts=True, ingress_domain=_DOMAIN)
DASHBOARD: Mapping[str, Any] = {
    "apiVersion": INGRESS.api_version,
    "kind": INGRESS.kind,
    "metadata": {"name": "grafana", "namespace": "metallb-system"},
    "spec": {"rules": [{"host": _GRAFANA}]},
}
"""An operator's own service on the shared edge."""


async def lie(world: World, group: Group, lease: LeaseId, random: Random) -> None:
    """The tenant of `lease`, whose honest manifest would be `group`, tries to get what is not the tenant's."""
    world.memory.lies += 1
    if random.random() < 0.3:
        await _overreach(world, group, lease, random)
        return
    name = random.choice(_wanted(world, lease, random))
    (service,) = group.services or ()
    first, *others = service.expose or ()
    await world.send(
        lease, replace(group, services=(replace(service, expose=(replace(first, hosts=(name,)), *others)),))
    )


def _wanted(world: World, lease: LeaseId, random: Random) -> list[str]:
    """The provider's names, an operator's, and those of other tenants' leases and of the next one."""
    coming = replace(lease, owner=OWNER if lease.owner == OTHER else OTHER, dseq=len(world.chain.orders) + 1)
    names = [_PUBLIC, _DOMAIN, f"shop.{_DOMAIN}", "localhost", _GRAFANA, auto_hostname(coming, "web", _DOMAIN)]
    for other in (other for other in sorted(world.alive()) if other.owner != lease.owner):
        names += [auto_hostname(other, "web", _DOMAIN), f"{other.dseq}.example.com"]
    return names


async def _overreach(world: World, group: Group, lease: LeaseId, random: Random) -> None:
    """More than is rented: the gateway's trial build refuses each of these."""
    (service,) = group.services or ()
    first, *others = service.expose or ()
    lies = (
        replace(service, count=0),
        replace(service, expose=(first, replace(first, port=9000, external_port=9000, ip="x" * 260), *others)),
        replace(service, params=Params(storage=(StorageMount("default", "/proc", False),))),
    )
    record = ManifestRecord(lease, replace(group, services=(random.choice(lies),)), {})
    if not await trial_build(SpecMaker(world.daemon.specs.facts, STATIC))(record):
        world.memory.violations.append(f"rule 4: lease {lease.dseq} gets more than it rents")


async def peer(world: World, random: Random) -> None:
    """A question about an order of absurd size, which promises nothing."""
    cpu, count = random.choice((1, 10**9, 2**31)), random.choice((1, 200))
    before = set(world.daemon.ledger.orders())
    with suppress(ProviderError):
        await Screening(world.daemon.market).screen(make_spec(cpu=cpu, count=count), owner=OTHER)
    promised = set(world.daemon.ledger.orders()) - before - set(world.chain.orders)
    if promised:
        world.memory.violations.append(f"rule 4: a question promised {promised}")


def names_stay_with_their_owners(world: World) -> Iterator[str]:
    """No claim is on a name of the provider's or the operator's, nor on another lease's automatic name."""
    for key, obj in world.cluster.objects.items():
        if key[1] != "ProviderHost" or (lease := lease_of(obj)) is None:
            continue
        own = key[3] == auto_hostname(lease, "web", _DOMAIN)
        below = key[3] == _DOMAIN or key[3].endswith(f".{_DOMAIN}")
        if (below and not own) or key[3] in (_PUBLIC, _GRAFANA) or "." not in key[3]:
            yield f"rule 2: lease {lease.dseq} has the name {key[3]}"


def stolen_from(before: Mapping[str, Any] | None, obj: Mapping[str, Any]) -> str:
    """What is wrong when `obj` is written over `before`; empty when nothing is."""
    if obj["kind"] != "ProviderHost" or before is None:
        return ""
    old, new = lease_of(before), lease_of(obj)
    if old is None or new is None or old.owner == new.owner:
        return ""
    return f"rule 2: the claim on {obj['metadata']['name']} went from lease {old.dseq} to {new.dseq}"
