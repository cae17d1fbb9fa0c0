"""`lessor sdl`: check SDLs, and print what a client makes of one. It reads files and needs no provider.

A file with an error or a warning is a finding; a file that cannot be read is trouble.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from provider.cli.output import Output, OutputOption, print_result, table_lines

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["check", "groups", "hash_", "manifest"]

_HELP = "An SDL of version 2.0 or 2.1; - reads standard input."
_File = Annotated[Path, typer.Argument(help=_HELP, metavar="FILE")]
_Files = Annotated[list[Path], typer.Argument(help=_HELP, metavar="FILE...")]
_OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
"""Any account: only the length of its address counts."""
_TOO_LONG = f"{{}}: more than {MAX_BYTES} bytes; no SDL is that long"


@dataclass(frozen=True, slots=True)
class _Checked:
    """One SDL: `errors` when it is not valid, else what is in it and its `warnings`. `unread`: why there is no text."""

    file: Path
    lines: Sequence[str] = ()
    document: Sdl | None = None
    errors: Sequence[Finding] = ()
    warnings: Sequence[Finding] = ()
    unread: str = ""
    code: int = FINE


def check(files: _Files, *, output: OutputOption = Output.TABLE) -> None:
    """List every error in each SDL, with its line.

    An SDL that is valid may have warnings: keys without an effect, and what a provider will refuse. Exit code 0: every
    SDL is valid; 1: an SDL cannot be deployed, or has warnings; 2: a file cannot be read.

    Example: `lessor sdl check examples/web.yaml`
    """
    if files.count(Path("-")) > 1:
        typer.echo("-: given twice; standard input can be read only once", err=True)
        raise typer.Exit(USAGE)
    worst, documents = FINE, []
    for file in files:
        found = _checked(file)
        worst = max(worst, found.code)
        if output is Output.TABLE:
            _show_checked(found)
        documents.append(_checked_json(found))
    if output is not Output.TABLE:
        print_result(documents, (), output)
    raise typer.Exit(worst)


def _checked(file: Path) -> _Checked:
    try:
        content = read_input(file, limit=MAX_BYTES)
    except OSError as error:
        return _Checked(file, unread=_unread(file, error), code=TROUBLE)
    if len(content) > MAX_BYTES:
        return _Checked(file, unread=_TOO_LONG.format(file), code=FINDING)
    lines = source_lines(content)
    try:
        document = read_sdl(content, file=str(file))
    except SdlInvalid as error:
        return _Checked(file, lines, errors=error.findings, code=FINDING)
    warnings = [*unknown_keys(content, file=str(file)), *_refusals(file, document)]
    return _Checked(file, lines, document, warnings=warnings, code=FINDING if warnings else FINE)


def _show_checked(found: _Checked) -> None:
    if found.unread:
        typer.echo(printable(found.unread), err=True)
    if found.document is not None:
        from rich.console import Console  # noqa: PLC0415  see _show

        groups = ", ".join(group.name for group in found.document.groups)
        services = _services(found.document)
        text = printable(f"{found.file}: valid; {services} service{'s' * (services != 1)} in {groups}")
        Console(soft_wrap=True, highlight=False).print(text, style="green", markup=False)
    if found.errors:
        _show(found.errors, found.lines)
    if found.warnings:
        _show(found.warnings, found.lines, kind="warning")


def _checked_json(found: _Checked) -> dict[str, Any]:
    return {
        "file": str(found.file),
        "valid": found.document is not None,
        "services": _services(found.document) if found.document else 0,
        "groups": [group.name for group in found.document.groups] if found.document else [],
        "errors": [_finding_json(each) for each in found.errors],
        "warnings": [_finding_json(each) for each in found.warnings],
    } | ({"problem": found.unread} if found.unread else {})


def _finding_json(found: Finding) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("line", "column", "path", "message", "found", "allowed")}


def _services(document: Sdl) -> int:
    return sum(len(group.services or ()) for group in document.manifest)


def _refusals(file: Path, document: Sdl) -> Iterator[Finding]:
    """What this provider will refuse in each group of a valid SDL."""
    for group in document.manifest:
        try:
            check_new_manifest(group, owner=_OWNER)
            check_for_provider(group, require_hosts=False)
        except ManifestRefused as error:
            yield Finding(str(file), 1, 1, f"deployment to {group.name}", f"a provider will refuse it: {error.problem}")


def hash_(file: _File, *, output: OutputOption = Output.TABLE) -> None:
    """Print the hash that goes on chain, in hex.

    Example: `lessor sdl hash examples/web.yaml`
    """
    text = _read(file).version.hex()
    print_result({"file": str(file), "hash": text}, [text], output)


def manifest(file: _File, *, output: OutputOption = Output.JSON) -> None:
    """Print the manifest as JSON, as a client sends it.

    Example: `lessor sdl manifest examples/web.yaml`
    """
    found = _read(file).manifest
    if output is Output.JSON:
        typer.echo(manifest_json(found, indent=2))
        return
    rows = [(group.name, each.name, str(each.count), each.image) for group in found for each in group.services or ()]
    lines = table_lines(rows, header=("PLACEMENT", "SERVICE", "COUNT", "IMAGE"), right={2})
    print_result(json.loads(manifest_json(found)), lines, output)


def groups(file: _File, *, output: OutputOption = Output.JSON) -> None:
    """Print the group specs as JSON, as they go on chain.

    Example: `lessor sdl groups examples/web.yaml`
    """
    found = _read(file).groups
    if output is Output.JSON:
        typer.echo(groups_json(found, indent=2))
        return
    rows = [
        (group.name, str(each.resources.id), str(each.count), f"{each.price.amount.normalize():f} {each.price.denom}")
        for group in found
        for each in group.units
    ]
    header = ("PLACEMENT", "RESOURCE", "COUNT", "HIGHEST PRICE A BLOCK")
    lines = table_lines(rows, header=header, right={1, 2, 3})
    print_result(json.loads(groups_json(found)), lines, output)


def _read(file: Path) -> Sdl:
    """The document. Raises `typer.Exit` when it cannot be read or is invalid, with the findings on standard error."""
    try:
        content = read_input(file, limit=MAX_BYTES)
    except OSError as error:
        typer.echo(printable(_unread(file, error)), err=True)
        raise typer.Exit(TROUBLE) from None
    if len(content) > MAX_BYTES:
        typer.echo(printable(_TOO_LONG.format(file)), err=True)
        raise typer.Exit(FINDING)
    try:
        return read_sdl(content, file=str(file))
    except SdlInvalid as error:
        _show(error.findings, source_lines(content))
        raise typer.Exit(FINDING) from None


def _unread(file: Path, error: OSError) -> str:
    return f"{file}: {error.strerror}; give an SDL file, or - for standard input"


def _show(findings: Sequence[Finding], lines: Sequence[str], *, kind: str = "error") -> None:
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
