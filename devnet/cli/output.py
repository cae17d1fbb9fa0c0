"""The option `--output` of the devnet's commands, and what they print with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from lease.output_forms import Output, document_text
from lease.printable import printable

__all__ = ["Output", "OutputOption", "print_result"]

OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Form of the output; `--json` is short for `--output json`.")
]


def print_result(document: object, lines: Iterable[str], output: Output) -> None:
    """Print `document` as JSON or YAML, or else `lines`."""
    if output is Output.TABLE:
        typer.echo("\n".join(printable(line) for line in lines))
    else:
        typer.echo(document_text(document, output), nl=False)
