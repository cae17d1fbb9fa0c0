"""The operator's rules, read from the settings and from the files that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lease.attributes import attribute_keys_valid
from lease.resources import Attribute
from provider.errors import SettingsError
from provider.inventory.capacity import Overcommit
from provider.market.owner_lists import owner_rules
from provider.market.pricing.quote import Quote
from provider.market.pricing.scale import scale_prices
from provider.market.terms import Notice, Rules
from provider.settings import Settings

__all__ = ["load_order_filter", "rules_from"]


def rules_from(settings: Settings) -> Rules:
    """The rules. Raises `SettingsError` when no price is set or the provider configuration cannot be read."""
    strategy = settings.bid_price_strategy
    return Rules(
        prices=scale_prices(settings) if strategy == "scale" else Quote(strategy),
        overcommit=Overcommit(settings.overcommit_cpu, settings.overcommit_memory, settings.overcommit_storage),
        order_filter=load_order_filter(settings.provider_config),
        owners=owner_rules(settings)(),
        denoms=settings.bid_denoms,
        node_ports=settings.order_node_ports,
        notice=Notice(int(settings.reclamation_window), premium=settings.reclamation_premium),
    )


def load_order_filter(path: Path | None) -> tuple[Attribute, ...]:
    """The attributes that an order must ask for: `attributes` of the operator's `provider.yaml` (bidding.md §1.4, row
    2).
    """
    if path is None:
        return ()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"AP_PROVIDER_CONFIG={path}: cannot be read: {error}") from None
    items = document.get("attributes", []) if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise SettingsError(
            f"AP_PROVIDER_CONFIG={path}: must be a YAML mapping with host, info and a list of attributes"
        )
    found = tuple(_attribute(path, item) for item in items)
    problem = attribute_keys_valid(found)
    if problem:
        raise SettingsError(f"AP_PROVIDER_CONFIG={path}: {problem}")
    return found


def _attribute(path: Path, item: Any) -> Attribute:
    if not isinstance(item, dict) or not isinstance(item.get("key"), str) or isinstance(item.get("value"), dict | list):
        raise SettingsError(f"AP_PROVIDER_CONFIG={path}: {str(item)[:80]!r} is not an attribute with key and value")
    value = item.get("value")
    return Attribute(item["key"], str(value).lower() if isinstance(value, bool) else str(value))
