"""The settings file of a stack, which says who encrypts its secrets, from a state, which says so too."""

from __future__ import annotations

from typing import Any

import yaml

from stacks.common.config import EngineConfig
from stacks.common.files import write_private

__all__ = ["write_settings"]

_NAMES = {"salt": "encryptionsalt", "url": "secretsprovider", "encryptedkey": "encryptedkey"}


def write_settings(config: EngineConfig, stack: str, latest: dict[str, Any]) -> bool:
    """Write the settings file from the newest part of a state, which knows who encrypted it; False if it does not."""
    stored = (latest.get("secrets_providers") or {}).get("state") or {}
    restored = {_NAMES[key]: value for key, value in stored.items() if key in _NAMES and value}
    if restored:
        write_private(config.settings_file(stack), yaml.safe_dump(restored))
    return bool(restored)
