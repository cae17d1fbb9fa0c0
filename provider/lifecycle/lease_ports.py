"""The decision which ports of leased addresses a lease serves and on which address, with the migrations of ports that
go on.

MetalLB gives a port of an address to one Service: the lease that a port leaves gives it up before its new holder
serves it. The address stays with the sharing key meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lease.addresses import leased_ip_name, pool_name
from lease.ids import LeaseId
from lease.spec import LeasedIpSpec, LeaseSpec
from provider.claims.addresses import choose_address, named_ranges, other_ranges, pool_addresses
from provider.claims.leased_ips import AddressClaim, address_claims, wanted_addresses
from provider.claims.moves import PendingMove
from provider.claims.pools import addresses_of_services, leaving_ports, list_pools, pool_of, served_addresses
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_hosts import MIGRATED, STILL_SERVED, holder_text
from provider.lifecycle.spec_maker import SpecInputs
from provider.protocols import Cluster
from provider.protocols.cluster import PROVIDER_LEASED_IP

__all__ = ["WantedPorts", "port_moves", "spec_addresses", "wanted_ports", "without_ports"]

_NO_ADDRESS = "0.0.0.0"  # noqa: S104 (no listener)


@dataclass(frozen=True, slots=True)
class WantedPorts:
    """`mine`: the claims of this lease, with their addresses. `addresses`: by sharing key. `pools`: the pool of each
    address that is in somebody else's. `remarks`: claim → why the lease goes without this port. `waits_for`: the claims
    of other leases among them. `soon`, `moved` and `moves`: as in `WantedHosts`.
    """

    mine: Sequence[AddressClaim] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    waits_for: frozenset[str] = frozenset()
    soon: bool = False
    moved: frozenset[str] = frozenset()
    moves: tuple[PendingMove, ...] = ()


async def wanted_ports(cluster: Cluster, inputs: SpecInputs, config: LifecycleConfig) -> WantedPorts:
    """The decision for one lease. Raises `AddressesExhaustedError` and `ClusterError`."""
    lease = inputs.record.lease
    wanted = {claim.name: claim for claim in wanted_addresses(lease, inputs.record.group)}
    if not wanted and not spec_addresses(inputs.previous):
        return WantedPorts()
    stored = address_claims(await cluster.list(PROVIDER_LEASED_IP, namespace=config.records))
    if not wanted:
        return WantedPorts(moved=migrated_ports(lease, inputs.previous, stored))
    foreign = {name: stored[name] for name in wanted if name in stored and stored[name].lease != lease}
    away = {name for name in wanted if name in inputs.moved and name not in stored}
    own = [replace(claim, move=stored[name].move) if name in stored else claim for name, claim in wanted.items()]
    own = [claim for claim in own if claim.name not in foreign and claim.name not in away]
    arriving = _arriving(lease, own)
    leaving = await leaving_ports(cluster, [claim for claim in own if claim.move.arrives_at(lease)], lease)
    kept = [claim for claim in own if claim.name not in leaving]
    listed = await list_pools(cluster, namespace=config.metallb_namespace)
    known = await _addresses(cluster, config, [*own, *foreign.values()], stored=stored, pools=listed)
    reasons = {name: f"{holder_text(lease, claim)} on the same IP endpoint" for name, claim in foreign.items()}
    reasons |= dict.fromkeys(sorted(away), MIGRATED) | dict.fromkeys(sorted(leaving), STILL_SERVED)
    return WantedPorts(
        mine=[claim.at(known[claim.key]) for claim in kept],
        addresses=dict.fromkeys((claim.key for claim in wanted.values()), _NO_ADDRESS) | known,
        pools={claim.key: pool for claim in kept if (pool := pool_of(known[claim.key], listed))},
        remarks={name: _remark(claim, reasons[name]) for name, claim in wanted.items() if name in reasons},
        waits_for=frozenset(foreign),
        soon=bool(leaving),
        moved=migrated_ports(lease, inputs.previous, stored) | frozenset(away | inputs.moved & foreign.keys()),
        moves=(*arriving, *_moves(_going(foreign.values(), lease), arriving=False)),
    )


def spec_addresses(spec: LeaseSpec | None) -> dict[str, str]:
    """Claim → address, of each port that a version serves."""
    return {_name(leased): leased.address for leased in spec.leased_ips} if spec is not None else {}


def without_ports(spec: LeaseSpec, names: Iterable[str]) -> LeaseSpec:
    """The version without the ports of these claims."""
    dropped = frozenset(names)
    kept = tuple(leased for leased in spec.leased_ips if _name(leased) not in dropped)
    return spec if kept == spec.leased_ips else spec.model_copy(update={"leased_ips": kept})


def _name(leased: LeasedIpSpec) -> str:
    return leased_ip_name(leased.sharing_key, proto=leased.proto.upper() or "TCP", external_port=leased.external_port)


async def _addresses(
    cluster: Cluster,
    config: LifecycleConfig,
    claims: Sequence[AddressClaim],
    *,
    stored: Mapping[str, AddressClaim],
    pools: Sequence[Mapping[str, Any]],
) -> dict[str, str]:
    """The address of each sharing key that has one, and of the keys of `claims`. The pool of a key keeps the address of
    a claim whose status was lost, and so does a Service whose address is in somebody else's pool.
    """
    known = {claim.key: claim.address for claim in stored.values() if claim.address}
    if {claim.key for claim in claims} - known.keys():
        served = await served_addresses(cluster)
        known = {key: address for key, address in served.items() if pool_of(address, pools)} | known
    missing = sorted({claim.key for claim in claims} - known.keys())
    outside = await addresses_of_services(cluster) if missing and config.ip_pools else frozenset()
    ranges = (*config.ip_ranges, *named_ranges(pools, config.ip_pools))
    others = other_ranges(pools, config.ip_pools)
    for key in missing:
        held = pool_addresses([pool for pool in pools if pool["metadata"]["name"] == pool_name(key)])
        taken = outside | set(known.values())
        known[key] = held[0].at(0) if held else choose_address(key, ranges=ranges, taken=taken, pools=others)
    return known


def migrated_ports(lease: LeaseId, spec: LeaseSpec | None, stored: Mapping[str, AddressClaim]) -> frozenset[str]:
    """The ports of `spec`, the version that runs, that were migrated to another lease, whether or not the newest
    manifest has them.
    """
    others = {name for name in spec_addresses(spec).keys() & stored.keys() if stored[name].lease != lease}
    return frozenset(name for name in others if stored[name].move.sequence > 1)


def port_moves(spec: LeaseSpec, stored: Mapping[str, AddressClaim]) -> tuple[frozenset[str], tuple[PendingMove, ...]]:
    """Of a version that runs: the ports that were migrated away, and the migrations to the lease of those that it
    serves.
    """
    mine = [stored[name] for name in spec_addresses(spec) if name in stored and stored[name].lease == spec.lease]
    return migrated_ports(spec.lease, spec, stored), _arriving(spec.lease, mine)


def _arriving(lease: LeaseId, claims: Iterable[AddressClaim]) -> tuple[PendingMove, ...]:
    """The migrations to `lease` of the claims that it holds."""
    return tuple(_moves([claim for claim in claims if claim.move.arrives_at(lease)], arriving=True))


def _going(foreign: Iterable[AddressClaim], lease: LeaseId) -> list[AddressClaim]:
    return [claim for claim in foreign if claim.move.is_from(lease)]


def _moves(claims: Iterable[AddressClaim], *, arriving: bool) -> list[PendingMove]:
    return [PendingMove(PROVIDER_LEASED_IP, claim.name, claim.move.sequence, arriving) for claim in claims]


def _remark(claim: AddressClaim, why: str) -> str:
    return f"port {claim.external_port}/{claim.proto} of service {claim.service} has no address: {why}"
