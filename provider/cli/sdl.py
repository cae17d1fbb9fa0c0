"""`lessor sdl`: check SDLs, and print what a client makes of one. It reads files and needs no provider.

A file with an error or a warning is a finding; a file that cannot be read is trouble.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lease.errors import Finding, ManifestRefused, SdlInvalid
from lease.exit_codes import FINDING, FINE, TROUBLE, USAGE
from lease.groups_json import groups_json
from lease.manifest_json import manifest_json
from lease.printable import printable
from lease.sdl import Sdl, read_sdl
from lease.sdl.document import MAX_BYTES, source_lines
from lease.sdl.unknown_keys import unknown_keys
from lease.validation import check_for_provider, check_new_manifest
from provider.cli.input_file import read_input

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["check", "groups", "hash_", "manifest"]

_HELP = "An SDL of version 2.0 or 2.1; - reads standard input."
_File = Annotated[Path, typer.Argument(help=_HELP, metavar="FILE")]
_Files = Annotated[list[Path], typer.Argument(help=_HELP, metavar="FILE...")]
_OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
"""Any account: only the length of its address counts."""


def check(files: _Files) -> None:
    """List every error in each SDL, with its line.

    An SDL that is valid may have warnings: keys without an effect, and what a provider will refuse. Exit code 0: every
    SDL is valid; 1: an SDL cannot be deployed, or has warnings; 2: a file cannot be read.

    Example: `lessor sdl check examples/web.yaml`
    """
    if files.count(Path("-")) > 1:
        typer.echo("-: given twice; standard input can be read only once", err=True)
        raise typer.Exit(USAGE)
    worst = FINE
    for file in files:
        try:
            worst = max(worst, _confirm(file))
        except typer.Exit as refused:
            worst = max(worst, refused.exit_code)
    raise typer.Exit(worst)


def _confirm(file: Path) -> int:
    """Print that the SDL is valid, and its warnings; 1 when there are any. Raises `typer.Exit` when it is not valid."""
    content = _bounded(file)
    document = _parsed(file, content)
    groups = ", ".join(group.name for group in document.groups)
    services = sum(len(group.services or ()) for group in document.manifest)
    text = printable(f"{file}: valid; {services} service{'s' * (services != 1)} in {groups}")
    from rich.console import Console  # noqa: PLC0415  see _show

    Console(soft_wrap=True, highlight=False).print(text, style="green", markup=False)
    warnings = [*unknown_keys(content, file=str(file)), *_refusals(file, document)]
    if warnings:
        _show(tuple(warnings), source_lines(content), kind="warning")
    return FINDING if warnings else FINE


def _refusals(file: Path, document: Sdl) -> Iterator[Finding]:
    """What this provider will refuse in each group of a valid SDL."""
    for group in document.manifest:
        try:
            check_new_manifest(group, owner=_OWNER)
            check_for_provider(group, require_hosts=False)
        except ManifestRefused as error:
            yield Finding(str(file), 1, 1, f"deployment to {group.name}", f"a provider will refuse it: {error.problem}")


def hash_(file: _File) -> None:
    """Print the hash that goes on chain, in hex.

    Example: `lessor sdl hash examples/web.yaml`
    """
    typer.echo(_read(file).version.hex())


def manifest(file: _File) -> None:
    """Print the manifest as JSON, as a client sends it.

    Example: `lessor sdl manifest examples/web.yaml`
    """
    typer.echo(manifest_json(_read(file).manifest, indent=2))


def groups(file: _File) -> None:
    """Print the group specs as JSON, as they go on chain.

    Example: `lessor sdl groups examples/web.yaml`
    """
    typer.echo(groups_json(_read(file).groups, indent=2))


def _read(file: Path) -> Sdl:
    """The document. Raises `typer.Exit` when it cannot be read or is invalid, with the findings on standard error."""
    return _parsed(file, _bounded(file))


def _bounded(file: Path) -> bytes:
    content = _content(file)
    if len(content) > MAX_BYTES:
        typer.echo(printable(f"{file}: more than {MAX_BYTES} bytes; no SDL is that long"), err=True)
        raise typer.Exit(FINDING)
    return content


def _parsed(file: Path, content: bytes) -> Sdl:
    try:
        return read_sdl(content, file=str(file))
    except SdlInvalid as error:
        _show(error.findings, source_lines(content))
        raise typer.Exit(FINDING) from None


def _content(file: Path) -> bytes:
    """At most one byte more than a document may have, so that the caller sees that it is too long."""
    try:
        return read_input(file, limit=MAX_BYTES)
    except OSError as error:
        typer.echo(printable(f"{file}: {error.strerror}; give an SDL file, or - for standard input"), err=True)
        raise typer.Exit(TROUBLE) from None


def _show(findings: tuple[Finding, ...], lines: list[str], *, kind: str = "error") -> None:
    """Print each finding as compilers do: place and problem, the line, a caret below the column.

    rich is imported here, because importing it takes as long as reading an SDL.
    """
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for finding in findings:
        head = Text(printable(f"{finding.file}:{finding.line}:{finding.column}: "), style="bold")
        head.append(f"{kind}: ", style="bold red" if kind == "error" else "bold yellow").append(
            printable(finding.message)
        )
        console.print(head)
        if finding.line <= len(lines):
            _show_line(console, lines[finding.line - 1], finding)
        for label, text in (("in", finding.path), ("found", finding.found), ("allowed", finding.allowed)):
            if text:
                console.print(Text(f"  {label}: ", style="dim").append(printable(text)))
    count, noun = len(findings), "finding" if kind == "error" else "warning"
    console.print(Text(f"{count} {noun}{'' if count == 1 else 's'}", style="bold"))


def _show_line(console: Console, line: str, finding: Finding) -> None:
    """Print the part of the line around the column. Tabs are kept and wide characters counted for the caret's place."""
    from rich.cells import cell_len  # noqa: PLC0415  see _show
    from rich.text import Text  # noqa: PLC0415

    start = max(0, finding.column - 81)
    shown = printable(line[start : start + 160])
    number = f"{finding.line:>5} | "
    before = shown[: finding.column - 1 - start]
    blanks = "".join("\t" if char == "\t" else " " * cell_len(char) for char in before)
    console.print(Text(number, style="dim").append(shown, style=""))
    console.print(Text(" " * (len(number) - 2) + "| " + blanks).append("^", style="bold red"))
