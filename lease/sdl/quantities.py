"""Numbers of an SDL: CPU, sizes, prices and durations, with Go's truncations (sdl-and-manifest.md §1.8, §1.11, §1.13).

Every function returns the value, or raises `ValueError` with the problem. Unlike in Go's parser no number wraps around:
a number that does not fit 32 bits (CPU) or 64 bits (sizes) is refused.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from fractions import Fraction

from lease.resources import Price

__all__ = ["byte_size", "cpu_milli", "decimal_amount", "denom_valid", "duration_seconds", "price"]

_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?")
_DIGITS = re.compile(r"[0-9]{1,20}")
_AMOUNT = re.compile(r"([-+]?)[0-9]{1,60}(?:\.[0-9]+)?")
_PRECISION = 18
_WIDE = Context(prec=100)
_DENOM = re.compile(r"[a-zA-Z][a-zA-Z0-9/:._-]{2,127}")
_SUFFIXES = {
    **{letter: 10 ** (3 * power) for power, letter in enumerate("kMGTPE", 1)},
    **{letter + "i": 2 ** (10 * power) for power, letter in enumerate("KMGTPE", 1)},
}
_MINUTE = 60 * 10**9
_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": _MINUTE,
    "h": 60 * _MINUTE,
}
_DURATION_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]+)")


def _number(text: str) -> float:
    if not _FLOAT.fullmatch(text) or "__" in text or len(text) > 200:
        raise ValueError(f'parsing "{text[:40]}": invalid syntax')
    return float(text.replace("_", ""))


def cpu_milli(text: str) -> int:
    """Thousandths of a CPU: 100 for `100m` and `0.1`. Fractions are cut off. At most 2^32 - 1."""
    if text.endswith("m"):
        if not _DIGITS.fullmatch(text[:-1]):
            raise ValueError(f'parsing "{text[:-1][:40]}": invalid syntax')
        value: float = int(text[:-1])
    else:
        value = _number(text) * 1000
        if value < 0:
            raise ValueError("invalid: negative value not allowed")
    if value >= 2**32:
        raise ValueError("CPU units do not fit 32 bits")
    return int(value)


def byte_size(text: str) -> int:
    """Bytes for `1Gi`, `1.5G` or `1e9`. Fractions are cut off. Below 2^64."""
    suffix = text[-2:] if text[-2:] in _SUFFIXES else text[-1:] if text[-1:] in _SUFFIXES else ""
    value = _number(text.removesuffix(suffix) if suffix else text) * _SUFFIXES.get(suffix, 1)
    if value < 0:
        raise ValueError("invalid: negative value not allowed")
    if value >= 2**64:
        raise ValueError("size does not fit 64 bits")
    return int(value)


def _decimals(text: str) -> str:
    """Digits and sign as Go joins them: without the point, 18 decimals. Raises `ValueError` with Go's text."""
    whole, point, decimals = text.removeprefix("-").partition(".")
    if "." in decimals:
        raise ValueError("invalid decimal string")
    if point and not (whole and decimals):
        raise ValueError("invalid decimal length")
    if len(decimals) > _PRECISION:
        excess = f"exceeds max precision by {_PRECISION - len(decimals)} decimal places: max precision {_PRECISION}"
        raise ValueError(f"value '{text[:40]}' {excess}")
    return whole + decimals.ljust(_PRECISION, "0")


def decimal_amount(text: str) -> Decimal:
    """An amount above zero: digits with at most 18 decimals and no exponent."""
    if not text:
        raise ValueError("decimal string cannot be empty")
    combined = _decimals(text)
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"failed to set decimal string with base 10: {combined[:40]}")
    value = Decimal(text)
    if value == 0:
        raise ValueError("invalid coin amount: amount is zero")
    if value < 0:
        shown = f"{value.quantize(Decimal(10) ** -_PRECISION, context=_WIDE):f}"
        raise ValueError(f'invalid: negative value not allowed: amount "{shown}" is negative')
    return value


def denom_valid(text: str) -> bool:
    """Whether the text has the form of a denom; whether a deployment may be priced in it is another check."""
    return _DENOM.fullmatch(text) is not None


def price(denom: str, amount: str) -> Price:
    """The price; the amount is checked before the denom, as in Go."""
    value = decimal_amount(amount)
    if not denom_valid(denom):
        raise ValueError(f"invalid denom: {denom[:40]}")
    return Price(denom, value)


def duration_seconds(text: str) -> Fraction:
    """Seconds of Go's duration text (`1h30m`, `1.5s`, `100ms`), exact; above zero and within int64 nanoseconds."""
    rest = text[1:] if text[:1] in "+-" else text
    parts = list(_DURATION_PART.finditer(rest[:200]))
    if not rest or len(rest) > 200 or "".join(part[0] for part in parts) != rest:
        missing = "missing unit in duration" if re.fullmatch(r"[0-9.]*[0-9][0-9.]*", rest) else "invalid duration"
        raise ValueError(f'time: {missing} "{text[:40]}"')
    nanoseconds = Fraction(0)
    for part in parts:
        digits = part[1] + (part[2] or "")
        if digits in ("", "."):
            raise ValueError(f'time: invalid duration "{text[:40]}"')
        if part[3] not in _NANOSECONDS:
            raise ValueError(f'time: unknown unit "{part[3][:20]}" in duration "{text[:40]}"')
        nanoseconds += Fraction(digits if digits[-1] != "." else digits[:-1]) * _NANOSECONDS[part[3]]
    if int(nanoseconds) >= 2**63:
        raise ValueError(f'time: invalid duration "{text[:40]}"')
    if text[0] == "-" or int(nanoseconds) <= 0:
        raise ValueError("reclamation min_window must be > 0")
    return Fraction(int(nanoseconds), 10**9)
