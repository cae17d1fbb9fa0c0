"""`lessor sdl`: check a document, and print what becomes of it. Reads one file, asks nobody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from lease.errors import Finding, SdlInvalid
from lease.groups_json import groups_json
from lease.manifest_json import manifest_json
from lease.printable import printable
from lease.sdl import Sdl, read_sdl
from lease.sdl.document import MAX_BYTES

__all__ = ["register"]

_File = Annotated[Path, typer.Argument(help="An SDL of version 2.0 or 2.1, or - for standard input.", metavar="FILE")]

sdl = typer.Typer(no_args_is_help=True, help="Check an SDL; print its hash, manifest or group specs.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(sdl, name="sdl")


@sdl.command()
def check(file: _File) -> None:
    """Show everything that is wrong, with the line it is in; exit 1 if anything is."""
    document = _read(file)
    groups = ", ".join(group.name for group in document.groups)
    services = sum(len(group.services or ()) for group in document.manifest)
    Console(soft_wrap=True, highlight=False).print(
        f"{file}: valid; {services} services in {groups}", style="green", markup=False
    )


@sdl.command(name="hash")
def hash_(file: _File) -> None:
    """Print the hash that goes on chain, in hex."""
    typer.echo(_read(file).version.hex())


@sdl.command()
def manifest(file: _File) -> None:
    """Print the manifest as JSON, as a client sends it."""
    typer.echo(manifest_json(_read(file).manifest, indent=2))


@sdl.command()
def groups(file: _File) -> None:
    """Print the group specs as JSON, as they go on chain."""
    typer.echo(groups_json(_read(file).groups, indent=2))


def _read(file: Path) -> Sdl:
    """The document, or its findings on standard error and exit code 1."""
    try:
        content = _content(file)
    except OSError as error:
        typer.echo(f"{file}: {error.strerror}; give an SDL file, or - for standard input", err=True)
        raise typer.Exit(1) from None
    try:
        return read_sdl(content, file=str(file))
    except SdlInvalid as error:
        _show(error.findings, content)
        raise typer.Exit(1) from None


def _content(file: Path) -> bytes:
    """One byte more than a document may have tells that it is too long."""
    if str(file) == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with file.open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _show(findings: tuple[Finding, ...], content: bytes) -> None:
    """Each finding as compilers show them: place and problem, the line, a caret below the column."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    lines = content.decode("utf-8", errors="replace").removeprefix("\ufeff").splitlines()
    for finding in findings:
        head = Text(f"{finding.file}:{finding.line}:{finding.column}: ", style="bold")
        head.append("error: ", style="bold red").append(printable(finding.message))
        console.print(head)
        if finding.line <= len(lines):
            _show_line(console, lines[finding.line - 1], finding)
        for label, text in (("in", finding.path), ("found", finding.found), ("allowed", finding.allowed)):
            if text:
                console.print(Text(f"  {label}: ", style="dim").append(printable(text)))
    count = len(findings)
    console.print(Text(f"{count} finding{'' if count == 1 else 's'}", style="bold"))


def _show_line(console: Console, line: str, finding: Finding) -> None:
    """The line, cut to what is around the column, tabs kept so that the caret stands right."""
    start = max(0, finding.column - 81)
    shown = line[start : start + 160]
    number = f"{finding.line:>5} | "
    blanks = "".join("\t" if char == "\t" else " " for char in shown[: finding.column - 1 - start])
    console.print(Text(number, style="dim").append(printable(shown), style=""))
    console.print(Text(" " * (len(number) - 2) + "| " + blanks).append("^", style="bold red"))
