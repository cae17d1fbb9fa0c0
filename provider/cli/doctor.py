"""`lessor doctor`: which tools the devnet and the engine have on this machine, and what to do about the rest."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from devnet.errors import DevnetError
from devnet.node import missing_requirements
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools, survey, voice
from provider.cli.devnet_node import NodeKind

__all__ = ["doctor"]


def doctor(
    build: Annotated[bool, typer.Option("--build", help="Build what is missing (the first time takes long).")] = False,
    throw_away: Annotated[
        bool, typer.Option("--throw-away", help="Build without leaving a Go build cache (up to 12 GB) behind.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: a list of objects, one a tool.")] = False,
    *,
    node: Annotated[
        NodeKind, typer.Option(help="`real` adds the programs of a real node and what the machine lacks for one.")
    ] = NodeKind.SIMULATED,
) -> None:
    """Show every tool, where it was found, and how to get a missing one.

    Exit code 1: a tool is missing, or the machine cannot run a real node that was asked for.
    """
    names = (*CONTROL_PLANE, *ENGINE, *(NODE if node is NodeKind.REAL else ()))
    problems = missing_requirements() if node is NodeKind.REAL else ()
    errors = Console(stderr=True)
    try:
        if build and not problems:
            with voice(errors) as spoken:
                ensure_tools(names, voice=spoken, throw_away=throw_away)
        rows = [dataclasses.asdict(found) for found in survey(names)]
    except DevnetError as error:
        errors.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    _show(rows, as_json=as_json)
    for problem in problems:
        errors.print(f"A real node cannot run here: {problem}", style="red", markup=False, soft_wrap=True)
    if problems or any(row["where"] == "missing" for row in rows):
        raise typer.Exit(1)


def _show(rows: Sequence[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows, default=str, indent=2))
        return
    table = Table("tool", "found", "version")
    table.add_column("where / what to do", overflow="fold")
    for row in rows:
        notes = filter(None, [_short(row["path"]), str(row["note"])])
        style = "red" if row["where"] == "missing" else None
        table.add_row(str(row["name"]), str(row["where"]), str(row["version"]), "\n".join(notes), style=style)
    Console().print(table)


def _short(path: object) -> str:
    """A path in the home folder begins with `~`."""
    return str(path or "").replace(str(Path.home()), "~", 1)
