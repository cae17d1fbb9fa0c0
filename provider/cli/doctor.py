"""`lessor doctor`: which tools the devnet and the engine have on this machine, and what to do about the rest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    build: Annotated[bool, typer.Option("--build", help="Build what is missing (the first time takes long).")] = False,
    throw_away: Annotated[
        bool, typer.Option("--throw-away", help="Build without leaving a Go build cache (up to 12 GB) behind.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list of objects, one a tool.")] = False,
) -> None:
    """Show every tool, where it was found, and how to get a missing one.

    Exit code 1: a tool is missing.
    """
    from devnet.errors import DevnetError  # noqa: PLC0415  other commands start without the devnet
    from devnet.tools import ensure_tools, survey, voice  # noqa: PLC0415

    errors = Console(stderr=True)
    try:
        if build:
            with voice(errors) as told:
                ensure_tools(voice=told, throw_away=throw_away)
        rows = [dataclasses.asdict(found) for found in survey()]
    except DevnetError as error:
        errors.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    _show(rows, as_json=as_json)
    if any(row["where"] == "missing" for row in rows):
        raise typer.Exit(1)


def _show(rows: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, default=str, indent=2))
        return
    table = Table("tool", "found", "version")
    table.add_column("where / what to do", overflow="fold")
    for row in rows:
        told = filter(None, [_short(row["path"]), str(row["note"])])
        style = "red" if row["where"] == "missing" else None
        table.add_row(str(row["name"]), str(row["where"]), str(row["version"]), "\n".join(told), style=style)
    Console().print(table)


def _short(path: object) -> str:
    """A path in the home folder begins with `~`."""
    return str(path or "").replace(str(Path.home()), "~", 1)
