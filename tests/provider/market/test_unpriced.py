"""A strategy that names no prices any more is logged once, and `lessor status` shows it (field problem A2)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lease.resources import Price
from provider.market.bidding import consider
from provider.market.pricing.akt_rate import Rates, file_source
from provider.market.pricing.outage import FAILING, PricingOutage
from provider.market.pricing.quote import PriceRequest, Quote
from provider.market.pricing.script import script_pricing
from provider.market.pricing.table import table_pricing
from provider.market.pricing.table_file import parse_price_table
from tests.provider.market.world import World, make_order, make_world, order_id
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time

NONE = Quote("shellScript", problem="the price script printed 'debug\\n12': not a decimal number")
PRICE = Quote("shellScript", Price("uact", Decimal(5)))


def events(logs: list) -> list[str]:
    return [line["event"] for line in logs if line["event"].startswith("market.pricing")]


def test_so_many_orders_in_a_row_without_a_price_are_told_of_once_and_so_is_their_end() -> None:
    outage = PricingOutage()
    with capture_logs() as logs:
        for number in range(FAILING - 1):
            outage.note(order_id(number), NONE, now=100.0 + number)
        assert (len(outage.orders), outage.failing, events(logs)) == (FAILING - 1, False, [])
        for number in range(FAILING, FAILING + 5):
            outage.note(order_id(number), NONE, now=500.0)
        assert (outage.failing, outage.since, outage.problem) == (True, 100.0, NONE.problem)
        outage.note(order_id(99), PRICE, now=600.0)
        outage.note(order_id(98), PRICE, now=600.0)
    assert events(logs) == ["market.pricing_failing", "market.pricing_works"]
    (failing, works) = (line for line in logs if line["event"].startswith("market.pricing"))
    assert (failing["log_level"], failing["orders"], failing["problem"]) == ("error", FAILING, NONE.problem)
    assert works["orders"] == FAILING + 4
    assert (len(outage.orders), outage.failing) == (0, False)


def test_the_row_begins_anew_after_every_price() -> None:
    outage = PricingOutage()
    for number in range(3 * FAILING):
        outage.note(order_id(number), PRICE if number % (FAILING - 1) == 0 else NONE, now=float(number))
        assert not outage.failing
    assert outage.since == 2 * (FAILING - 1) + FAILING  # of the first after the last price


def test_one_order_that_is_asked_about_every_minute_is_no_failure() -> None:
    outage = PricingOutage()
    for minute in range(1000):
        outage.note(order_id(7), NONE, now=60.0 * minute)
    assert (len(outage.orders), outage.failing) == (1, False)


@pytest.mark.parametrize(
    ("orders", "minutes", "failing"), [(15, 4, True), (3, 15, True), (3, 14, False), (2, 60, False), (15, 1, False)]
)
def test_few_orders_without_a_price_are_an_outage_when_half_an_hour_has_passed(
    orders: int, minutes: int, failing: bool
) -> None:
    """Fifteen orders an hour without a price would never be twenty in a row before their time is over."""
    outage = PricingOutage()
    with capture_logs() as logs:
        for number in range(orders):
            outage.note(order_id(number), NONE, now=1000.0 + 60 * minutes * number)
        assert outage.failing is failing
        outage.note(order_id(99), PRICE, now=9000.0)
    assert events(logs) == (["market.pricing_failing", "market.pricing_works"] if failing else [])
    assert not outage.failing


def test_neither_many_orders_nor_long_or_wild_words_fill_the_memory_or_another_line() -> None:
    outage = PricingOutage()
    for number in range(3000):
        outage.note(order_id(number), Quote("x", problem="\x1b[31m\nlessor: all is well " * 1000), now=0.0)
    assert len(outage.orders) == 1000
    assert len(outage.problem) < 500
    assert outage.problem.isprintable()


async def world_with(folder: Path, pricing: object) -> World:
    world = make_world(MemoryDatabase(folder / "x.db"))
    object.__setattr__(world.market, "pricing", pricing)
    return world


async def ask_of(world: World, *numbers: int) -> None:
    for number in numbers:
        world.chain.orders[order_id(number)] = make_order(number, cpu=10)
        await consider(world.market, world.chain.orders[order_id(number)])


@pytest.mark.real_time
async def test_a2_debug_text_of_a_script_is_counted_order_by_order_and_its_secrets_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRICES_API_TOKEN", "s3cr3t-of-prices")
    script = tmp_path / "price.sh"
    script.write_text('#!/bin/sh\necho "debug: $PRICES_API_TOKEN"\necho 12\n')
    script.chmod(0o755)
    world = await world_with(tmp_path, script_pricing(str(script), process_limit=2, timeout_s=10))
    await ask_of(world, 1, 2, 3)
    outage = world.market.book.pricing_outage
    assert len(outage.orders) == 3
    assert outage.since == world.clock.now()
    assert "debug: ***" in outage.problem
    assert "s3cr3t" not in outage.problem
    script.write_text("#!/bin/sh\necho 12\n")
    await ask_of(world, 4)
    assert not outage.orders
    assert world.chain.sent_kinds() == ["MsgCreateBid"]
    await world.database.close()


@pytest.mark.parametrize(
    ("rate", "words"), [("", "is not a number"), ("1.5\n", ""), (None, "No such file")], ids=["empty", "good", "absent"]
)
async def test_a_rate_that_cannot_be_read_is_a_failure_of_the_table(
    tmp_path: Path, rate: str | None, words: str
) -> None:
    file = tmp_path / "akt"
    if rate is not None:
        file.write_text(rate)
    table = parse_price_table("cpu: 1\nstorage: {default: 0, ephemeral: 0}\n", "x")
    rates = Rates(file_source(file), max_age_s=10**12, now=lambda: 2e9)
    world = await world_with(tmp_path, table_pricing(lambda: table, rates))
    order = make_order(1, cpu=10, denom="uakt")
    world.chain.orders[order.id] = order
    await consider(world.market, order)
    outage = world.market.book.pricing_outage
    assert (len(outage.orders), words in outage.problem) == (1 if words else 0, True)
    await world.database.close()


async def test_an_order_that_is_declined_before_anybody_is_asked_says_nothing_of_the_strategy(tmp_path: Path) -> None:
    async def never(asked: PriceRequest) -> Quote:
        raise AssertionError(asked)

    world = await world_with(tmp_path, never)
    too_large = make_order(1, cpu=10**6)
    world.chain.orders[too_large.id] = too_large
    await consider(world.market, too_large)
    assert not world.market.book.pricing_outage.orders
    await world.database.close()
