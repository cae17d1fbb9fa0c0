"""What commands print: tables, times, JSON documents, and failures with their exit codes.

A row of a table is one line in a pipe or a file. On a terminal the last column is folded to the terminal's width.
"""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from lease.exit_codes import SETTINGS, TROUBLE, UNAVAILABLE, USAGE
from lease.output_forms import Output, document_text
from lease.printable import printable, printable_line
from provider.cli.completion import lease_names
from provider.cli.names import lease_name
from provider.errors import ArgumentError, ProviderUnreachable, SettingsError, WrongChain

__all__ = [
    "LeaseName",
    "Output",
    "OutputOption",
    "code_of",
    "failure",
    "print_lines",
    "print_result",
    "table_lines",
    "utc_time",
    "warn",
]
LeaseName = Annotated[
    str,
    typer.Argument(
        help="The lease's id, dseq, dseq/gseq/oseq or namespace; a unique beginning of id or namespace is enough.",
        metavar="LEASE",
        autocompletion=lease_names,
        callback=lease_name,
    ),
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Form of the output; `--json` is short for `--output json`.")
]
_UNLIMITED = 1_000_000
_NARROWEST = 20
"""Columns of the terminal that the last column of a table needs to be folded."""


def utc_time(seconds: float) -> str:
    """`2023-11-14T22:13:20Z` for Unix seconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def table_lines(rows: Iterable[Sequence[str]], *, header: Sequence[str] = (), right: Collection[int] = ()) -> list[str]:
    """The lines of a table, columns two spaces apart, without characters that steer a terminal.

    `right`: indices of the columns of numbers. Every row has as many cells as the first one.
    """
    from rich.console import Console  # noqa: PLC0415  for tables only: it takes as long as the rest of a small command
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    cells = [[printable_line(cell) for cell in row] for row in rows]
    if not cells:
        return []
    table = Table(box=None, pad_edge=False, show_header=bool(header))
    last = len(cells[0]) - 1
    for index, name in enumerate(header or [""] * len(cells[0])):
        justify = "right" if index in right else "left"
        table.add_column(name, justify=justify, no_wrap=index < last, overflow="fold")  # type: ignore[arg-type]
    for row in cells:
        table.add_row(*map(Text, row))
    text = io.StringIO()
    Console(file=text, width=_width([header, *cells] if header else cells), color_system=None).print(table)
    return [line.rstrip() for line in text.getvalue().split("\n")[:-1]]


def _width(rows: Sequence[Sequence[str]]) -> int:
    """The width to fold at: the terminal's if there is one and the last column has room in it."""
    if not sys.stdout.isatty():
        return _UNLIMITED
    from rich.cells import cell_len  # noqa: PLC0415  see table_lines

    columns = shutil.get_terminal_size().columns
    fixed = sum(max(cell_len(row[index]) for row in rows) + 2 for index in range(len(rows[0]) - 1))
    return columns if fixed + _NARROWEST <= columns else _UNLIMITED


def print_result(document: object, lines: Iterable[str], output: Output) -> None:
    """Print `document` as JSON or YAML, or else `lines`."""
    if output is Output.TABLE:
        if texts := list(lines):
            print_lines(texts)
    else:
        typer.echo(document_text(document, output), nl=False)


def print_lines(lines: Iterable[str]) -> None:
    """Print each as one line, without characters that steer a terminal: tenants and nodes wrote parts of it."""
    typer.echo("\n".join(printable_line(line) for line in lines))


def failure(problem: Exception | str, *, code: int | None = None) -> typer.Exit:
    """Print the problem on standard error, each of several on a line of its own, and return the exit to raise, with
    `code` or the code of the problem.
    """
    texts = problem.problems if isinstance(problem, SettingsError) and problem.problems else (str(problem),)
    for text in texts:
        typer.secho(f"lessor: {printable(text)}", err=True, fg=typer.colors.RED)
    return typer.Exit(code_of(problem) if code is None else code)


def code_of(problem: Exception | str) -> int:
    """The exit code of a command that this problem ends (docs/exit-codes.md)."""
    match problem:
        case ArgumentError():
            return USAGE
        case ProviderUnreachable():
            return UNAVAILABLE
        case SettingsError() | WrongChain():
            return SETTINGS
    return TROUBLE


def warn(text: str) -> None:
    """Print a warning on standard error."""
    typer.secho(printable(text), err=True, fg=typer.colors.YELLOW)
