"""`lessor tools psutil`: the hardware of this machine, printed or served to the inventory operator (operators.md
§2.4).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from lease.output_forms import document_text
from provider.cli.flags import flag
from provider.cli.output import Output, OutputOption, failure, print_result
from provider.errors import ArgumentError
from provider.operators.hardware.report import KINDS, report
from provider.operators.hardware.server import serve_hardware
from provider.operators.hardware.tree import Tree

__all__ = ["list_", "serve"]

_Root = Annotated[
    Path,
    typer.Option("--root", help="Folder whose /sys and /proc are read: /, or where the host's root is mounted."),
]
_Port = Annotated[int, flag("api-port", "Port of the server; 0: any.", min=0, max=65535)]
_Address = Annotated[str, typer.Option("--api-address", help="Address on which the server listens.")]


def list_(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")],
    *,
    root: _Root = Path("/"),
    output: OutputOption = Output.JSON,
) -> None:
    """Print one kind of hardware of this machine as JSON.

    Example: `lessor tools psutil list memory`
    """
    if kind not in KINDS:
        raise failure(ArgumentError(f"{kind!r} is not a kind of hardware; choose one of {', '.join(KINDS)}"))
    found = report(kind, Tree(root))
    print_result(found, document_text(found, Output.YAML).splitlines(), output)


def serve(
    *,
    port: _Port = 8081,
    address: _Address = "0.0.0.0",  # noqa: S104  a pod's own address
    root: _Root = Path("/"),
) -> None:
    """Serve the hardware of this machine over HTTP, as a discovery pod of the inventory operator does.

    Example: `lessor tools psutil serve --api-port 8081`
    """
    try:
        asyncio.run(serve_hardware(Tree(root), host=address, port=port))
    except KeyboardInterrupt:
        return
    except OSError as error:
        raise failure(error) from None
