"""`lessor bid`: which orders the provider bid on, which it declined, and why.

`list` and `explain ORDER` read the store, beside a running provider or without one; `explain --sdl` asks a running one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from lease.errors import SdlInvalid
from lease.exit_codes import FINDING
from provider.cli.bid_store import past, recent
from provider.cli.bid_text import decision_json, decision_lines, explained_lines
from provider.cli.bid_what_if import what_if
from provider.cli.names import account
from provider.cli.output import Output, OutputOption, failure, print_result
from provider.errors import ArgumentError, ProviderError

__all__ = ["explain", "list_"]

_MANY = 1_000_000
_Answer = TypeVar("_Answer")


def list_(
    *,
    limit: Annotated[int, typer.Option(min=1, max=_MANY, help="The number of decisions to list.")] = 20,
    declined: Annotated[bool, typer.Option("--declined", help="List only orders that were declined.")] = False,
    bids: Annotated[bool, typer.Option("--bids", help="List only orders that were bid on.")] = False,
    owner: Annotated[str, typer.Option(help="List only orders of this tenant.", callback=account)] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """List decisions about orders, the newest first.

    A row holds the order and the bid with its outcome, or the first reason for declining.

    Example: `lessor bid list --declined`
    """
    if declined and bids:
        raise failure(ArgumentError("--declined and --bids exclude each other"))
    verdict = "declined" if declined else "bid" if bids else ""
    found = _ask(recent(limit=limit, verdict=verdict, owner=owner))
    print_result([decision_json(one) for one in found], decision_lines(found), output)


def explain(
    order: Annotated[
        str,
        typer.Argument(
            help="owner/dseq/gseq/oseq, or dseq with as many of the other parts as make it unique.", metavar="ORDER"
        ),
    ] = "",
    *,
    sdl: Annotated[
        Path | None,
        typer.Option(help="Explain what the running provider would decide if this SDL were an order; - reads stdin."),
    ] = None,
    price: Annotated[str, typer.Option(help="With --sdl: the maximum price of every unit, for example 100uact.")] = "",
    owner: Annotated[str, typer.Option(help="With --sdl: the tenant whose order it would be.", callback=account)] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain why an order was bid on or declined.

    Shown are every check, the price line by line, and each node that does not fit. Name either an ORDER, whose recorded
    decision is explained, or an SDL by --sdl.

    Example: `lessor bid explain --sdl examples/web.yaml`
    """
    if bool(order) == (sdl is not None) or (sdl is None and (price or owner)):
        raise failure(ArgumentError("name an order, or --sdl FILE with --price and --owner"))
    found = _ask(past(order)) if sdl is None else _call(partial(what_if, sdl, price=price, owner=owner))
    print_result(found, (line for one in found for line in explained_lines(one)), output)


def _ask(question: Coroutine[Any, Any, _Answer]) -> _Answer:
    return _call(lambda: asyncio.run(question))


def _call(question: Callable[[], _Answer]) -> _Answer:
    try:
        return question()
    except SdlInvalid as error:
        raise failure(error, code=FINDING) from None
    except ProviderError as error:
        raise failure(error) from None
