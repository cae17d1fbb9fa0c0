"""The recorded answers of a real node are read correctly (recordings/chain)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from akash.market.v1beta5 import query_pb2 as market_query

from provider.chain import codec, events, queries
from provider.chain.rpc import AbciAnswer, QueryError
from provider.protocols.chain import BidState, LeaseState, OrderState

Recorded = Callable[[str], list[dict[str, Any]]]


class Replay:
    """An `RpcClient` that answers one recorded query."""

    address = "recorded"

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        if self.entry.get("code"):
            raise QueryError(
                "recorded", path, codespace=self.entry["codespace"], code=self.entry["code"], log=self.entry["log"]
            )
        return AbciAnswer(base64.b64decode(self.entry["response"]), self.entry["height"])


def entries(recorded: Recorded, path: str) -> list[dict[str, Any]]:
    return [entry for entry in recorded("queries.jsonl") if entry["path"] == path and "request" in entry]


def test_every_recorded_order_and_its_group_survives_the_conversion(recorded: Recorded) -> None:
    seen = 0
    for entry in entries(recorded, "/akash.market.v1beta5.Query/Orders"):
        if entry.get("code"):
            continue
        for order in market_query.QueryOrdersResponse.FromString(base64.b64decode(entry["response"])).orders:
            spec = codec.group_from_pb(order.spec)
            assert codec.group_to_pb(spec) == order.spec
            assert codec.group_from_pb(codec.group_to_pb(spec)) == spec
            assert OrderState(order.state)
            seen += 1
    assert seen > 500


def test_recorded_bids_and_leases_have_prices_in_whole_tokens(recorded: Recorded) -> None:
    for entry in entries(recorded, "/akash.market.v1beta5.Query/Bids"):
        if not entry.get("code"):
            for item in market_query.QueryBidsResponse.FromString(base64.b64decode(entry["response"])).bids:
                price = codec.price_from_pb(item.bid.price)
                assert codec.price_to_pb(price) == item.bid.price
                assert price.amount < 10**7
                assert BidState(item.bid.state)
                held = queries._bid(item).deposit
                assert bool(held) == (item.bid.state in (BidState.OPEN, BidState.ACTIVE))
                assert all(one.amount >= 500_000 for one in held)
    for entry in entries(recorded, "/akash.market.v1beta5.Query/Leases"):
        if not entry.get("code"):
            for item in market_query.QueryLeasesResponse.FromString(base64.b64decode(entry["response"])).leases:  # type: ignore[assignment]
                assert LeaseState(item.lease.state)  # type: ignore[attr-defined]


async def test_a_recorded_not_found_is_none_and_every_other_refusal_is_an_error(recorded: Recorded) -> None:
    found = {"none": 0, "error": 0}
    for path, ask in {
        "/akash.market.v1beta5.Query/Order": queries.order,
        "/akash.market.v1beta5.Query/Bid": queries.bid,
        "/akash.deployment.v1beta4.Query/Deployment": queries.deployment,
        "/akash.deployment.v1beta4.Query/Group": queries.group,
    }.items():
        for entry in entries(recorded, path):
            if entry.get("code") == 22:
                assert await ask(Replay(entry), _any_id(path)) is None  # type: ignore[operator]
                found["none"] += 1
            elif entry.get("code"):
                with pytest.raises(QueryError):
                    await ask(Replay(entry), _any_id(path))  # type: ignore[operator]
                found["error"] += 1
            else:
                assert await ask(Replay(entry), _any_id(path)) is not None  # type: ignore[operator]
    assert found["none"] >= 3


def _any_id(path: str) -> Any:
    from lease.ids import OrderId

    order = OrderId("akash1x", 1, 1, 1)
    return {"Order": order, "Bid": order.bid_by("akash1y"), "Deployment": order.deployment, "Group": order.group}[
        path.rsplit("/", maxsplit=1)[-1]
    ]


async def test_a_recorded_unknown_provider_is_none(recorded: Recorded) -> None:
    seen = []
    for entry in entries(recorded, "/akash.provider.v1beta4.Query/Provider"):
        if entry.get("code") != 18:
            seen.append(await queries.provider(Replay(entry), "akash1x"))
    assert None in seen
    assert any(record is not None and record.host_uri.startswith("https://") for record in seen)


async def test_the_bidders_of_a_recorded_order_are_those_of_that_order_alone(recorded: Recorded) -> None:
    """Its chain takes three bids an order, and one more."""
    most, seen = 0, set()
    for entry in entries(recorded, "/akash.market.v1beta5.Query/Bids"):
        if entry.get("code"):
            continue
        reply = market_query.QueryBidsResponse.FromString(base64.b64decode(entry["response"]))
        reply.pagination.Clear()
        whole = {**entry, "response": base64.b64encode(reply.SerializeToString())}
        for order in {codec.lease_id_from_pb(item.bid.id).order for item in reply.bids}:
            found = await queries.bidders(Replay(whole), order)
            listed = [item.bid for item in reply.bids if codec.lease_id_from_pb(item.bid.id).order == order]
            assert found == {bid.id.provider: bid.state for bid in listed}
            most, seen = max(most, len(found)), seen | set(found.values())
    assert most == 4
    assert seen == set(BidState)


async def test_recorded_accounts_are_read(recorded: Recorded) -> None:
    accounts = [
        await queries.account(Replay(entry), "akash1x")
        for entry in entries(recorded, "/cosmos.auth.v1beta1.Query/Account")
        if entry.get("code") in (None, 22)
    ]
    assert None in accounts
    assert any(item is not None and item.public_key is not None and len(item.public_key) == 33 for item in accounts)


async def test_the_recorded_market_parameters_are_read(recorded: Recorded) -> None:
    (entry,) = entries(recorded, "/akash.market.v1beta5.Query/Params")
    found = await queries.market_params(Replay(entry))
    assert dict(found.bid_min_deposits) == {"uact": 500000, "uakt": 500000}
    assert found.order_max_bids == 3


def test_every_recorded_block_gives_its_events_in_order_and_none_of_failed_transactions(recorded: Recorded) -> None:
    kinds: dict[str, int] = {}
    for block in recorded("blocks.jsonl"):
        result = {"txs_results": block["txs"], "finalize_block_events": block.get("finalize_block_events")}
        answer = {"result": {"height": str(block["height"]), **result}}
        found = events.block_from_answer(block["height"], json.dumps(answer).encode())
        expected = [
            event["type"]
            for tx in block["txs"]
            if not tx["code"]
            for event in tx.get("events") or []
            if event["type"].startswith("akash.")
        ]
        expected += [item["type"] for item in block.get("finalize_block_events") or []]
        assert [event.type for event in found.events] == expected
        for event in found.events:
            kinds[event.type] = kinds.get(event.type, 0) + 1
            if event.type.startswith("akash.market.v1.EventLease"):
                lease = events.lease_id(event)
                assert lease is not None
                assert events.order_id(event) == lease.order
            elif event.type.startswith(("akash.market.v1.EventOrder", "akash.market.v1.EventBid")):
                assert events.order_id(event) is not None
            elif event.type.startswith("akash.deployment.v1.EventGroup"):
                assert events.group_id(event) is not None
            elif event.type.startswith("akash.deployment.v1.EventDeployment"):
                assert events.deployment_id(event) is not None
    assert {events.ORDER_CREATED, events.LEASE_CREATED, events.LEASE_CLOSED, events.GROUP_PAUSED} <= set(kinds)
