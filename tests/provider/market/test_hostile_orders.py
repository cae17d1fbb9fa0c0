"""Orders as large and as strange as a transaction can hold: declined at once, and no other order waits for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import pytest

from lease.groups import GroupSpec, Requirements, ResourceUnit, SignedBy
from lease.resources import Attribute, Endpoint, Price, Resources, Volume
from provider.chain.group_size import MOST_PARTS, MOST_TEXT, MOST_UNITS
from provider.inventory.capacity import Capacity, Overcommit
from provider.inventory.matcher import place
from provider.inventory.reservation import Shortage
from provider.inventory.snapshot import Node, Snapshot
from provider.market.decision import DecisionInputs, Declined, checked_decision
from provider.market.explanation import explain
from tests.provider.market.world import GI, MI, RECORD, RULES, make_order, order_id

pytestmark = pytest.mark.virtual_time

_DISK = (Volume("default", 5 * MI),)
_ROOM = Snapshot(tuple(Node(f"n{index}", Capacity(64_000, 64 * GI, 64 * GI, 110)) for index in range(12)))


def units(count: int, *, volumes: tuple[Volume, ...] = _DISK, endpoints: int = 0) -> tuple[ResourceUnit, ...]:
    ports = (Endpoint(),) * endpoints
    small = (Resources(index, 10, MI, volumes, endpoints=ports) for index in range(1, count + 1))
    return tuple(ResourceUnit(one, 1, Price("uact", Decimal(1))) for one in small)


def group(parts: Iterable[ResourceUnit], *, attributes: int = 0, length: int = 8, auditors: int = 0) -> GroupSpec:
    wanted = tuple(Attribute(f"*{'a' * length}{index}", "true") for index in range(attributes))
    signed_by = SignedBy(any_of=tuple(f"akash1{index}" for index in range(auditors)))
    return GroupSpec("g", Requirements(signed_by, wanted or None), tuple(parts))


def classes(count: int) -> tuple[Volume, ...]:
    return tuple(
        Volume(f"v{at}", 5 * MI, (Attribute("class", f"c{at}"), Attribute("persistent", "true"))) for at in range(count)
    )


TOO_LARGE = {
    "10,000 units": (group(units(10_000)), f"10000 units, at most {MOST_UNITS}"),
    "one unit too many": (group(units(MOST_UNITS + 1)), f"{MOST_UNITS + 1} units"),
    "10,000 classes": (group(units(1, volumes=classes(10_000))), f"30000 attributes.*at most {MOST_PARTS}"),
    "10,000 endpoints": (group(units(1, endpoints=10_000)), "10001 attributes"),
    "8,000 patterns": (group(units(1), attributes=8_000), "8001 attributes"),
    "5,000 auditors": (group(units(1), auditors=5_000), "5001 attributes"),
    "one long pattern": (group(units(1), attributes=1, length=900_000), f"900006 characters, at most {MOST_TEXT}"),
}


@pytest.mark.parametrize(("spec", "words"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_an_order_of_no_sensible_size_is_declined_for_it_and_compared_with_nothing(spec: GroupSpec, words: str) -> None:
    order = replace(make_order(), spec=spec)
    decision, checks = checked_decision(DecisionInputs(order, RECORD, snapshot=_ROOM, rules=RULES, audits={}))
    assert isinstance(decision, Declined)
    assert [check.name for check in checks] == ["wallet", "order", "tenant", "size"]
    assert re.search(words, "; ".join(decision.reasons))
    told = explain(DecisionInputs(order, RECORD, snapshot=_ROOM, rules=RULES, audits={}))
    assert told.decision == decision
    assert not told.nodes


def test_the_largest_order_that_is_looked_at_is_bid_on() -> None:
    order = replace(make_order(), spec=group(units(MOST_UNITS, endpoints=2)))
    decision, _ = checked_decision(DecisionInputs(order, RECORD, snapshot=_ROOM, rules=RULES, audits={}))
    assert not isinstance(decision, Declined), decision.reasons


def test_a_group_of_a_thousand_units_is_placed_or_not_without_an_end_of_the_stack() -> None:
    """An adopted lease may have so many units; each of them alone fits on the twelve nodes."""
    found = place(order_id(1), group(units(1_200)), snapshot=_ROOM, overcommit=Overcommit())
    assert isinstance(found, Shortage)
