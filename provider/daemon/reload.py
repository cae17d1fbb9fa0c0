"""Settings read again while the provider runs: those that the model marks are taken at once, the others are named.

Everything that a new value needs is made before the first part gets one, so a mistake changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import structlog
from pydantic import SecretStr

from provider.errors import ProviderError, SettingsError
from provider.funds.plan import FundsRules
from provider.funds.wallet import WalletRules
from provider.funds.watch import FundsWatch
from provider.gateway.config import GatewayConfig, gateway_config
from provider.market.book import Market
from provider.market.owner_lists import owner_rules
from provider.market.pricing.strategy import pricing_from, pricing_mark
from provider.market.rules import rules_from
from provider.observe.logs import set_level
from provider.settings import Settings
from provider.settings.model import is_reloaded
from provider.settings.spellings import variables_of
from provider.units import mask_addresses

__all__ = ["GATEWAY_LIMITS", "Reload", "funds_rules", "limits_taker", "wallet_rules"]

_log = structlog.get_logger("lessor")
_LONGEST = 120
Taker: TypeAlias = Callable[[Settings], None]
GATEWAY_LIMITS = frozenset(
    {
        "gateway_connections",
        "gateway_connections_of_address",
        "gateway_connections_of_tenant",
        "gateway_requests_of_tenant",
        "gateway_streams",
        "gateway_streams_of_tenant",
        "gateway_shell_idle",
    }
)
"""What a gateway in this process takes on SIGHUP; one in a process of its own reads them when it starts."""


class _Leases(Protocol):
    def limit_removals(self, *, leases: int, percent: float, window_s: float) -> None: ...


class _Chain(Protocol):
    def limit_fees(self, *, transaction: int, day: int) -> None: ...


class _Gateway(Protocol):
    def limit(self, config: GatewayConfig) -> None: ...


def limits_taker(leases: _Leases, chain: _Chain, gateway: _Gateway | None, provider: str) -> Taker:
    """What gives these parts their limits. `gateway`: None where it is a process of its own."""

    def take(settings: Settings) -> None:
        leases.limit_removals(
            leases=settings.brake_leases, percent=settings.brake_percent, window_s=settings.brake_window
        )
        chain.limit_fees(transaction=settings.fee_limit, day=settings.fee_budget)
        if gateway is not None:
            gateway.limit(gateway_config(settings, provider))

    return take


@dataclass(slots=True)
class Reload:
    """`settings`: what holds. `read` returns what the sources say now, or raises `SettingsError` with every mistake.
    `asked` is set to have them read. `fixed`: fields that wait for a restart all the same.
    """

    settings: Settings
    read: Callable[[], Settings]
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    fixed: frozenset[str] = frozenset()

    async def follow(self, market: Market, funds: FundsWatch, *takers: Taker) -> None:
        """Read and take the settings whenever that is asked for. `takers` get what holds then. Runs for ever."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            try:
                self._take(await asyncio.to_thread(self.read), market, funds, takers)
            except ProviderError as error:
                problems = error.problems if isinstance(error, SettingsError) and error.problems else (str(error),)
                _log.error("settings.not_reloaded", mistakes=list(problems), remedy="correct all, then SIGHUP again")

    def _take(self, found: Settings, market: Market, funds: FundsWatch, takers: Sequence[Taker]) -> None:
        """Raises `SettingsError` before anything is changed."""
        changed = [name for name in Settings.model_fields if getattr(found, name) != getattr(self.settings, name)]
        taken = {name: getattr(found, name) for name in changed if is_reloaded(name) and name not in self.fixed}
        before, holds = self.settings, self.settings.model_copy(update=taken)
        more = _change_market(market, holds)
        funds.funds = replace(funds.funds, rules=funds_rules(holds), wallet=wallet_rules(holds))
        for taker in takers:
            taker(holds)
        set_level(holds.log_level)
        self.settings = holds
        values = {_variable(name): f"{_shown(before, name)} → {_shown(holds, name)}" for name in taken}
        _log.info("settings.reloaded", changed=values | more)
        if later := [_variable(name) for name in changed if name not in taken]:
            _log.warning("settings.need_restart", settings=later, remedy="restart the provider; no lease is touched")


def _change_market(market: Market, settings: Settings) -> dict[str, str]:
    """Give the market what the settings make of it; what changed in a file that they name."""
    rules, owners = rules_from(settings), owner_rules(settings)
    pricing, mark = pricing_from(settings, now=market.clock.now), pricing_mark(settings)
    same = rules.order_filter == market.rules.order_filter
    market.rules, market.owners, market.pricing, market.pricing_mark = rules, owners, pricing, mark
    market.deposit, market.bid_timeout, market.interval = (
        settings.bid_deposit,
        settings.bid_timeout,
        settings.market_interval,
    )
    market.decisions_kept, market.decisions_age = settings.decisions_kept, settings.decisions_age
    market.book.declined.clear()  # under the new settings the same orders may get a bid
    market.book.quoted.clear()
    market.full_pass_due.set()
    return {} if same else {"AP_PROVIDER_CONFIG": "other attributes"}


def funds_rules(settings: Settings) -> FundsRules:
    return FundsRules(settings.funds_interval, settings.withdrawal_period, settings.withdrawal_threshold)


def wallet_rules(settings: Settings) -> WalletRules:
    return WalletRules(
        settings.gas_prices,
        settings.gas_adjustment,
        settings.bid_deposit,
        settings.minimum_balance,
        settings.fee_granter,
    )


def _variable(name: str) -> str:
    return variables_of(Settings.model_fields[name])[0]


def _shown(settings: Settings, name: str) -> str:
    value: Any = getattr(settings, name)
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, dict):
        value = ",".join(f"{key}={each}" for key, each in value.items())
    elif isinstance(value, Iterable) and not isinstance(value, str):
        value = ",".join(map(str, value))
    text = mask_addresses(str(value)) or "(empty)"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
