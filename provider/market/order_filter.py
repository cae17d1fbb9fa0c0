"""What an order must ask for before we look at it: the attributes of the operator's `provider.yaml` (bidding.md
§1.4, row 2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lease.attributes import attribute_keys_valid
from lease.resources import Attribute
from provider.errors import SettingsError

__all__ = ["load_order_filter"]


def load_order_filter(path: Path | None) -> tuple[Attribute, ...]:
    """The `attributes` of a provider configuration: an order must ask for each of them."""
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
