"""What was free, as a log of changes with a full picture now and then: a decision points into it.

One entry is the inventory less the ledger, so whatever changes either of them (a pod, a promise, its release) is one
small row: the nodes that are different, and the pools. A full row stands at the beginning of each hour, and where a
change could not say it exactly.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from provider.errors import StoreError
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import Node, Snapshot

__all__ = ["changes", "from_entries", "full"]


def full(snapshot: Snapshot) -> bytes:
    """Everything, for the beginning of an hour."""
    return _packed({"nodes": [_node_row(node) for node in snapshot.nodes], **_rest(snapshot)})


def changes(before: Snapshot, after: Snapshot) -> bytes | None:
    """What makes `after` of `before`; empty when nothing does, None when only a full entry can say it."""
    known = {node.name: node for node in before.nodes}
    changed = [node for node in after.nodes if known.pop(node.name, None) != node]
    if not changed and not known and _rest(before) == _rest(after):
        return b""
    document = {"set": [_node_row(node) for node in changed], "gone": sorted(known), **_rest(after)}
    return _packed(document) if _applied(before, document) == after else None


def from_entries(entries: Sequence[bytes]) -> Snapshot:
    """`entries`: a full one and the changes after it, in order. Raises `StoreError` when they cannot be read."""
    try:
        documents = [json.loads(zlib.decompress(entry)) for entry in entries]
        first = documents[0]
        snapshot = Snapshot(tuple(_node(row) for row in first["nodes"]), dict(first["pools"]), first["addresses"])
        for document in documents[1:]:
            snapshot = _applied(snapshot, document)
    except (zlib.error, ValueError, KeyError, TypeError, IndexError) as error:
        raise StoreError(f"what was free at the time of the decision cannot be read: {error!r}") from error
    return snapshot


def _applied(snapshot: Snapshot, document: dict[str, Any]) -> Snapshot:
    """Nodes that are new stand where their name belongs, as in every inventory of ours."""
    gone = set(document["gone"])
    nodes = {node.name: node for node in snapshot.nodes if node.name not in gone}
    count = len(nodes)
    nodes.update({row[0]: _node(row) for row in document["set"]})
    found: Iterable[Node] = nodes.values()
    if len(nodes) > count:
        found = sorted(found, key=lambda node: node.name)
    return Snapshot(tuple(found), dict(document["pools"]), document["addresses"])


def _packed(document: dict[str, Any]) -> bytes:
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)


def _rest(snapshot: Snapshot) -> dict[str, Any]:
    return {"pools": dict(snapshot.pools), "addresses": snapshot.free_addresses}


def _node_row(node: Node) -> list[Any]:
    room = node.room
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
