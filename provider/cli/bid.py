"""`lessor bid`: which orders were bid on, which were not, and why.

`list` and `explain ORDER` read the store, beside a running provider or without one; `explain --sdl` asks a running one.
Exit code 1: no such decision, nobody answers, or the store cannot be read; 2: wrong settings or arguments.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer

from lease.printable import printable, printable_line
from provider.errors import ProviderError, SettingsError

__all__ = ["register"]

_Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
_UNKNOWN, _WRONG = 1, 2
_MANY = 1_000_000
_Answer = TypeVar("_Answer")

bid = typer.Typer(no_args_is_help=True, help="What was decided about orders, and why.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(bid, name="bid")


@bid.command(name="list")
def list_(
    *,
    limit: Annotated[int, typer.Option(min=1, max=_MANY, help="So many decisions, the newest first.")] = 20,
    declined: Annotated[bool, typer.Option("--declined", help="Only orders that were not bid on.")] = False,
    bids: Annotated[bool, typer.Option("--bids", help="Only orders that were bid on.")] = False,
    owner: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    as_json: _Json = False,
) -> None:
    """Recent decisions: the order, the price or the first reason, and what became of the bid."""
    from provider.cli.bid_store import recent  # noqa: PLC0415  other commands start without the store
    from provider.cli.bid_text import decision_json, decision_lines  # noqa: PLC0415

    if declined and bids:
        _fail("--declined and --bids exclude each other", _WRONG)
    verdict = "declined" if declined else "bid" if bids else ""
    found = _ask(recent(limit=limit, verdict=verdict, owner=owner))
    _print([decision_json(one) for one in found], decision_lines(found), as_json=as_json)


@bid.command()
def explain(
    order: Annotated[str, typer.Argument(help="owner/dseq/gseq/oseq, or dseq with as much more as is needed.")] = "",
    *,
    sdl: Annotated[Path | None, typer.Option(help="What if this SDL were an order now? - is standard input.")] = None,
    price: Annotated[str, typer.Option(help="With --sdl: every unit may cost so much, for example 100uact.")] = "",
    owner: Annotated[str, typer.Option(help="With --sdl: as an order of this tenant.")] = "",
    as_json: _Json = False,
) -> None:
    """Why was this order bid on, or not? Every check, the price line by line, and each node."""
    from provider.cli.bid_text import explained_lines  # noqa: PLC0415

    if bool(order) == (sdl is not None) or (sdl is None and (price or owner)):
        _fail("name an order, or --sdl FILE with --price and --owner", _WRONG)
    if sdl is not None:
        from provider.cli.bid_what_if import what_if  # noqa: PLC0415

        found = _call(lambda: what_if(sdl, price=price, owner=owner))
    else:
        from provider.cli.bid_store import past  # noqa: PLC0415

        found = _ask(past(order))
    _print(found, [line for one in found for line in explained_lines(one)], as_json=as_json)


def _ask(question: Coroutine[Any, Any, _Answer]) -> _Answer:
    return _call(lambda: asyncio.run(question))


def _call(question: Callable[[], _Answer]) -> _Answer:
    try:
        return question()
    except ProviderError as error:
        _fail(str(error), _WRONG if isinstance(error, SettingsError) else _UNKNOWN)


def _fail(words: str, code: int) -> NoReturn:
    typer.secho(f"lessor: {printable(words)}", err=True, fg=typer.colors.RED)
    raise typer.Exit(code) from None


def _print(document: object, lines: Sequence[str], *, as_json: bool) -> None:
    """What tenants wrote does not steer the terminal; JSON escapes it by itself."""
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo("\n".join(printable_line(line) for line in lines))
