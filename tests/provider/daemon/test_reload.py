"""Settings read again while the provider runs: the marked ones are taken, and a mistake changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from provider.daemon.reload import GATEWAY_LIMITS, Reload, funds_rules, limits_taker, wallet_rules
from provider.errors import SettingsError
from provider.funds.watch import Funds, FundsWatch
from provider.gateway.config import GatewayConfig
from provider.market.owner_lists import owner_rules
from provider.market.pricing.strategy import pricing_from
from provider.market.rules import rules_from
from provider.observe import logs as observed
from provider.settings import Settings
from provider.settings.model import is_reloaded
from provider.units import Coin
from tests.provider.market.world import World, make_order, running

pytestmark = pytest.mark.virtual_time
_ADDRESS = "akash1" + "q" * 38
_OTHERS: dict[str, Any] = {
    "bid_price_strategy": "randomRange",
    "storage_scale": {"default": Decimal(7)},
    "bid_deposit": Coin("uakt", Decimal(900_000)),
    "bid_denoms": ("uact",),
    "owners_allowed": (_ADDRESS,),
    "owners_denied": (_ADDRESS,),
    "log_level": "debug",
    "price_script_user": "",
    "brake_percent": 7,
}
"""Another value of each marked setting that is no number."""
_OF_STRATEGIES = {
    "price_script",
    "price_script_user",
    "price_script_limit",
    "price_script_timeout",
    "price_table",
    "akt_price_file",
    "akt_price_age",
}
MARKED = sorted(name for name in Settings.model_fields if is_reloaded(name))


class Limits:
    """The lease loop, the chain client and the gateway, which note what limits they got."""

    def __init__(self) -> None:
        self.given: list[Any] = [None, None, None]

    def limit_removals(self, **limits: float) -> None:
        self.given[0] = limits

    def limit_fees(self, **limits: int) -> None:
        self.given[1] = limits

    def limit(self, config: GatewayConfig) -> None:
        self.given[2] = (config.connections, config.streams, config.tenants)


@dataclass
class Running:
    world: World
    funds: FundsWatch
    reload: Reload
    found: Settings | SettingsError
    limits: Limits

    async def hang_up(self, found: Settings | SettingsError) -> list[Any]:
        """What is logged when the sources say this."""
        self.found = found
        with capture_logs() as logs:
            self.reload.asked.set()
            while self.reload.asked.is_set():
                await asyncio.sleep(0)
            for _ in range(200):  # the reading is in a thread
                if logs:
                    break
                await self.world.clock.advance(0.01)
                await asyncio.to_thread(lambda: None)
        return [log for log in logs if log["event"].startswith("settings.")]

    def state(self) -> tuple[Any, ...]:
        """All that the marked settings make, but the strategies."""
        market, funds = self.world.market, self.funds.funds
        owners = market.owners() if market.owners is not None else None
        of_market = (market.rules, owners, market.deposit, market.bid_timeout, market.interval)
        kept = (market.decisions_kept, market.decisions_age)
        return (*of_market, *kept, funds.rules, funds.wallet, observed._threshold, *self.limits.given)


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    yield
    observed.set_level("info")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path, cpu_scale=Decimal(1000), storage_scale={"ephemeral": Decimal(1), "beta2": Decimal(1)}
    )


@asynccontextmanager
async def provider(settings: Settings, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as world:
        market = world.market
        market.rules, market.owners = rules_from(settings), owner_rules(settings)
        parts = Funds(
            provider=market.provider,
            chain=market.chain,
            bus=market.bus,
            clock=market.clock,
            database=market.database,
            rules=funds_rules(settings),
            wallet=wallet_rules(settings),
            engaged=lambda: 0,
        )

        def read() -> Settings:
            if isinstance(made.found, SettingsError):
                raise made.found
            return made.found

        limits = Limits()
        taker = limits_taker(limits, limits, limits, market.provider)
        taker(settings)
        made = Running(world, FundsWatch(parts), Reload(settings, read), settings, limits)
        task = asyncio.create_task(made.reload.follow(market, made.funds, taker))
        try:
            yield made
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def test_an_order_that_was_too_dear_gets_a_bid_at_the_new_price(settings: Settings, tmp_path: Path) -> None:
    async with provider(settings, tmp_path) as made:
        made.world.chain.orders[make_order().id] = make_order(price="1000")
        await made.world.later(70)
        assert {each.verdict for each in await made.world.decisions()} == {"declined"}
        cheaper = settings.model_copy(update={"cpu_scale": Decimal("0.001")})
        (said,) = await made.hang_up(cheaper)
        assert said["changed"] == {"AP_BID_PRICE_CPU_SCALE": "1000 → 0.001"}
        await made.world.later(70)
        assert {each.verdict for each in await made.world.decisions()} == {"declined", "bid"}


@pytest.mark.parametrize("name", MARKED)
async def test_every_marked_setting_reaches_its_part(name: str, settings: Settings, tmp_path: Path) -> None:
    other = _OTHERS.get(name, tmp_path / "file" if "table" in name or "file" in name else 777)
    if name == "price_script":
        other = "/bin/echo"
    async with provider(settings, tmp_path) as made:
        before = made.state()
        changed = settings.model_copy(update={name: other})
        assert name == "price_script_user" or changed != settings
        (said,) = await made.hang_up(changed)
        assert said["event"] == "settings.reloaded"
        assert name in _OF_STRATEGIES or made.state() != before
    if name in _OF_STRATEGIES:
        read = "akt_price_path" if name == "akt_price_file" else name
        assert any(read in line for line in Path(pricing_from.__code__.co_filename).read_text().splitlines())


async def test_a_gateway_in_a_process_of_its_own_waits_for_its_restart(settings: Settings, tmp_path: Path) -> None:
    async with provider(settings, tmp_path) as made:
        made.reload.fixed = GATEWAY_LIMITS
        before = made.state()
        taken, later = await made.hang_up(settings.model_copy(update={"gateway_streams": 7}))
        assert taken["changed"] == {} and later["settings"] == ["LESSOR_GATEWAY_STREAMS"]
        assert made.state() == before


def test_the_limits_of_the_gateway_are_those_that_are_marked() -> None:
    assert {name for name in MARKED if name.startswith("gateway_")} == GATEWAY_LIMITS


async def test_every_mistake_is_named_and_nothing_is_changed(settings: Settings, tmp_path: Path) -> None:
    async with provider(settings, tmp_path) as made:
        before, holds = made.state(), made.reload.settings
        (said,) = await made.hang_up(SettingsError("AP_BID_TIMEOUT='soon'", "LESSOR_PRICE_TABLE: gone"))
        assert said["event"] == "settings.not_reloaded" and said["log_level"] == "error"
        assert said["mistakes"] == ["AP_BID_TIMEOUT='soon'", "LESSOR_PRICE_TABLE: gone"]
        assert (made.state(), made.reload.settings) == (before, holds)


async def test_a_mistake_that_shows_late_changes_nothing_either(settings: Settings, tmp_path: Path) -> None:
    """The file of a list was there when the settings were checked."""
    async with provider(settings, tmp_path) as made:
        before, holds = made.state(), made.reload.settings
        update = {"cpu_scale": Decimal(2), "funds_interval": 99.0, "owners_denied": (f"@{tmp_path}/gone",)}
        (said,) = await made.hang_up(settings.model_copy(update=update))
        assert said["event"] == "settings.not_reloaded" and "gone" in str(said["mistakes"])
        assert (made.state(), made.reload.settings) == (before, holds)


async def test_what_needs_a_restart_is_named_each_time_until_it_is_done(settings: Settings, tmp_path: Path) -> None:
    async with provider(settings, tmp_path) as made:
        update = {"node": "https://other.example:443", "stack_workers": 7, "cpu_scale": Decimal(2)}
        for changed in ({"AP_BID_PRICE_CPU_SCALE": "1000 → 2"}, {}):
            first, second = await made.hang_up(settings.model_copy(update=update))
            assert first["changed"] == changed
            assert sorted(second["settings"]) == ["AP_NODE", "LESSOR_STACK_WORKERS"]


async def test_the_level_of_the_log_holds_at_once_for_loggers_that_were_used_before(
    settings: Settings, tmp_path: Path
) -> None:
    assert observed._threshold == logging.INFO
    async with provider(settings, tmp_path) as made:
        await made.hang_up(settings.model_copy(update={"log_level": "error"}))
    assert observed._threshold == logging.ERROR
