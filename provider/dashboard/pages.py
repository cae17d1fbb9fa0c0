"""The pages: their templates, and how a tenant's text gets into them.

Templates escape markup by themselves. Control characters, and those that turn the direction of text, are shown as
escapes, so that no tenant's text looks like something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["duration", "page", "size", "visible"]

_KEPT = "\n\t"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def visible(value: Any) -> Any:
    """A text with every character that cannot be printed as an escape, such as `\\x1b`. Other values, and finished
    markup, are returned as they are; None is an empty text.
    """
    if value is None:
        return ""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value
    return "".join(char if char.isprintable() or char in _KEPT else _escape(char) for char in value)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode() if ord(char) < 0xD800 or ord(char) > 0xDFFF else f"\\u{ord(char):04x}"


def page(name: str, context: Mapping[str, Any]) -> str:
    """The page of a template as HTML."""
    return _environment().get_template(name).render(**context)


def size(number: float) -> str:
    """Bytes in the largest unit that gives at least 1: `1.5 GiB`."""
    value = float(number)
    for unit in _UNITS:
        if abs(value) < 1024 or unit == _UNITS[-1]:
            return f"{value:.1f}".rstrip("0").rstrip(".") + f" {unit}"
        value /= 1024
    raise AssertionError


def duration(seconds: float | None) -> str:
    """Seconds as the two largest units: `3 d 4 h`. Empty for None."""
    if seconds is None:
        return ""
    left, parts = int(max(0.0, seconds)), []
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _moment(at: float | None) -> str:
    if at is None:
        return ""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _coins(amount: Decimal | float | str, denom: str) -> str:
    """Micro-units as whole coins; a denom that is none of the chain's own stays as it is."""
    if denom[:1] != "u":
        return f"{Decimal(amount):f} {denom}"
    return f"{(Decimal(amount) / 1_000_000).quantize(Decimal('0.000001')).normalize():f} {denom[1:].upper()}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("provider.dashboard"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(size=size, duration=duration, moment=_moment, coins=_coins)
    return made
