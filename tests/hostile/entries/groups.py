"""Where a GroupSpec message enters: an order of the chain, and the anonymous call `BidScreening`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import grpc
from akash.deployment.v1beta4 import types_pb2 as deployment_pb
from akash.market.v1beta5 import query_pb2, types_pb2
from akash.provider.v1 import service_pb2

from lease.groups import GroupSpec
from provider.chain import queries
from provider.chain.connection import AbciAnswer
from provider.chain.group_size import MOST_PARTS, MOST_TEXT, MOST_UNITS
from provider.gateway.grpc.bid_screening import BidScreening
from provider.gateway.verdict import Verdict
from provider.inventory.snapshot import Snapshot
from provider.market.decision import DecisionInputs, Declined
from provider.market.explanation import explain
from tests.hostile.corpus import EntryPoint
from tests.provider.market.world import RECORD, RULES, make_order

__all__ = ["ENTRY_POINTS"]


def _sizes(specs: list[GroupSpec]) -> dict[str, int]:
    units = [unit.resources for spec in specs for unit in spec.units]
    attributes = [item for spec in specs for item in spec.requirements.attributes or ()]
    signed = [spec.requirements.signed_by for spec in specs]
    return {
        "units converted": len(units),
        "parts converted": len(attributes)
        + sum(len(one.all_of or ()) + len(one.any_of or ()) for one in signed)
        + sum(len(one.storage or ()) + len(one.endpoints or ()) for one in units),
        "characters converted": sum(len(item.key) + len(item.value) for item in attributes)
        + sum(len(spec.name) for spec in specs),
    }


_MOST = {"units converted": MOST_UNITS, "parts converted": MOST_PARTS, "characters converted": MOST_TEXT}


class _Node:
    """A node that lists one order with this group."""

    address = "fake"

    def __init__(self, spec: Any) -> None:
        order = types_pb2.Order(spec=spec, state="open")
        self._value = query_pb2.QueryOrdersResponse(orders=[order]).SerializeToString()

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        return AbciAnswer(self._value, 1)


async def _order(data: bytes, _: Path) -> Mapping[str, int]:
    found = await queries.open_orders(_Node(deployment_pb.GroupSpec.FromString(data)))
    return _sizes([order.spec for order in found])


class _Context:
    """The part of grpc's context that is used."""

    def peer(self) -> str:
        return "ipv4:192.0.2.1:1"

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        raise _Aborted(text)


class _Aborted(Exception):
    pass


async def _screening(data: bytes, _: Path) -> Mapping[str, int]:
    """Without the listener's limit of bytes, which would hide the limit of units."""
    converted: list[GroupSpec] = []

    async def screen(spec: GroupSpec) -> Verdict:
        converted.append(spec)
        inputs = DecisionInputs(make_order(), RECORD, snapshot=Snapshot(()), rules=RULES, audits={})
        decision = explain(inputs).decision
        assert isinstance(decision, Declined)
        return Verdict(decision.reasons)

    request = service_pb2.BidScreeningRequest(group_spec=deployment_pb.GroupSpec.FromString(data))
    try:
        await BidScreening(screen).answer(request, _Context())
    except _Aborted as refused:
        assert len(str(refused)) <= 400
    return _sizes(converted)


ENTRY_POINTS = (
    EntryPoint("an order of the chain", "group", _order, _MOST),
    EntryPoint("BidScreening", "group", _screening, _MOST),
)
