"""Known defects of counting and bidding, each planted by another implementation; the law must notice each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lease.groups import GroupSpec
from lease.ids import LeaseId, OrderId, namespace_name
from provider.inventory.ledger import free_snapshot
from provider.inventory.reservation import Reservation
from provider.inventory.snapshot import Inventory, Snapshot
from provider.protocols.chain import Bid, Message, TxResult
from provider.store.tables import decisions
from tests.laws.orders.world import US, Chain, Made, WatchedLedger
from tests.world.database import MemoryDatabase

__all__ = ["DEFECTS"]


class _NeverReleases(WatchedLedger):
    def release(self, order: OrderId) -> bool:
        return True


class _ReleasesAnother(WatchedLedger):
    def release(self, order: OrderId) -> bool:
        return super().release(next((other for other in self.orders() if other != order), order))


class _KeepsWhatIsLost(WatchedLedger):
    """A lost bid keeps its reservation on some orders."""

    def release(self, order: OrderId) -> bool:
        return super().release(order) if order.dseq % 3 else True


class _CountsTwiceAtBoot(WatchedLedger):
    """A rebuilt reservation counts beside its own pods."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._rebuilt: set[OrderId] = set()

    def rebuild(self, order: OrderId, spec: GroupSpec, **where: Any) -> Reservation:
        self._rebuilt.add(order)
        return super().rebuild(order, spec, **where)

    def free(self, inventory: Inventory) -> Snapshot:
        names = {namespace_name(order.bid_by(US)) for order in self._rebuilt}
        pods = tuple(replace(pod, namespace="") if pod.namespace in names else pod for pod in inventory.pods)
        return free_snapshot(replace(inventory, pods=pods), _held(self), provider=US)


class _CountsPodsTwice(WatchedLedger):
    """A reservation still counts when its pod has a node."""

    def free(self, inventory: Inventory) -> Snapshot:
        pods = tuple(replace(pod, namespace="") for pod in inventory.pods)
        return free_snapshot(replace(inventory, pods=pods), _held(self), provider=US)


class _CountsNothing(WatchedLedger):
    """Reservations without pods do not count."""

    def free(self, inventory: Inventory) -> Snapshot:
        return free_snapshot(inventory, (), provider=US)


class _CardsByNode(WatchedLedger):
    """A node with one free card has all its cards free."""

    def free(self, inventory: Inventory) -> Snapshot:
        found = super().free(inventory)
        cards = {node.name: node.cards for node in inventory.nodes}
        nodes = tuple(replace(node, cards=cards[node.name] if node.cards else ()) for node in found.nodes)
        return Snapshot(nodes, found.pools, found.free_addresses, found.free_node_ports)


class _ForgetsItsBids(Chain):
    async def bid(self, bid: LeaseId) -> Bid | None:
        return None


class _LeavesBids(Chain):
    """No bid is ever closed."""

    async def broadcast(self, messages: Sequence[Message]) -> TxResult:
        return await super().broadcast([one for one in messages if one.DESCRIPTOR.name != "MsgCloseBid"])


class _WritesNothing(MemoryDatabase):
    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Any]:
        async with super().writing() as connection:
            yield connection
            await connection.execute(decisions.delete())


def _held(ledger: WatchedLedger) -> list[Reservation]:
    return [found for order in ledger.orders() if (found := ledger.reservation(order))]


DEFECTS: dict[str, tuple[Made, tuple[str, ...]]] = {
    "release is forgotten": (Made(ledger=_NeverReleases), ("rule 4",)),
    "another order is released": (Made(ledger=_ReleasesAnother), ("rule 4",)),
    "some lost bids keep their reservation": (Made(ledger=_KeepsWhatIsLost), ("rule 4",)),
    "counted twice after a start": (Made(ledger=_CountsTwiceAtBoot), ("rule 4",)),
    "a pod is counted beside its reservation": (Made(ledger=_CountsPodsTwice), ("rule 4",)),
    "reservations are not counted": (Made(ledger=_CountsNothing), ("rule 4",)),
    "cards are counted by node": (Made(ledger=_CardsByNode), ("rule 4",)),
    "own bids are forgotten": (Made(chain=_ForgetsItsBids), ("rule 4", "rule 7")),
    "bids are left open": (Made(chain=_LeavesBids), ("rule 4", "rule 7")),
    "a bid has no decision": (Made(database=_WritesNothing), ("rule 7",)),
}
"""Defect → its implementation, and the rules of which one must notice it."""
