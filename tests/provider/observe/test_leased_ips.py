"""Leased addresses in the provider's status (gateway.md §11 52–54)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from akash.inventory.v1 import types_pb2

from lease.ids import OrderId, namespace_name
from provider.gateway.grpc.status_message import status_message
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Inventory
from provider.observe.provider_status import provider_status
from tests.provider.inventory.test_ledger import US, cluster, promised, spec


def _order(number: int) -> OrderId:
    return OrderId("akash1tenant", number, 1, 1)


def _ledger(inventory: Inventory, *addresses: int) -> Ledger:
    """A reservation of so many addresses each; order 1 is the first."""
    ledger = Ledger(US)
    for number, count in enumerate(addresses, start=1):
        one = promised(inventory, spec(ips=count), _order(number))
        found = one.reservation(_order(number))
        assert found is not None
        ledger.reserve(found)
    return ledger


def _pair(inventory: Inventory, ledger: Ledger) -> tuple[str, str, str]:
    status = provider_status(ledger, inventory, {}, open_orders=0)
    message = status_message(status, public_hostname="", reclamation_window_ns=0, now=0.0)
    pair = message.cluster.inventory.leased_ip
    return pair.allocatable.string, pair.capacity.string, pair.allocated.string


def _used(number: int, count: int) -> dict[str, frozenset[str]]:
    """So many addresses that the lease of an order has already."""
    space = namespace_name(_order(number).bid_by(US))
    return {f"203.0.113.{number}{each}": frozenset((space,)) for each in range(count)}


def test_addresses_in_use_and_promised_ones_are_allocated_and_none_counts_twice() -> None:
    """Ten addresses; four in use, three of them by the lease of a reservation; two reservations of two and one wait."""
    everything = cluster(64_000, address_count=10)
    ledger = _ledger(everything, 2, 3, 1)
    inventory = replace(everything, addresses=_used(2, 3) | _used(9, 1))
    assert _pair(inventory, ledger) == ("10", "10", "7")
    assert ledger.free(inventory).free_addresses == 3


def test_more_promised_than_there_is_leaves_none_and_the_status_names_no_more_than_there_is() -> None:
    """Three addresses; two in use and four promised. The Go provider shows six of three as allocated."""
    ledger = _ledger(cluster(64_000, address_count=10), 4)
    inventory = replace(cluster(64_000, address_count=3), addresses=_used(9, 2))
    assert _pair(inventory, ledger) == ("3", "3", "3")
    assert ledger.free(inventory).free_addresses == 0


@pytest.mark.parametrize(("capacity", "allocatable", "allocated"), [("10", "10", "6")])
def test_a_pair_of_quantities_is_the_same_after_the_wire(capacity: str, allocatable: str, allocated: str) -> None:
    pair = types_pb2.ResourcePair()
    pair.capacity.string, pair.allocatable.string, pair.allocated.string = capacity, allocatable, allocated
    found = types_pb2.ResourcePair.FromString(pair.SerializeToString())
    assert found == pair
    assert int(found.allocatable.string) - int(found.allocated.string) == 4
