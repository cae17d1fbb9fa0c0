"""Decimals and resource values on the wire (chain.md §2), and events that no honest node sends."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from akash.base.resources.v1beta4 import types_pb2 as resources_pb
from hypothesis import given
from hypothesis import strategies as st

from lease.ids import OrderId
from provider.chain import codec, events, messages
from provider.protocols.chain import Event
from provider.units import Coin
from tests.provider.chain.world import spec


@pytest.mark.parametrize(
    ("amount", "wire"),
    [("23", f"23{0:018}"), ("0.5", "500000000000000000"), ("1e-18", "1"), ("0", "0"), ("-1.5", f"-15{0:017}")],
)
def test_a_decimal_is_a_whole_number_of_its_eighteenth_place(amount: str, wire: str) -> None:
    assert codec.dec_to_wire(Decimal(amount)) == wire
    assert codec.dec_from_wire(wire) == Decimal(amount)


@pytest.mark.parametrize("text", ["23.0", "1e5", "٣", " 1", "--1", "-", "0x10", "1" * 101])
def test_an_invalid_wire_decimal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="wire"):
        codec.dec_from_wire(text)


def test_more_than_eighteen_places_are_refused_rather_than_cut() -> None:
    with pytest.raises(ValueError, match="18 decimal places"):
        codec.dec_to_wire(Decimal("0.0000000000000000001"))


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=0, max_value=10**18, places=18))
def test_decimals_survive_the_wire(amount: Decimal) -> None:
    assert codec.dec_from_wire(codec.dec_to_wire(amount)) == amount


def test_a_resource_value_is_ascii_digits() -> None:
    assert codec.resources_to_pb(spec().units[0].resources).cpu.units.val == b"100"
    assert codec.resources_to_pb(spec().units[0].resources).HasField("gpu")


@pytest.mark.parametrize("value", [b"-1", b"1.0", b"\xff", b"1" * 81, b" 1"])
def test_a_resource_value_that_is_not_a_number_is_refused(value: bytes) -> None:
    message = resources_pb.Resources(id=1, cpu=resources_pb.CPU(units=resources_pb.ResourceValue(val=value)))
    with pytest.raises(ValueError, match="whole number"):
        codec.resources_from_pb(message)


def test_an_order_with_an_endpoint_of_an_unknown_kind_is_refused() -> None:
    message = codec.resources_to_pb(spec().units[0].resources)
    message.endpoints.add(kind=7)
    with pytest.raises(ValueError, match="unknown endpoint kind 7"):
        codec.resources_from_pb(message)


def test_a_bid_message_carries_price_deposit_and_offer() -> None:
    order = OrderId("akash1t", 7, 1, 1)
    group = spec("12.5", count=2)
    bid = messages.create_bid(
        order.bid_by("akash1p"), price=group.units[0].price, deposit=Coin("uakt", Decimal(500000)), offer=group.units
    )
    assert bid.price.amount == "12500000000000000000"  # type: ignore[attr-defined]
    assert (bid.deposit.amount.denom, bid.deposit.amount.amount, list(bid.deposit.sources)) == ("uakt", "500000", [1])  # type: ignore[attr-defined]
    assert (bid.id.provider, bid.id.bseq) == ("akash1p", 0)  # type: ignore[attr-defined]
    assert [(item.resources.id, item.count) for item in bid.resources_offer] == [(1, 2)]  # type: ignore[attr-defined]
    assert messages.close_bid(order.bid_by("akash1p")).reason == 10002  # type: ignore[attr-defined]
    close = messages.close_bid(order.bid_by("akash1p"), reason=messages.CloseReason.MANIFEST_TIMEOUT)
    assert close.reason == 10003  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": None},
        {"id": "x"},
        {"id": []},
        {"id": {"owner": "a", "dseq": "-1", "gseq": 1, "oseq": 1}},
        {"id": {"owner": "a", "dseq": "1" * 21, "gseq": 1, "oseq": 1}},
        {"id": {"owner": 5, "dseq": "1", "gseq": 1, "oseq": 1}},
        {"id": {"owner": "a", "dseq": "1", "gseq": None, "oseq": 1}},
        {"id": {"owner": "a", "dseq": "1", "gseq": True, "oseq": 1}},
    ],
)
def test_an_event_with_a_malformed_id_has_no_id(fields: dict[str, object]) -> None:
    event = Event(events.ORDER_CREATED, fields)
    assert events.order_id(event) is None
    assert events.lease_id(event) is None


def answer(result: object, **more: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result, **more}).encode()


def event(*attributes: object, kind: object = "akash.x") -> dict[str, object]:
    return {"type": kind, "attributes": list(attributes)}


@pytest.mark.parametrize(
    "text",
    [
        answer({"height": "5", "txs_results": "x"}),
        answer({"height": "5", "txs_results": [1]}),
        answer({"height": "5", "txs_results": [{"code": 0, "events": [event({"key": "id", "value": "{"})]}]}),
        answer({"height": "5", "txs_results": [{"code": 0, "events": event()}]}),
        answer({"height": "5", "txs_results": [{"code": "0"}]}),
        answer({"height": "5", "finalize_block_events": [event(kind=7)]}),
        answer({"height": "5", "finalize_block_events": [event("id")]}),
        answer({"height": "5", "finalize_block_events": [event({"value": "1"})]}),
        answer({"height": "5"}, error={"code": -32603}),
        answer({"height": "6"}),
        answer({"height": "9" * 5000}),
        answer({"height": None}),
        answer({}),
        answer(None),
        answer({"height": "5", "txs_results": None})[:-1],
        answer({"height": "5"}) + b"}",
        b'{"result":{"height":"5","x":' + b"[" * 100_000,
        b'{"result":{"height":"5","finalize_block_events":[{"type":"akash.x\xff"}]}}',
        b"",
    ],
    ids=lambda text: repr(text)[30:80],
)
def test_results_that_cannot_be_read_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        events.block_from_answer(5, text)


def test_index_and_mode_are_not_fields() -> None:
    attributes = [
        {"key": "id", "value": json.dumps({"owner": "a"}), "index": True},
        {"key": "msg_index", "value": "0"},
        {"key": "mode", "value": "EndBlock"},
        {"key": "empty", "value": None},
    ]
    text = answer({"height": "5", "txs_results": None, "finalize_block_events": [event(*attributes), {"type": "tx"}]})
    assert events.block_from_answer(5, text).events == (Event("akash.x", {"id": {"owner": "a"}, "empty": None}),)


def test_an_event_of_another_module_is_not_decoded() -> None:
    """Its attributes may have any form, as long as the answer is JSON."""
    found = [event("x", 7, kind="tx"), {"type": "transfer", "attributes": "none"}, event(kind="akash.y")]
    text = answer({"height": "5", "txs_results": [{"code": 0, "events": found}], "validator_updates": [[]]})
    assert events.block_from_answer(5, text).events == (Event("akash.y", {}),)
