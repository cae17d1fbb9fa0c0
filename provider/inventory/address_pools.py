"""MetalLB's pools over the addresses that may be leased: an address in one of them cannot be leased, since MetalLB
refuses a second pool with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from provider.claims.addresses import pool_addresses
from provider.claims.pools import is_lease_pool
from provider.units import AddressRange

__all__ = ["AddressPool", "address_pool", "log_pooled_addresses", "pooled_addresses"]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AddressPool:
    """One IPAddressPool. `of_lease`: a provider has made it for a sharing key."""

    name: str
    ranges: tuple[AddressRange, ...]
    of_lease: bool = False


def address_pool(obj: Mapping[str, Any]) -> AddressPool:
    return AddressPool(obj["metadata"]["name"], pool_addresses([obj]), is_lease_pool(obj))


def pooled_addresses(
    pools: Iterable[AddressPool], *, ranges: Sequence[AddressRange], claimed: Iterable[str]
) -> Mapping[AddressPool, int]:
    """Pool → how many addresses of `ranges` it holds that no claim of this provider has; pools without one are left
    out.
    """
    addresses = [ipaddress.ip_address(text) for text in claimed]
    found = {}
    for pool in pools:
        held = sum(_common(one, other) for one in pool.ranges for other in ranges)
        held -= sum(any(address in one for one in pool.ranges) for address in addresses)
        if held > 0:
            found[pool] = held
    return found


def _common(one: AddressRange, other: AddressRange) -> int:
    if one.first.version != other.first.version:
        return 0
    return max(0, min(int(one.last), int(other.last)) - max(int(one.first), int(other.first)) + 1)


def log_pooled_addresses(pooled: Mapping[str, int], logged: Mapping[str, int]) -> Mapping[str, int]:
    """Log the pools that are not in `logged` or hold another number of addresses. Returns the next `logged`."""
    for name, count in pooled.items():
        if logged.get(name) != count:
            _log.warning(
                "inventory.addresses_pooled",
                pool=name,
                addresses=count,
                remedy="MetalLB refuses them to leases: take them out of this pool or out of LESSOR_IP_RANGES",
            )
    return pooled
