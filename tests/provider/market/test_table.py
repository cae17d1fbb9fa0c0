"""The price table gives the generic script's numbers (bidding.md §2.4; vectors of §8: 14, 58–60)."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.ids import OrderId
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.errors import PricingError, SettingsError
from provider.market.bidding import consider
from provider.market.decision import BidDecision, Declined, decide
from provider.market.pricing.akt_rate import Rate, Rates, file_source
from provider.market.pricing.quote import PriceRequest, Quote, maximum_price
from provider.market.pricing.strategy import pricing_from
from provider.market.pricing.table import DOLLARS, table_pricing, watched_table
from provider.market.pricing.table_file import load_price_table, parse_price_table
from provider.market.record.decisions import load_inputs
from provider.settings import Settings
from tests.provider.market.test_decision import outcome
from tests.provider.market.test_pricing import group
from tests.provider.market.test_script import OWNER, script
from tests.provider.market.world import GI, MI, RULES, make_order, make_world
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

DEFAULTS = """
cpu: 1.60
memory: 0.80
storage: {ephemeral: 0.02, beta1: 0.01, beta2: 0.03, beta3: 0.04, default: 0, ram: 0}
endpoint: 0.05
ip: 5
"""
CARDS = "gpu: {a100.80Gi.sxm: 900, a100.80Gi: 800, a100.sxm: 850, a100: 700, h100: 1500, '*': highest}"


def of_class(name: str, size: int) -> Volume:
    return Volume(name, size, (Attribute("class", name),))


ONE_GIB, ONE_ENDPOINT = (Volume("e", GI),), (Endpoint(),)


def spec(*, count=1, volumes=ONE_GIB, endpoints=ONE_ENDPOINT, denom="uact", gpu="", gpus=1) -> GroupSpec:
    attributes = (Attribute(gpu, "true"),) if gpu else ()
    resources = Resources(1, 1000, 512 * MI, volumes, gpus if gpu else 0, tuple(endpoints), gpu_attributes=attributes)
    return GroupSpec("g", Requirements(), (ResourceUnit(resources, count, Price(denom, Decimal(10000))),))


def rates(usd: str = "0.5", *, age: float = 0.0) -> Rates:
    return Rates(lambda: Rate(Decimal(usd), 1000 - age), max_age_s=60, now=lambda: 1000.0)


async def price(wanted: GroupSpec, text: str = DEFAULTS, *, known: Rates | None = None, owner: str = OWNER) -> Quote:
    table = parse_price_table(text, "prices.yaml")
    asked = PriceRequest(OrderId(owner, 7, 1, 1), wanted, wanted.units, maximum_price(wanted))
    return await table_pricing(lambda: table, known or rates())(asked)


async def amount(wanted: GroupSpec, text: str = DEFAULTS, **options: object) -> str:
    found = await price(wanted, text, **options)  # type: ignore[arg-type]
    assert found.price is not None, found.problem
    assert found.price.denom == wanted.units[0].price.denom
    return f"{found.price.amount:f}"


async def test_vector_14_a_table_per_block_gives_the_price_of_the_sample() -> None:
    """0.10 uact a milli-CPU, 0.02 a byte of memory, 0.01 a byte of storage, 0.02 an endpoint."""
    text = "{per: block, cpu: 0.0001, memory: 21.47483648, storage: {ephemeral: 10.73741824}, endpoint: 0.00000002}"
    found = Decimal(await amount(group(endpoints=[Endpoint()] * 7), text))
    assert found == Decimal("242.200000")


@pytest.mark.parametrize("denom", sorted(DOLLARS))
async def test_vector_58_usd_become_act_and_usdc(denom: str) -> None:
    assert await amount(spec(denom=denom)) == "4.814972"


async def test_vector_58_akt_count_twice_the_unit_and_whole_numbers() -> None:
    assert await amount(spec(denom="uakt")) == "9.629945"
    assert await amount(spec(denom="uakt"), DEFAULTS + "precision: 0") == "10"
    # twice the unit: endpoints are paid once a unit
    twice = spec()
    assert await amount(GroupSpec("g", Requirements(), twice.units * 2)) == "9.629945"


async def test_vector_58_another_denom_has_no_price() -> None:
    found = await price(spec(denom="ufoo"))
    assert (found.price, "not in ufoo" in found.problem) == (None, True)


async def test_vector_59_what_is_paid_a_replica_and_what_once() -> None:
    volumes = (Volume("e", GI), of_class("ram", GI), of_class("default", GI), of_class("beta3", 10 * GI))
    wanted = spec(count=2, volumes=volumes, endpoints=(Endpoint(), Endpoint(EndpointKind.LEASED_IP, 1)))
    found = await price(wanted)
    assert found.price == Price("uact", Decimal("23.121172"))
    assert (sum(line.amount for line in found.lines), found.unit) == (Decimal("9.94"), "USD/month")


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        ("a100/ram/80Gi/interface/sxm", "2093.466292"),
        ("a100/ram/80Gi/interface/pcie", "1860.858926"),
        ("a100/ram/40Gi/interface/sxm", "1628.251560"),
        ("a100/interface/sxm", "1977.162609"),
        ("a100/interface/pcie", "1628.251560"),
        ("a100", "1628.251560"),
        ("t4", "3489.110486"),
        ("*", "3489.110486"),
    ],
)
async def test_vector_60_a_card_is_priced_by_model_memory_and_interface(card: str, expected: str) -> None:
    wanted = spec(volumes=(), endpoints=(), gpu=f"vendor/nvidia/model/{card}")
    assert await amount(wanted, CARDS) == expected


async def test_vector_60_an_unnamed_card_costs_at_least_a_hundred_where_the_table_says_so() -> None:
    wanted = spec(volumes=(), endpoints=(), gpu="vendor/amd/model/mi100", gpus=2)
    assert await amount(wanted, "gpu: {mi100: 50}") == "232.607366"
    assert await amount(
        spec(volumes=(), endpoints=(), gpu="vendor/nvidia/model/t4", gpus=2), "gpu: {'*': highest}"
    ) == ("465.214731")
    assert "GPU mi100 has no price" in (await price(wanted, "gpu: {a100: 50}")).problem


async def test_a_class_without_a_price_gets_no_bid() -> None:
    assert "storage class beta9 has no price" in (await price(spec(volumes=(of_class("beta9", GI),)))).problem


FRIEND = "akash1" + "q" * 38


async def test_a_tenants_factor_and_the_minimum_are_lines_of_the_price() -> None:
    found = await price(spec(), DEFAULTS + f"owners: {{{FRIEND}: 0.5}}\nminimum: 1.5", owner=FRIEND)
    assert sum(line.amount for line in found.lines) == Decimal("1.5")
    assert [f"{line.amount.normalize():f}" for line in found.lines[-2:]] == ["-1.035", "0.465"]
    assert await amount(spec(), DEFAULTS + f"owners: {{{FRIEND}: 0.5}}") == "4.814972"


async def test_without_a_fresh_rate_only_what_needs_it_is_declined() -> None:
    stale = rates(age=61)
    assert "61 s old, at most 60 s" in (await price(spec(denom="uakt"), known=stale)).problem
    assert "dated 61 s in the future" in (await price(spec(denom="uakt"), known=rates(age=-61))).problem
    assert await amount(spec(), known=stale) == "4.814972"


def test_a_rate_survives_a_source_that_fails_until_it_is_too_old(tmp_path: Path) -> None:
    path, now = tmp_path / "akt", [1000.0]
    known = Rates(file_source(path), max_age_s=60, now=lambda: now[0])
    with pytest.raises(PricingError, match="unknown: LESSOR_AKT_PRICE_FILE="):
        known.usd_per_akt()
    path.write_text("0.5\n")
    os.utime(path, (1000, 1000))
    assert known.usd_per_akt() == Decimal("0.5")
    path.write_text("<html>")
    assert known.usd_per_akt() == Decimal("0.5")
    now[0] = 1061.0
    with pytest.raises(PricingError, match=r"61 s old.*<html>"):
        known.usd_per_akt()


@pytest.mark.parametrize("text", ["", "0", "-1", "NaN", "inf", "1e7", "1e400", "9" * 500, "\udcff"])
def test_a_rate_that_is_none_is_not_used(tmp_path: Path, text: str) -> None:
    (tmp_path / "akt").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(PricingError):
        file_source(tmp_path / "akt")()


def test_a_pipe_or_folder_in_the_place_of_the_rate_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, None):
        with pytest.raises(PricingError):
            file_source(path)()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "p.yaml:1:1: the price table is empty"),
        ("- 1", "p.yaml:1:1: expected names with values"),
        ("cpu: 1\nmemory: much", "p.yaml:2:9: 'much' is not a decimal number"),
        ("cpu: -1", "p.yaml:1:6: '-1' must be from 0"),
        ("cpu: .inf", "p.yaml:1:6: '.inf' is not a decimal"),
        ("cpu: NaN", "p.yaml:1:6: 'NaN' is not"),
        ("cpu: 1_000", "p.yaml:1:6: '1_000' is not a decimal"),
        ("cpu: ١٢", "p.yaml:1:6: '١٢' is not a decimal"),
        ("cpu: 1e-999999999", "p.yaml:1:6: '1e-999999999' is not"),
        ("cpu: 1\nowners: {akash1me: 2}", "p.yaml:2:10: 'akash1me' is not an akash address"),
        ('cpu: 1\nowners: {"a\\x1b[31m": 2}', "p.yaml:2:10: 'a\\x1b[31m' is not an akash address"),
        ("cpu: &a [*a]", "p.yaml:1:"),
        ("cpu: !!python/object/apply:os.system ['true']", "p.yaml:1:6: expected a single value"),
        ("cpu: 1e40", "p.yaml:1:6: '1e40' must be"),
        ("cpu: 1\ncpu: 2", "p.yaml:2:1: cpu is given twice"),
        ("cpus: 1", "p.yaml:1:1: cpus is not a key of a price table"),
        ("storage: {beta1: [1]}", "p.yaml:1:18: expected a single value"),
        ("storage: 1", "p.yaml:1:10: expected names with values"),
        ("cpu: 1\nper: year", "p.yaml:2:6: 'year' is neither"),
        ("cpu: 1\nprecision: 19", "p.yaml:2:12: '19' is not a number of decimals"),
        ("cpu: [", "p.yaml:1:7: not YAML"),
        ("cpu: 0", "p.yaml:1:1: no price in the table is above 0"),
        pytest.param("cpu: " + "[" * 50000, "p.yaml:1:21: not YAML: more than 16 levels", id="nested"),
        ("cpu: 1\n---\ncpu: 2", "p.yaml:2:1: not YAML"),
        ("cpu: \0", "p.yaml: not YAML"),
    ],
)
def test_a_bad_table_is_one_error_with_its_place(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_price_table(text, "p.yaml")
    assert str(caught.value).startswith(words)
    assert len(str(caught.value)) < 400


def test_a_table_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    def start(path: Path | None) -> None:
        pricing_from(Settings(bid_price_strategy="table", price_table=path), now=lambda: 0.0)

    (tmp_path / "big").write_bytes(b"#" * (2**20 + 1))
    (tmp_path / "bytes").write_bytes(b"cpu: \xff")
    for path in (None, tmp_path / "none", tmp_path, tmp_path / "big", tmp_path / "bytes"):
        with pytest.raises(SettingsError, match="LESSOR_PRICE_TABLE"):
            start(path)


def test_a_changed_table_is_read_and_a_broken_one_leaves_the_last(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("cpu: 1")
    table = watched_table(path)
    path.write_text("cpu: 2.5")
    assert table().cpu == Decimal("2.5")
    path.write_text("cpu: 2.5 3 4")
    assert table().cpu == Decimal("2.5")
    path.unlink()
    assert table().cpu == Decimal("2.5")
    path.write_text("cpu: 44444")
    assert table() == load_price_table(path)


def test_a_quote_decides_and_nothing_is_guessed_without_one() -> None:
    def with_quote(quote: Quote) -> BidDecision | Declined:
        return outcome(rules=type(RULES)(prices=quote))

    assert isinstance(with_quote(Quote("s", Price("uact", Decimal(100)))), BidDecision)
    for quote, words in [
        (Quote("s", Price("uact", Decimal("100.01"))), "the bid price 100.01uact is above the order's maximum 100uact"),
        (Quote("s", Price("uakt", Decimal(1))), "the bid price is in uakt, the order's maximum in uact"),
        (Quote("s", problem="the price script printed 'x'"), "the price script printed 'x'"),
        (Quote("s"), "the price strategy was not asked"),
    ]:
        assert with_quote(quote) == Declined((words,))


@pytest.mark.real_time
async def test_a_scripts_input_and_output_are_in_the_record_and_its_room_is_given_back(tmp_path: Path) -> None:
    """A bid keeps its reservation, a refusal has none, and the decision made again from its record is the same."""
    path = script(tmp_path, 'read line; [ "$AKASH_DENOM" = uact ] && echo 42 || exit 1')
    pricing = pricing_from(Settings(bid_price_strategy="shellScript", price_script=path), now=lambda: 0.0)
    database = MemoryDatabase(tmp_path / "market.db")
    try:
        world = make_world(database)
        world.market.book.record = await world.chain.provider(world.market.provider)
        market = replace(world.market, pricing=pricing, rules=replace(RULES, prices=Quote("shellScript")))
        before = world.free_cpu()
        for order in (make_order(8, denom="uakt"), make_order(7)):
            world.chain.orders[order.id] = order
        await consider(market, make_order(8, denom="uakt"))
        assert world.free_cpu() == before
        await consider(market, make_order(7))
        assert world.free_cpu() == before - 1000
        (declined,), (bid,) = await world.decisions(8), await world.decisions(7)
        assert declined.reasons == ("the price script ended with status 1",)
        assert bid.price == Price("uact", Decimal(42))
        inputs = await load_inputs(database, bid.id)
        assert isinstance(inputs.rules.prices, Quote)
        assert '"denom":"uact","amount":"100.000000000000000000"' in inputs.rules.prices.given
        assert inputs.rules.prices.said == "42\n"
        again = decide(inputs)
        assert isinstance(again, BidDecision)
        assert again.price == bid.price
    finally:
        await database.close()
