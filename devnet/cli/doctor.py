"""`lessor doctor`: the tools of the devnet and the engine on this machine, and how to get missing ones."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from devnet.cli.enclosure import NodeKind, fail
from devnet.cli.output import Output, OutputOption, print_result
from devnet.errors import DevnetError
from devnet.gpu_toolkit import TOOLKIT_FILE, toolkit_problems
from devnet.node import missing_requirements
from devnet.pid_limits import pid_problems
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools, progress_output, survey
from lease.exit_codes import FINDING, TROUBLE

__all__ = ["doctor"]

_UNLIMITED = 1_000_000


class Purpose(StrEnum):
    """What the tools are needed for."""

    ALL = "all"
    PRODUCTION = "production"


def doctor(
    build: Annotated[bool, typer.Option("--build", help="Build missing tools; the first time takes long.")] = False,
    throw_away: Annotated[
        bool, typer.Option("--throw-away", help="With --build: keep no Go build cache, which has up to 12 GB.")
    ] = False,
    *,
    purpose: Annotated[
        Purpose,
        typer.Option("--for", help="`production`: only what `lessor run` needs. `all`: the devnet's tools too."),
    ] = Purpose.ALL,
    output: OutputOption = Output.TABLE,
    node: Annotated[
        NodeKind, typer.Option(help="`real` adds the programs of a real node, and what the machine lacks for one.")
    ] = NodeKind.SIMULATED,
    gpu_toolkit: Annotated[
        Path, typer.Option(help="Settings of NVIDIA's container toolkit: this machine's, or a copy of a node's.")
    ] = TOOLKIT_FILE,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Your own kubeconfig: nodes on which a pod may have any number of processes are named."),
    ] = None,
) -> None:
    """Show every tool, where it was found, and how to get a missing one.

    Production needs the tools of the engine; the control plane and the real node are for the devnet and `lessor demo`.
    The engine that `lessor run` takes is named, and GPU settings by which containers choose cards. Exit code 1: a tool
    is missing, or there is a warning.

    Example: `lessor doctor --for production`
    """
    names = (*(CONTROL_PLANE if purpose is Purpose.ALL else ()), *ENGINE, *(NODE if node is NodeKind.REAL else ()))
    if kubeconfig is not None:
        _check_readable(kubeconfig)
    problems = missing_requirements() if node is NodeKind.REAL else ()
    errors = Console(stderr=True)
    try:
        if build and not problems:
            with progress_output(errors) as progress:
                ensure_tools(names, progress=progress, throw_away=throw_away)
        rows = [dataclasses.asdict(found) | {"for": _user_of(found.name)} for found in survey(names)]
    except DevnetError as error:
        errors.print(str(error), style="red", markup=False)
        raise typer.Exit(TROUBLE) from None
    _show(rows, output)
    errors.print(_engine({str(row["name"]): row["where"] == "missing" for row in rows}), markup=False, soft_wrap=True)
    warnings = _warnings(gpu_toolkit, kubeconfig)
    _print_problems(errors, problems, warnings)
    if problems or warnings or any(row["where"] == "missing" for row in rows):
        raise typer.Exit(FINDING)


def _check_readable(file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}; --kubeconfig names your own kubeconfig")


def _print_problems(errors: Console, problems: Sequence[str], warnings: Sequence[str]) -> None:
    for problem in problems:
        errors.print(f"A real node cannot run here: {problem}", style="red", markup=False, soft_wrap=True)
    for warning in warnings:
        errors.print(warning, style="yellow", markup=False, soft_wrap=True)


def _warnings(gpu_toolkit: Path, kubeconfig: Path | None) -> list[str]:
    processes = pid_problems(kubeconfig) if kubeconfig is not None else ()
    return [*(f"GPU: {each}" for each in toolkit_problems(gpu_toolkit)), *(f"PIDs: {each}" for each in processes)]


def _engine(missing: Mapping[str, bool]) -> str:
    """Which engine `lessor run` takes with these variables and tools, and what the resident engine lacks."""
    lacking = [name for name in ("lessor-engine", "pulumi-resource-kubernetes") if missing.get(name)]
    if os.environ.get("LESSOR_ENGINE", "") == "stock":
        return "Engine: stock, by LESSOR_ENGINE: a Pulumi command line for each operation."
    if os.environ.get("LESSOR_STACK_SECRETS", "") == "vault":
        return "Engine: stock: the resident engine cannot read the secrets of a Vault (LESSOR_STACK_SECRETS=vault)."
    if lacking:
        return f"Engine: stock: the resident engine lacks {' and '.join(lacking)}; run `lessor doctor --build`."
    return "Engine: resident: one process, lessor-engine, for all operations."


def _user_of(tool: str) -> str:
    return "production" if tool in ENGINE else "devnet"


def _show(rows: Sequence[dict[str, object]], output: Output) -> None:
    if output is not Output.TABLE:
        print_result(rows, (), output)
        return
    console = Console()
    if not console.is_terminal:  # each tool is one line in a pipe
        console = Console(width=_UNLIMITED)
    table = Table("TOOL", "FOR", "FOUND", "VERSION", box=None, pad_edge=False)
    table.add_column("WHERE, AND WHAT TO DO", overflow="fold")
    for row in rows:
        details = filter(None, [_short(row["path"]), str(row["note"])])
        style = "red" if row["where"] == "missing" else None
        cells = (str(row["name"]), str(row["for"]), str(row["where"]), str(row["version"]), "; ".join(details))
        table.add_row(*map(Text, cells), style=style)
    console.print(table)


def _short(path: object) -> str:
    """The path as text, with `~` for the home folder."""
    return str(path or "").replace(str(Path.home()), "~", 1)
