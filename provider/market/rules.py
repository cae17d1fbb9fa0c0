"""The operator's rules out of the settings."""

from __future__ import annotations

from provider.inventory.capacity import Overcommit
from provider.market.order_filter import load_order_filter
from provider.market.owner_lists import owner_rules
from provider.market.pricing.quote import Quote
from provider.market.pricing.scale import scale_prices
from provider.market.terms import Notice, Rules
from provider.settings import Settings

__all__ = ["rules_from"]


def rules_from(settings: Settings) -> Rules:
    """Raises `SettingsError` when no price is set or the provider configuration cannot be read."""
    strategy = settings.bid_price_strategy
    return Rules(
        prices=scale_prices(settings) if strategy == "scale" else Quote(strategy),
        overcommit=Overcommit(settings.overcommit_cpu, settings.overcommit_memory, settings.overcommit_storage),
        order_filter=load_order_filter(settings.provider_config),
        owners=owner_rules(settings)(),
        denoms=settings.bid_denoms,
        notice=Notice(int(settings.reclamation_window), premium=settings.reclamation_premium),
    )
