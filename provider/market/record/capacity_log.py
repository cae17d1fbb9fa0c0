"""The free capacity as a log of changes; a decision points to an entry of it.

The free capacity is the inventory less the reservations. A pod, a reservation or a release changes few nodes, so most
entries hold the changed nodes and the storage pools only. The first entry of each hour is a full one, and so is an
entry whose changes would not give the exact capacity.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from provider.errors import StoreError
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import NODE_PORTS, Node, Snapshot
from provider.store.async_engine import AsyncConnection
from provider.store.tables import capacity_log

__all__ = ["CapacityLog", "change_entry", "full_entry", "snapshot_at", "snapshot_from"]

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Last:
    """The last entry with the capacity that it gives; `full_at`: when the last full entry was made, Unix seconds."""

    snapshot: Snapshot
    entry: int
    full_at: float


class CapacityLog:
    """Makes the entries of one process."""

    def __init__(self) -> None:
        self._last: _Last | None = None

    def forget(self) -> None:
        """The next entry is a full one: after a transaction that failed, or rows that were removed."""
        self._last = None

    def entry(self, snapshot: Snapshot, *, now: float, rows: list[dict[str, Any]], first: int) -> int:
        """The number of the entry that gives `snapshot`. A new entry is added to `rows`, whose numbers begin at
        `first`.
        """
        last = self._last
        if last is not None and last.snapshot is snapshot:
            return last.entry
        body = None if last is None or now - last.full_at >= _HOUR_S else change_entry(last.snapshot, snapshot)
        if last is not None and body == b"":
            self._last = replace(last, snapshot=snapshot)
            return last.entry
        entry, whole = first + len(rows), body is None
        rows.append({"id": entry, "at": now, "full": whole, "body": full_entry(snapshot) if body is None else body})
        self._last = _Last(snapshot, entry, now if last is None or whole else last.full_at)
        return entry


async def snapshot_at(connection: AsyncConnection, entry: int) -> Snapshot:
    """The free capacity that an entry gives. Raises `StoreError` when it is not kept any more or cannot be read."""
    begin = select(capacity_log.c.id).where(capacity_log.c.id <= entry, capacity_log.c.full)
    first = (await connection.execute(begin.order_by(capacity_log.c.id.desc()).limit(1))).scalar_one_or_none()
    if first is None:
        raise StoreError("the free capacity at the time of the decision is not kept any more")
    rows = select(capacity_log.c.body).where(capacity_log.c.id.between(first, entry)).order_by(capacity_log.c.id)
    return snapshot_from([bytes(body) for body in (await connection.execute(rows)).scalars()])


def full_entry(snapshot: Snapshot) -> bytes:
    """The whole capacity."""
    return _packed({"nodes": [_node_row(node) for node in snapshot.nodes], **_rest(snapshot)})


def change_entry(before: Snapshot, after: Snapshot) -> bytes | None:
    """The changes from `before` to `after`: empty when there are none, None when only a full entry gives `after`."""
    known = {node.name: node for node in before.nodes}
    changed = [node for node in after.nodes if known.pop(node.name, None) != node]
    if not changed and not known and _rest(before) == _rest(after):
        return b""
    document = {"set": [_node_row(node) for node in changed], "gone": sorted(known), **_rest(after)}
    return _packed(document) if _applied(before, document) == after else None


def snapshot_from(entries: Sequence[bytes]) -> Snapshot:
    """The capacity that a full entry and the changes after it give, in this order. Raises `StoreError` when an entry
    cannot be read.
    """
    try:
        documents = [json.loads(zlib.decompress(entry)) for entry in entries]
        first = documents[0]
        nodes = tuple(_node(row) for row in first["nodes"])
        snapshot = Snapshot(nodes, dict(first["pools"]), first["addresses"], first.get("node_ports", NODE_PORTS))
        for document in documents[1:]:
            snapshot = _applied(snapshot, document)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise StoreError(f"the free capacity at the time of the decision cannot be read: {error!r}") from error
    return snapshot


def _applied(snapshot: Snapshot, document: dict[str, Any]) -> Snapshot:
    """A new node is placed by its name, as in every inventory."""
    gone = set(document["gone"])
    nodes = {node.name: node for node in snapshot.nodes if node.name not in gone}
    count = len(nodes)
    nodes.update({row[0]: _node(row) for row in document["set"]})
    found: Iterable[Node] = nodes.values()
    if len(nodes) > count:
        found = sorted(found, key=lambda node: node.name)
    ports = document.get("node_ports", NODE_PORTS)
    return Snapshot(tuple(found), dict(document["pools"]), document["addresses"], ports)


def _packed(document: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)


def _rest(snapshot: Snapshot) -> dict[str, Any]:
    rest = {"pools": dict(snapshot.pools), "addresses": snapshot.free_addresses}
    return rest | {"node_ports": snapshot.free_node_ports}


def _node_row(node: Node) -> list[Any]:
    room = node.capacity
    cards = [
        [card.vendor, card.model, card.memory_size, card.interface, len(list(alike))]
        for card, alike in itertools.groupby(node.cards)
    ]
    amounts = [room.cpu_milli, room.memory_bytes, room.ephemeral_bytes, room.pods]
    return [node.name, *amounts, cards, list(node.storage_classes)]


def _node(row: list[Any]) -> Node:
    name, cpu, memory, ephemeral, pods, runs, classes = row
    cards = tuple(Card(*run[:4]) for run in runs for _ in range(run[4]))
    return Node(name, Capacity(cpu, memory, ephemeral, pods), cards, tuple(classes))
