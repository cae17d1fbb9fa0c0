"""Kubernetes quantities, as far as the rules compare them."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

__all__ = ["positive", "quantity"]

_FORM = re.compile(r"(\+?(?:\d{1,40}\.?\d{0,20}|\.\d{1,20}))(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)")
_LONGEST = 66
"""Characters of the longest text of that form."""
_DECIMAL = {
    unit: Decimal(10) ** power for unit, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
}
_BINARY = {f"{unit}i": Decimal(2) ** (10 * power) for power, unit in enumerate("KMGTPE", 1)}
_UNITS = _DECIMAL | _BINARY


def quantity(value: object) -> Decimal | None:
    """The amount in base units (cores, bytes, devices); None for a value that is no quantity of zero or more."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value)
    return _amount(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=1024)  # several rules read each amount of an object
def _amount(text: str) -> Decimal | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    number, exponent, unit = found.groups()
    return Decimal(number + (exponent or "")) * (_UNITS[unit] if unit else 1)


def positive(value: object) -> bool:
    """Whether this is a quantity above zero; runtimes read a limit of zero as no limit."""
    amount = quantity(value)
    return amount is not None and amount > 0
