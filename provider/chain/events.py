"""Typed events out of `block_results`, and ids out of events (chain.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json

from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from provider.chain.model import Block, Event

__all__ = [
    "AUDITOR_CREATED", "AUDITOR_DELETED",
    "BID_CLOSED", "BID_CREATED", "DEPLOYMENT_CLOSED", "DEPLOYMENT_UPDATED", "GROUP_CLOSED", "GROUP_PAUSED",
    "LEASE_CLOSED",
    "LEASE_CREATED", "LEASE_RECLAIM_STARTED", "ORDER_CLOSED", "ORDER_CREATED", "PROVIDER_CREATED", "PROVIDER_UPDATED",
    "block_from_results",
    "deployment_id", "group_id", "lease_id", "order_id",
]  # fmt: skip

ORDER_CREATED = "akash.market.v1.EventOrderCreated"
ORDER_CLOSED = "akash.market.v1.EventOrderClosed"
BID_CREATED = "akash.market.v1.EventBidCreated"
BID_CLOSED = "akash.market.v1.EventBidClosed"
LEASE_CREATED = "akash.market.v1.EventLeaseCreated"
LEASE_CLOSED = "akash.market.v1.EventLeaseClosed"
LEASE_RECLAIM_STARTED = "akash.market.v1.EventLeaseReclaimStarted"
DEPLOYMENT_UPDATED = "akash.deployment.v1.EventDeploymentUpdated"
DEPLOYMENT_CLOSED = "akash.deployment.v1.EventDeploymentClosed"
GROUP_CLOSED = "akash.deployment.v1.EventGroupClosed"
GROUP_PAUSED = "akash.deployment.v1.EventGroupPaused"
PROVIDER_CREATED = "akash.provider.v1beta4.EventProviderCreated"
PROVIDER_UPDATED = "akash.provider.v1beta4.EventProviderUpdated"
AUDITOR_CREATED = "akash.audit.v1.EventTrustedAuditorCreated"
AUDITOR_DELETED = "akash.audit.v1.EventTrustedAuditorDeleted"

_NOT_FIELDS = frozenset({"msg_index", "mode"})
"""Added by the SDK; `mode` is not even JSON."""


def block_from_results(height: int, result: Mapping[str, Any], *, missed_from: int = 0) -> Block:
    """The Akash events of transactions that succeeded, in order, then those of the block itself. Raises ValueError if
    malformed.
    """
    events: list[Event] = []
    for tx in _objects(result.get("txs_results")):
        if not tx.get("code"):
            events.extend(_akash_events(tx.get("events")))
    events.extend(_akash_events(result.get("finalize_block_events")))
    return Block(height=height, events=tuple(events), missed_from=missed_from)


def _objects(value: object) -> Iterable[Mapping[str, Any]]:
    """A JSON list of objects; null is an empty list."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("expected a list of objects")
    return value


def _akash_events(value: object) -> Iterable[Event]:
    for item in _objects(value):
        kind = item.get("type")
        if isinstance(kind, str) and kind.startswith("akash."):
            yield Event(type=kind, fields=_fields(item))


def _fields(item: Mapping[str, Any]) -> dict[str, Any]:
    pairs = [(str(one.get("key")), one.get("value")) for one in _objects(item.get("attributes"))]
    return {key: from_json(value or "null") for key, value in pairs if key not in _NOT_FIELDS}


def deployment_id(event: Event) -> DeploymentId | None:
    """The deployment an event is about; None when its `id` has none or is malformed, which no honest node sends."""
    item = _id(event)
    return DeploymentId(str(item["owner"]), int(item["dseq"])) if _has(item, "owner", "dseq") else None


def group_id(event: Event) -> GroupId | None:
    item = _id(event)
    return (
        GroupId(str(item["owner"]), int(item["dseq"]), int(item["gseq"]))
        if _has(item, "owner", "dseq", "gseq")
        else None
    )


def order_id(event: Event) -> OrderId | None:
    """Of an order, bid or lease event."""
    item = _id(event)
    if not _has(item, "owner", "dseq", "gseq", "oseq"):
        return None
    return OrderId(str(item["owner"]), int(item["dseq"]), int(item["gseq"]), int(item["oseq"]))


def lease_id(event: Event) -> LeaseId | None:
    """Of a bid or lease event."""
    item, order = _id(event), order_id(event)
    return order.bid_by(str(item["provider"])) if order is not None and _has(item, "provider") else None


def _id(event: Event) -> Mapping[str, Any]:
    item = event.fields.get("id")
    return item if isinstance(item, Mapping) else {}


def _has(item: Mapping[str, Any], *names: str) -> bool:
    numbers = [str(item.get(name)) for name in names if name.endswith("seq")]
    texts = [item.get(name) for name in names if not name.endswith("seq")]
    return all(one.isascii() and one.isdigit() and len(one) <= 20 for one in numbers) and all(
        isinstance(one, str) for one in texts
    )
