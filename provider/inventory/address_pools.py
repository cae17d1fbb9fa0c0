"""MetalLB's pools over the addresses that may be leased: an address in one of them cannot be leased, since MetalLB
refuses a second pool with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from provider.claims.addresses import pool_addresses
from provider.claims.pools import is_lease_pool, service_addresses
from provider.kube.labels import lease_of
from provider.units import AddressRange, usable_range

__all__ = [
    "AddressPool",
    "address_pool",
    "leasable_addresses",
    "log_pooled_addresses",
    "outside_addresses",
    "pooled_addresses",
]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AddressPool:
    """One IPAddressPool. `of_lease`: a provider has made it for a sharing key."""

    name: str
    ranges: tuple[AddressRange, ...]
    of_lease: bool = False


def address_pool(obj: Mapping[str, Any]) -> AddressPool:
    return AddressPool(obj["metadata"]["name"], pool_addresses([obj]), is_lease_pool(obj))


def outside_addresses(service: Mapping[str, Any]) -> frozenset[str] | None:
    """The addresses of a Service that is of no lease; None for none."""
    return service_addresses(service) or None if lease_of(service) is None else None


def pooled_addresses(
    pools: Iterable[AddressPool], *, ranges: Sequence[AddressRange], claimed: Iterable[str]
) -> Mapping[AddressPool, int]:
    """Pool → how many addresses of `ranges` it holds that no claim of this provider has; pools without one are left
    out.
    """
    addresses = [ipaddress.ip_address(text) for text in claimed]
    found = {}
    for pool in pools:
        held = sum(one.common(other) for one in pool.ranges for other in ranges)
        held -= sum(any(address in one for one in pool.ranges) for address in addresses)
        if held > 0:
            found[pool] = held
    return found


def leasable_addresses(
    pools: Iterable[AddressPool],
    *,
    ranges: Sequence[AddressRange],
    names: Collection[str],
    claimed: Iterable[str] = (),
    outside: Iterable[str] = (),
) -> tuple[int, Mapping[AddressPool, int]]:
    """How many addresses can be leased at all: those of `ranges` that no other pool holds, and those of the operator's
    pools with these `names` that no Service outside the leases has (`outside`). Beside it what other pools hold of
    `ranges`.
    """
    known = tuple(pools)
    named = (one for pool in known if pool.name in names for one in pool.ranges)
    own = [usable for one in named if (usable := usable_range(one)) is not None]
    others = (pool for pool in known if pool.name not in names)
    held = pooled_addresses(others, ranges=ranges, claimed=claimed)
    count = sum(one.size for one in ranges) - sum(held.values())
    count += sum(one.size for one in own) - sum(one.common(other) for one in own for other in ranges)
    used = {ipaddress.ip_address(text) for text in outside}
    return count - sum(any(address in one for one in own) for address in used), held


def log_pooled_addresses(pooled: Mapping[str, int], logged: Mapping[str, int]) -> Mapping[str, int]:
    """Log the pools that are not in `logged` or hold another number of addresses. Returns the next `logged`."""
    for name, count in pooled.items():
        if logged.get(name) != count:
            _log.warning(
                "inventory.addresses_pooled",
                pool=name,
                addresses=count,
                remedy="MetalLB refuses them to leases: take them out of this pool or out of LESSOR_IP_RANGES, or name "
                "the pool in LESSOR_IP_POOLS",
            )
    return pooled
