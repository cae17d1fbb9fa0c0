"""Deciding: every reason against an order, and the rules of the market (bidding.md §1.4–1.5, §3)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lease.groups import SignedBy
from lease.ids import OrderId
from lease.resources import Attribute, Endpoint, EndpointKind, Volume
from provider.errors import SettingsError
from provider.inventory.ledger import Ledger
from provider.inventory.snapshot import Snapshot
from provider.market.decision import BidDecision, DecisionInputs, Declined, decide
from provider.market.rules import load_order_filter, rules_from
from provider.protocols.chain import Order, OrderState
from provider.settings import Settings
from tests.provider.market.world import ATTRIBUTES, GI, RECORD, RULES, US, make_inventory, make_order

FREE = Ledger(US).free(make_inventory(nodes=2))
BETA2 = (Attribute("class", "beta2"), Attribute("persistent", "true"))


def outcome(order=None, *, snapshot: Snapshot = FREE, rules=RULES, record=RECORD, audits=None):
    return decide(DecisionInputs(order or make_order(), record, snapshot=snapshot, rules=rules, audits=audits or {}))


def test_an_order_that_fits_is_bid_on_with_what_was_allocated() -> None:
    found = outcome(make_order(volumes=(Volume("data", GI // 2, BETA2),), count=2))
    assert isinstance(found, BidDecision)
    assert (found.price.denom, found.price.amount) == ("uact", Decimal(20))
    assert found.reservation.volumes == {"beta2": GI}
    assert [(unit.resources.id, unit.count) for unit in found.offer] == [(1, 2)]


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (make_order(state=OrderState.CLOSED), "the order is closed"),
        (make_order(state=OrderState.ACTIVE), "the order is active"),
        (replace(make_order(), id=OrderId(US, 7, 1, 1)), "this provider's own account"),
        (make_order(attributes=(Attribute("region", "eu"),)), "requires attribute region=eu"),
        (
            make_order(volumes=(Volume("d", GI, (Attribute("class", "beta9"), Attribute("persistent", "true"))),)),
            "do not declare",
        ),
        (make_order(gpus=("vendor/nvidia/model/h100",)), "do not declare"),
        (make_order(volumes=tuple(Volume(f"v{index}", GI) for index in range(5))), "5 volumes, at most 4"),
        (make_order(cpu=5), "the group is not valid: unit CPU out of range"),
        (make_order(cpu=9000), "0 of 1 replicas fit on 2 nodes"),
        (make_order(volumes=(Volume("d", 2 * GI, BETA2),)), "1073741824 bytes free"),
        (make_order(ips=1), "the order asks for 1 leased IPs, 0 are free"),
        (make_order(price="9.99"), "the bid price 10uact is above the order's maximum 9.99uact"),
        (make_order(signed_by=SignedBy(all_of=("akash1auditor",))), "auditor akash1auditor has not signed"),
        (make_order(signed_by=SignedBy(any_of=("akash1a", "akash1b"))), "none of the auditors akash1a, akash1b"),
    ],
)
def test_an_order_is_declined_for_its_reason(order, words: str) -> None:
    found = outcome(order)
    assert isinstance(found, Declined)
    assert words in " | ".join(found.reasons)


def with_ports(count: int) -> Order:
    """An order with so many endpoints on random ports."""
    order = make_order()
    (unit,) = order.spec.units
    ports = (Endpoint(EndpointKind.RANDOM_PORT),) * count
    resources = replace(unit.resources, endpoints=ports)
    return replace(order, spec=replace(order.spec, units=(replace(unit, resources=resources),)))


@pytest.mark.parametrize(("count", "words"), [(250, ""), (251, "at most 250 are allowed"), (1990, "1990 node ports")])
def test_an_order_beyond_the_free_node_ports_or_the_most_of_one_is_declined(count: int, words: str) -> None:
    reasons = " | ".join(getattr(outcome(with_ports(count)), "reasons", ()))
    assert words in reasons and bool(words) == bool(reasons)
    scarce = outcome(with_ports(20), snapshot=replace(FREE, free_node_ports=19))
    assert "20 node ports, 19 are free (LESSOR_NODE_PORT_RANGE" in " | ".join(getattr(scarce, "reasons", ()))
    assert isinstance(outcome(with_ports(20), snapshot=replace(FREE, free_node_ports=20)), BidDecision)


def test_the_last_free_leased_ips_are_bid_on() -> None:
    order = make_order(ips=3)
    assert isinstance(outcome(order, snapshot=replace(FREE, free_addresses=3)), BidDecision)
    assert isinstance(outcome(order, snapshot=replace(FREE, free_addresses=2)), Declined)


def test_all_reasons_are_given_not_the_first() -> None:
    found = outcome(
        make_order(cpu=9000, price="1", ips=3, attributes=(Attribute("region", "eu"), Attribute("tier", "x")))
    )
    assert isinstance(found, Declined)
    assert len(found.reasons) == 5


def test_a_price_equal_to_the_maximum_is_bid() -> None:
    assert isinstance(outcome(make_order(price="10")), BidDecision)


@pytest.mark.parametrize(
    ("key", "fits"),
    [("region", True), ("reg*", True), ("capabilities/storage/*/class", False), ("capabilities/*/1/class", False)],
)
def test_only_the_orders_side_is_a_pattern(key: str, fits: bool) -> None:
    found = outcome(make_order(attributes=(Attribute(key, "us-west"),)))
    assert isinstance(found, BidDecision if fits else Declined)


def test_auditors_must_have_signed_what_is_required() -> None:
    wanted = (Attribute("region", "us-west"),)
    order = make_order(attributes=wanted, signed_by=SignedBy(all_of=("a",), any_of=("b", "c")))
    assert isinstance(outcome(order, audits={"a": wanted, "c": ATTRIBUTES}), BidDecision)
    assert isinstance(outcome(order, audits={"a": wanted}), Declined)
    assert isinstance(outcome(order, audits={"c": wanted}), Declined)
    assert isinstance(outcome(order, audits={"a": (Attribute("region", "eu"),), "b": wanted}), Declined)


def test_an_order_must_ask_for_what_the_configuration_filters_by() -> None:
    rules = replace(RULES, order_filter=(Attribute("region", "us-west"),))
    assert isinstance(outcome(rules=rules), Declined)
    assert isinstance(outcome(make_order(attributes=(Attribute("region", "us-west"),)), rules=rules), BidDecision)


def test_the_same_inputs_give_the_same_decision() -> None:
    order = make_order(count=3)
    assert outcome(order) == outcome(order)


def test_nothing_free_is_no_error() -> None:
    assert isinstance(outcome(snapshot=Snapshot()), Declined)


def test_rules_come_from_the_settings(tmp_path: Path) -> None:
    config = tmp_path / "provider.yaml"
    config.write_text("host: https://p:8443\nattributes:\n- {key: owner, value: me}\n- {key: fast, value: true}\n")
    rules = rules_from(Settings(cpu_scale=1, overcommit_cpu=50, provider_config=config))
    assert rules.overcommit.cpu_milli(300) == 200
    assert rules.order_filter == (Attribute("owner", "me"), Attribute("fast", "true"))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "a: [",
        "attributes: {}",
        "attributes: [5]",
        "attributes: [{key: 5, value: x}]",
        "attributes: [{key: a1, value: [x]}]",
        "attributes: [{key: '*x', value: x}]",
        "attributes: [{key: owner, value: a}, {key: owner, value: b}]",
        "!!python/object/apply:os.system ['true']",
        "\x00",
    ],
)
def test_a_provider_configuration_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    config = tmp_path / "provider.yaml"
    config.write_text(text)
    with pytest.raises(SettingsError, match="AP_PROVIDER_CONFIG"):
        load_order_filter(config)


def test_a_provider_configuration_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"AP_PROVIDER_CONFIG=.*gone"):
        load_order_filter(tmp_path / "gone")
