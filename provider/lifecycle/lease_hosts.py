"""The decision which hostnames of its manifest a lease serves, with the migrations of hostnames that go on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lease.ids import LeaseId
from lease.manifest import Group
from lease.spec import LeaseSpec
from provider.claims.foreign_routes import NO_ROUTES, foreign_routes, leaving_hosts
from provider.claims.hostnames import HostnameClaim, automatic_names, host_claims, other_owner, withheld_from
from provider.claims.leased_ips import AddressClaim
from provider.claims.moves import PendingMove
from provider.claims.released import NOTHING_RELEASED, released_hostnames
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.spec_maker import SpecInputs
from provider.protocols import Cluster
from provider.protocols.cluster import PROVIDER_HOST

__all__ = [
    "MIGRATED",
    "STILL_SERVED",
    "WantedHosts",
    "holder_text",
    "host_moves",
    "migrated_hosts",
    "new_hosts",
    "spec_hosts",
    "wanted_hosts",
]

MIGRATED = "it was migrated to another lease; it returns when it is migrated back or the manifest is sent again"
STILL_SERVED = "the lease that had it is still giving it back"


@dataclass(frozen=True, slots=True)
class WantedHosts:
    """`claims`: of every lease, by hostname. `withheld`: each hostname that the spec goes without, and why. `soon`: one
    of them is being given back, or waits for its proof. `moved`: those of them that were migrated away. `kept`:
    hostnames that the lease serves although they are migrating away: the edge takes two routes. `moves`: the migrations
    from and to this lease.
    """

    claims: Mapping[str, HostnameClaim]
    withheld: Mapping[str, str]
    soon: bool = False
    moved: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    moves: tuple[PendingMove, ...] = field(default=())


async def wanted_hosts(
    cluster: Cluster,
    inputs: SpecInputs,
    config: LifecycleConfig,
    *,
    now: float,
    unproved: Mapping[str, str] = {},
) -> WantedHosts:
    """The decision for one lease. `now`: Unix seconds. `unproved`: hostnames that the lease does not get while nobody
    has claimed them, and why. Raises `HostnameRefusedError` for a hostname that the lease may never have, and
    `ClusterError`.
    """
    lease, group = inputs.record.lease, inputs.record.group
    claims = host_claims(await cluster.list(PROVIDER_HOST, namespace=config.records))
    served = spec_hosts(inputs.previous)
    asked = _listed(group) | automatic_names(lease, group, config.hostnames)
    held = {host for host in asked & claims.keys() if claims[host].holder == lease.group}
    arrivals = _arriving(lease, held, claims)
    arriving = {move.name for move in arrivals}
    going = {host for host, claim in claims.items() if claim.holder != lease.group and claim.move.is_from(lease)}
    kept = frozenset(going & served) if config.routes_overlap else frozenset()
    withheld = await _withheld(cluster, inputs, config, claims=claims, now=now)
    withheld = {host: why for host, why in withheld.items() if host not in kept}
    waiting = {host: why for host, why in unproved.items() if host not in claims and host not in withheld}
    withheld |= waiting
    free = (inputs.withheld & _listed(group) | arriving) - withheld.keys()
    leaving = await leaving_hosts(cluster, free - arriving if config.routes_overlap else free, lease)
    withheld |= dict.fromkeys(leaving, STILL_SERVED)
    taken = migrated_hosts(lease, inputs.previous, claims, overlap=config.routes_overlap)
    return WantedHosts(
        claims,
        withheld,
        soon=bool(leaving or waiting),
        moved=frozenset(taken | inputs.moved & withheld.keys()),
        kept=kept,
        moves=(*arrivals, *_moves(going - kept, claims, arriving=False)),
    )


def migrated_hosts(
    lease: LeaseId, spec: LeaseSpec | None, claims: Mapping[str, HostnameClaim], *, overlap: bool
) -> set[str]:
    """The hostnames of `spec` that were migrated to another lease and that `lease` must give up now. `overlap`: the
    edge takes two routes, so that `lease` serves a hostname until its migration has ended.
    """
    gone = {host for host in spec_hosts(spec) & claims.keys() if claims[host].holder != lease.group}
    return {
        host for host in gone if claims[host].move.sequence > 1 and not (overlap and claims[host].move.is_from(lease))
    }


def host_moves(
    spec: LeaseSpec, claims: Mapping[str, HostnameClaim], *, overlap: bool
) -> tuple[frozenset[str], tuple[PendingMove, ...]]:
    """Of a version that runs: the hostnames that were migrated away and must be given up now, and the migrations to the
    lease of those that it serves.
    """
    gone = frozenset(migrated_hosts(spec.lease, spec, claims, overlap=overlap))
    return gone, _arriving(spec.lease, spec_hosts(spec), claims)


def _arriving(lease: LeaseId, hosts: Collection[str], claims: Mapping[str, HostnameClaim]) -> tuple[PendingMove, ...]:
    """The migrations to `lease` of those of the hostnames that it holds."""
    held = {host for host in hosts if host in claims and claims[host].holder == lease.group}
    return tuple(_moves({host for host in held if claims[host].move.arrives_at(lease)}, claims, arriving=True))


def _moves(hosts: Collection[str], claims: Mapping[str, HostnameClaim], *, arriving: bool) -> list[PendingMove]:
    return [PendingMove(PROVIDER_HOST, host, claims[host].move.sequence, arriving) for host in sorted(hosts)]


async def _withheld(
    cluster: Cluster, inputs: SpecInputs, config: LifecycleConfig, *, claims: Mapping[str, HostnameClaim], now: float
) -> dict[str, str]:
    """Each hostname that something else has, or that was migrated away, and why. A hostname that the lease went without
    before may go to another owner meanwhile: that is no trouble of the lease.
    """
    lease, group = inputs.record.lease, inputs.record.group
    automatic = automatic_names(lease, group, config.hostnames)
    wanted = _listed(group) | automatic
    others = {host: other_owner(host, lease.owner, claims) for host in wanted & (inputs.withheld | inputs.moved)}
    lost = {host for host, claim in others.items() if claim is not None}
    away = {host for host in wanted & inputs.moved if host not in claims}
    wanted -= lost | away
    mine = {host for host, claim in claims.items() if claim.holder == lease.group}
    rules, routes, releases = config.hostnames, NO_ROUTES, NOTHING_RELEASED
    if wanted - mine:
        routes = await foreign_routes(cluster)
        cooldown_s = rules.cooldown_s
        releases = await released_hostnames(cluster, namespace=config.records, now=now, cooldown_s=cooldown_s)
    automatic &= wanted
    taken = withheld_from(
        lease, wanted, claims=claims, rules=rules, automatic=automatic, routes=routes, releases=releases
    )
    holders = {host: claims.get(host) or others.get(host) for host in taken | lost}
    return {host: holder_text(lease, holder) for host, holder in holders.items()} | dict.fromkeys(away, MIGRATED)


def holder_text(lease: LeaseId, claim: HostnameClaim | AddressClaim | None) -> str:
    """Who has what `lease` does not get; the leases of other owners are not named."""
    if claim is None:
        return "something else in the cluster serves it"
    if claim.lease.owner != lease.owner:
        return "another lease has it"
    return f"lease {claim.lease.dseq}/{claim.lease.gseq}/{claim.lease.oseq} has it"


def spec_hosts(spec: LeaseSpec | None) -> set[str]:
    """The hostnames that a version serves."""
    return {host.hostname.lower() for host in spec.hostnames} if spec is not None else set()


def new_hosts(group: Group, lease: LeaseId, config: LifecycleConfig, *, claims: Collection[str]) -> set[str]:
    """The hostnames that the group lists and nobody has claimed, without the lease's automatic names."""
    return _listed(group) - automatic_names(lease, group, config.hostnames) - set(claims)


def _listed(group: Group) -> set[str]:
    exposes = (expose for service in group.services or () for expose in service.expose or () if expose.is_ingress)
    return {host.lower() for expose in exposes for host in expose.hosts or ()}
