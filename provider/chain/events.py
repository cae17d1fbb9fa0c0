"""Typed events in the answer to `block_results`, and the ids in events (chain.md §8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from pydantic_core import from_json

from lease.ids import DeploymentId, GroupId, LeaseId, OrderId
from provider.protocols.chain import Block, Event

__all__ = [
    "AUDITOR_CREATED", "AUDITOR_DELETED",
    "BID_CLOSED", "BID_CREATED", "DEPLOYMENT_CLOSED", "DEPLOYMENT_UPDATED", "GROUP_CLOSED", "GROUP_PAUSED",
    "LEASE_CLOSED",
    "LEASE_CREATED", "LEASE_RECLAIM_STARTED", "ORDER_CLOSED", "ORDER_CREATED", "PROVIDER_CREATED", "PROVIDER_UPDATED",
    "block_from_answer",
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
_BELOW = {"dseq": 2**64, "gseq": 2**32, "oseq": 2**32}


class _Attribute(msgspec.Struct, gc=False):
    key: str
    value: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str
    attributes: msgspec.Raw = msgspec.Raw(b"null")
    """Not decoded: most events of a block are not Akash events."""


class _Tx(msgspec.Struct, gc=False):
    code: int = 0
    events: list[_Event] | None = None


class _Results(msgspec.Struct, gc=False):
    height: str | int
    txs_results: list[_Tx] | None = None
    finalize_block_events: list[_Event] | None = None


class _Answer(msgspec.Struct, gc=False):
    """The JSON-RPC answer to `block_results`. Building a full block as dicts takes five times as long."""

    result: _Results
    error: object = None


_ANSWER = msgspec.json.Decoder(_Answer)
_ATTRIBUTES = msgspec.json.Decoder(list[_Attribute] | None)


def block_from_answer(height: int, text: bytes) -> Block:
    """The Akash events of successful transactions in order, then those of the block itself. `text`: the body of the
    answer to `block_results`. Raises ValueError when it is malformed, an error, or for another height.
    """
    try:
        return Block(height=height, events=tuple(_events(height, text)))
    except RecursionError as error:
        raise ValueError("the answer is nested too deeply") from error


def _events(height: int, text: bytes) -> Iterable[Event]:
    answer = _ANSWER.decode(text)
    if answer.error or int(answer.result.height) != height:
        raise ValueError(f"it is for height {answer.result.height!r}")
    for tx in answer.result.txs_results or ():
        if not tx.code:
            yield from _akash_events(tx.events)
    yield from _akash_events(answer.result.finalize_block_events)


def _akash_events(found: Iterable[_Event] | None) -> Iterable[Event]:
    return (Event(type=one.type, fields=_fields(one)) for one in found or () if one.type.startswith("akash."))


def _fields(event: _Event) -> dict[str, Any]:
    return {
        one.key: from_json(one.value or "null")
        for one in _ATTRIBUTES.decode(event.attributes) or ()
        if one.key not in _NOT_FIELDS
    }


def deployment_id(event: Event) -> DeploymentId | None:
    """The deployment in an event's `id`; None when the id lacks one or is malformed, which no honest node sends."""
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
    """The order in the id of an order, bid or lease event, else None."""
    item = _id(event)
    if not _has(item, "owner", "dseq", "gseq", "oseq"):
        return None
    return OrderId(str(item["owner"]), int(item["dseq"]), int(item["gseq"]), int(item["oseq"]))


def lease_id(event: Event) -> LeaseId | None:
    """The lease in the id of a bid or lease event, else None."""
    item, order = _id(event), order_id(event)
    return order.bid_by(str(item["provider"])) if order is not None and _has(item, "provider") else None


def _id(event: Event) -> Mapping[str, Any]:
    item = event.fields.get("id")
    return item if isinstance(item, Mapping) else {}


def _has(item: Mapping[str, Any], *names: str) -> bool:
    """Whether all fields are present and valid. A number beyond its protobuf field could not be queried."""
    numbers = [(str(item.get(name)), _BELOW[name]) for name in names if name in _BELOW]
    texts = [item.get(name) for name in names if name not in _BELOW]
    return all(
        one.isascii() and one.isdigit() and len(one) <= 20 and int(one) < below for one, below in numbers
    ) and all(isinstance(one, str) for one in texts)
