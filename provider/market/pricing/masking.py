"""What a price script prints is logged and kept; what it may not tell anybody is taken out first."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["masked", "secrets_of"]

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|MNEMONIC|CREDENTIAL|PRIVATE", re.IGNORECASE)
_USER = re.compile(r"(?<=://)[^\s/@]{1,200}(?=@)")
_SHORTEST = 6
"""A shorter value would be found in the middle of prices and words."""
_MASK = "***"


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Values whose variable says that they are secret, the longest first."""
    found = {
        value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value.strip()) >= _SHORTEST
    }
    return tuple(sorted(found, key=len, reverse=True))


def masked(text: str, secrets: tuple[str, ...]) -> str:
    """`text` without these values and without the user part of addresses."""
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return _USER.sub(_MASK, text)
