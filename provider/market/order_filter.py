"""What an order must ask for before we look at it: the attributes in the provider's own configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lease.attributes import attribute_keys_valid
from lease.resources import Attribute
from provider.errors import SettingsError

__all__ = ["load_order_filter"]


def load_order_filter(path: Path | None) -> tuple[Attribute, ...]:
    """The attributes of a YAML file `{host, info, attributes: [{key, value}]}` (bidding.md §1.4, row 2)."""
    if path is None:
        return ()
    try:
        document = yaml.safe_load(path.read_text())
        found = tuple(_attribute(item) for item in (document or {}).get("attributes") or ())
    except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise SettingsError(f"AP_PROVIDER_CONFIG={path}: cannot be used: {error}") from None
    problem = attribute_keys_valid(found)
    if problem:
        raise SettingsError(f"AP_PROVIDER_CONFIG={path}: attributes: {problem}")
    return found


def _attribute(item: Any) -> Attribute:
    key, value = item["key"], item["value"]
    return Attribute(str(key), str(value))
