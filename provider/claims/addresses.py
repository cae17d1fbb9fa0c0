"""The choice of the address for a sharing key (docs/architecture.md §5): from the operator's ranges, never one
in use.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from provider.errors import ProviderError
from provider.units import AddressRange, parse_address_range, usable_range

__all__ = ["AddressesExhaustedError", "choose_address", "named_ranges", "other_ranges", "pool_addresses"]

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_SEARCHED = 65536
"""The most candidates that are tried in one range: an IPv6 range is too large to try all."""


class AddressesExhaustedError(ProviderError):
    """Every address of `ip-ranges` is taken. The lease waits for one, other leases go on."""


def choose_address(
    key: str, *, ranges: Sequence[AddressRange], taken: Iterable[str], pools: Sequence[AddressRange]
) -> str:
    """The lowest free address of the first range that has one. Raises `AddressesExhaustedError`.

    `ranges`: of the settings, and of the operator's pools that the settings name. `pools` are the ranges of all other
    pools: MetalLB refuses a second pool that overlaps one.
    """
    held = {ipaddress.ip_address(address) for address in taken}
    for candidates in ranges:
        found = _first_free(candidates, held, pools)
        if found is not None:
            return str(found)
    size = sum(item.size for item in ranges)
    shown = ", ".join(f"{item.first}-{item.last}" for item in ranges) or "not set"
    raise AddressesExhaustedError(
        f"no free address for {key}: ip-ranges ({shown}) has {size}, all in use or in another pool of MetalLB; widen it"
    )


def named_ranges(pools: Iterable[Mapping[str, Any]], names: Collection[str]) -> tuple[AddressRange, ...]:
    """The addresses of the pools with these names that can be leased."""
    named = [pool for pool in pools if pool["metadata"]["name"] in names]
    return tuple(usable for one in pool_addresses(named) if (usable := usable_range(one)) is not None)


def other_ranges(pools: Iterable[Mapping[str, Any]], names: Collection[str]) -> tuple[AddressRange, ...]:
    """Every address of the pools with other names."""
    return pool_addresses(pool for pool in pools if pool["metadata"]["name"] not in names)


def pool_addresses(pools: Iterable[Mapping[str, Any]]) -> tuple[AddressRange, ...]:
    """Every range of every IPAddressPool in the cluster, whoever made it; a text that MetalLB refuses is no range."""
    texts = (str(text) for pool in pools for text in (pool.get("spec") or {}).get("addresses") or ())
    return tuple(found for text in texts if (found := _range(text)) is not None)


def _range(text: str) -> AddressRange | None:
    try:
        return parse_address_range(text)
    except ValueError:
        return None


def _first_free(candidates: AddressRange, held: set[_Address], pools: Sequence[AddressRange]) -> _Address | None:
    value = int(candidates.first)
    for _ in range(_SEARCHED):
        if value > int(candidates.last):
            break
        address = candidates.first + (value - int(candidates.first))
        pool = next((pool for pool in pools if address in pool), None)
        if pool is None and address not in held and address in candidates:
            return address
        value = int(pool.last) + 1 if pool is not None else value + 1
    return None
