"""Builds the strategy that the settings name (bidding.md §2, §6)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from provider.errors import SettingsError
from provider.market.pricing.akt_rate import Rates, file_source
from provider.market.pricing.quote import Pricing
from provider.market.pricing.random_range import random_pricing
from provider.market.pricing.script import script_pricing
from provider.market.pricing.script_user import script_user
from provider.market.pricing.table import table_pricing, watched_table
from provider.settings import Settings
from provider.watched_file import file_mark

__all__ = ["pricing_from", "pricing_mark"]


def pricing_from(settings: Settings, *, now: Callable[[], float]) -> Pricing | None:
    """The strategy to ask; None for `scale`, whose prices are rules. Raises `SettingsError` for settings it
    cannot use.
    """
    match settings.bid_price_strategy:
        case "shellScript":
            return script_pricing(
                settings.price_script,
                process_limit=settings.price_script_limit,
                timeout_s=settings.price_script_timeout,
                user=script_user(settings.price_script_user),
            )
        case "randomRange":
            return random_pricing()
        case "table":
            if settings.price_table is None:
                raise SettingsError("LESSOR_PRICE_TABLE is not set: the strategy table needs a YAML file of prices")
            rates = Rates(file_source(settings.akt_price_path), max_age_s=settings.akt_price_age, now=now)
            return table_pricing(watched_table(settings.price_table), rates)
    return None


def pricing_mark(settings: Settings) -> Callable[[], object]:
    """Returns a function: while its value stays equal, the strategy would answer the same request the same way. The
    mark of a script is its file, since its other sources are unknown. The other strategies are cheap and asked each
    time.
    """
    if settings.bid_price_strategy != "shellScript":
        return object
    return lambda: file_mark(Path(settings.price_script))
