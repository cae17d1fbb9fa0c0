"""`lessor bid explain --sdl`: what the running provider would decide about an SDL's groups."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from lease.groups import GroupSpec
from lease.resources import Price
from lease.sdl import Sdl, read_sdl
from lease.sdl.document import MAX_BYTES
from provider.cli.home import settings_of_home
from provider.cli.input_file import read_input
from provider.errors import ArgumentError, ProviderError
from provider.market.question_socket import ask_market, market_socket
from provider.units import parse_coin

__all__ = ["what_if"]


def what_if(file: Path, *, price: str, owner: str) -> list[dict[str, Any]]:
    """One explanation for each group.

    Raises `SdlInvalid`, `ArgumentError` when `price` is no price, `ProviderError` when the file cannot be read, and
    `ProviderUnreachable` when no provider runs.
    """
    document = _read(file)
    groups = tuple(_priced(group, price) for group in document.groups) if price else document.groups
    window = document.reclamation_min_window_seconds
    notice = None if window is None else int(window * 10**9)
    return ask_market(market_socket(settings_of_home().home), groups, owner=owner, reclamation_ns=notice)


def _read(file: Path) -> Sdl:
    try:
        return read_sdl(read_input(file, limit=MAX_BYTES), file=str(file))
    except OSError as error:
        raise ProviderError(f"{file}: {error.strerror}") from None


def _priced(group: GroupSpec, text: str) -> GroupSpec:
    """The group with this maximum price for each unit; an amount without a denom keeps the unit's denom."""
    try:
        coin = parse_coin(text) if not text.replace(".", "", 1).isdigit() else None
        amount = Decimal(text) if coin is None else coin.amount
    except (ValueError, InvalidOperation):
        raise ArgumentError(f"--price {text[:80]!r}: must be an amount with a denom, for example 100uact") from None
    units = (
        replace(unit, price=Price(unit.price.denom if coin is None else coin.denom, amount)) for unit in group.units
    )
    return replace(group, units=tuple(units))
