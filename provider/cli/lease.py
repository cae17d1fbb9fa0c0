"""`lessor lease`: what the provider knows about its leases and has done with them. Reads its store, changes nothing.

Works beside a running provider and without one. Exit code 1: no such lease, or the store cannot be read; 2: wrong
settings.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, TypeVar

import typer

from lease.printable import printable
from provider.errors import SettingsError, StoreError

__all__ = ["register"]

_HELP = "Its id, dseq, dseq/gseq/oseq or namespace; a unique beginning of id or namespace is enough."
_Name = Annotated[str, typer.Argument(help=_HELP, metavar="LEASE")]
_Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
_UNKNOWN, _SETTINGS = 1, 2
_MANY = 1_000_000
_Answer = TypeVar("_Answer")

lease = typer.Typer(no_args_is_help=True, help="The leases this provider knows, and what it did with each.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    from provider.cli.lease_commands import register_words  # noqa: PLC0415
    from provider.cli.lease_restore import register_restore  # noqa: PLC0415  once, whoever builds an app

    if not any(command.name == "release-brake" for command in lease.registered_commands):
        register_words(lease)
        register_restore(lease)
    app.add_typer(lease, name="lease")


@lease.command(name="list")
def list_(
    *,
    closed: Annotated[bool, typer.Option("--all", help="Closed ones too, as long as they are kept.")] = False,
    suspect: Annotated[bool, typer.Option("--suspect", help="What waits for your word, as `lessor run` says.")] = False,
    as_json: _Json = False,
) -> None:
    """Every lease with its state, since when, and why."""
    if suspect:
        _print_standing(as_json=as_json)
        return
    from provider.cli.lease_store import every_lease  # noqa: PLC0415  other commands start without the store
    from provider.cli.lease_text import brake_lines, lease_json, list_lines  # noqa: PLC0415

    found, held = _ask(every_lease(closed=closed))
    document = [lease_json(status) | ({"braked": True} if status.lease in held else {}) for status in found]
    _print(document, [*list_lines(found), *brake_lines(held)], as_json=as_json)


def _print_standing(*, as_json: bool) -> None:
    from provider.cli.lease_commands import standing  # noqa: PLC0415
    from provider.cli.lease_text import standing_lines  # noqa: PLC0415

    found = standing()
    document = {name: found[name] for name in ("suspects", "braked", "unknown_stacks")}
    _print(document, standing_lines(document), as_json=as_json)


@lease.command()
def show(name: _Name, *, as_json: _Json = False) -> None:
    """One lease: its state, what runs, and how its runs went."""
    from provider.cli.lease_store import one_lease  # noqa: PLC0415
    from provider.cli.lease_text import show_json, show_lines  # noqa: PLC0415

    found = _ask(one_lease(name, limit=_MANY))
    _print(show_json(found.status, found.runs), show_lines(found.status, found.runs), as_json=as_json)


@lease.command()
def history(
    name: _Name,
    *,
    limit: Annotated[int, typer.Option(min=1, max=_MANY, help="So many runs, the newest first.")] = 20,
    as_json: _Json = False,
) -> None:
    """What each run was asked to do and why, what it changed, how long it took and how it ended."""
    from provider.cli.lease_store import one_lease  # noqa: PLC0415
    from provider.cli.lease_text import history_lines, run_json  # noqa: PLC0415

    found = _ask(one_lease(name, limit=limit))
    if found.key_problem:
        typer.secho(f"lessor: changes are not shown: {printable(found.key_problem)}", err=True, fg=typer.colors.YELLOW)
    _print([run_json(run) for run in found.runs], history_lines(found.runs), as_json=as_json)


def _ask(question: Coroutine[Any, Any, _Answer]) -> _Answer:
    try:
        return asyncio.run(question)
    except (SettingsError, StoreError) as error:
        typer.secho(f"lessor: {printable(str(error))}", err=True, fg=typer.colors.RED)
        raise typer.Exit(_SETTINGS if isinstance(error, SettingsError) else _UNKNOWN) from None


def _print(document: object, lines: Sequence[str], *, as_json: bool) -> None:
    """What tenants wrote does not steer the terminal; JSON escapes it by itself."""
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo("\n".join(printable(line) for line in lines))
