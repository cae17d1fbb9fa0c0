"""`lessor devnet enclosed` and `lessor devnet exec`: commands inside the enclosure of a real node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from devnet.errors import DevnetError, EnclosureFailed, EnclosureStopped
from devnet.node import Enclosure, is_enclosed, missing_requirements
from devnet.node.edges import EdgeKind, edge_tools
from devnet.node.nginx import missing_nginx
from devnet.node.session import lessor_command, run_enclosed, temporary_folder
from devnet.tools import CONTROL_PLANE, ENGINE, NODE, ensure_tools, progress_output, survey
from lease.exit_codes import FINE, TROUBLE
from lease.printable import printable

__all__ = ["NodeKind", "enclosed", "exec_", "fail", "rerun_enclosed"]


class NodeKind(StrEnum):
    """Which nodes a devnet has."""

    SIMULATED = "simulated"
    REAL = "real"


_Command = Annotated[list[str], typer.Argument(help="The command and its arguments, after --.")]


def enclosed(
    command: _Command,
    edge: Annotated[
        list[EdgeKind] | None, typer.Option(help="Build the tools of this edge too; can be repeated.")
    ] = None,
) -> None:
    """Run a command in a fresh enclosure, which ends with it.

    An enclosure is a set of namespaces that cannot reach the machine's network. The tests of the real node run in one.
    Missing tools are built first.

    Example: `lessor devnet enclosed -- make test-node`
    """
    edges = [tool for kind in edge or () for tool in edge_tools(kind)]
    _build([*CONTROL_PLANE, *ENGINE, *NODE, *edges])  # nothing can be downloaded inside
    with temporary_folder() as folder:
        try:
            _exit(folder, command)
        except EnclosureStopped as stopped:
            fail(stopped)


def exec_(
    command: _Command,
    data: Annotated[Path, typer.Option("--data", help="The folder of the devnet.")] = Path(".devnet/cluster"),
) -> None:
    """Run a command in the enclosure of the real node.

    `lessor devnet up --node real` starts such a node. KUBECONFIG is set, and kubectl is on PATH. `ip netns exec outside
    COMMAND` runs on the other side of the node's wire.

    Example: `lessor devnet exec -- kubectl get pods -A`
    """
    try:
        enclosure = Enclosure.join(data.absolute() / "enclosure")
        own = {"KUBECONFIG": str(data.absolute() / "admin.kubeconfig")}
        os.environ |= ensure_tools(CONTROL_PLANE, build=False).env() | own
        raise typer.Exit(enclosure.run(command))
    except DevnetError as error:
        fail(error)


def rerun_enclosed(folder: Path, tools: Sequence[str] = CONTROL_PLANE, *, until_stopped: bool = False) -> None:
    """Return inside an enclosure; outside build the tools, run this same command in an enclosure, and end with it.
    `until_stopped`: the command runs until somebody ends it, so that `lessor devnet down` is its regular end.
    """
    if is_enclosed():
        return
    _build([*tools, *NODE])
    try:
        _exit(folder, lessor_command())
    except EnclosureStopped as stopped:
        if not until_stopped:
            fail(stopped)
        typer.echo(str(stopped))
        raise typer.Exit(FINE) from None


def fail(problem: object) -> NoReturn:
    """Print a problem in one piece, so that its commands and paths can be copied, and end with the code of trouble."""
    Console(stderr=True).print(printable(str(problem)), style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(TROUBLE) from None


def _build(tools: Sequence[str]) -> None:
    console = Console(stderr=True)
    try:
        problems = missing_requirements(build=any(row.path is None for row in survey(NODE)))
        problems += missing_nginx() if "nginx-ingress-controller" in tools else ()
        if problems:
            raise EnclosureFailed("; ".join(problems))
        with progress_output(console) as progress:
            ensure_tools(tools, progress=progress)
    except DevnetError as error:
        fail(error)


def _exit(folder: Path, command: Sequence[str | Path]) -> None:
    """Run the command in an enclosure and end with its status. Raises EnclosureStopped."""
    try:
        status = run_enclosed(folder, command)
    except EnclosureStopped:
        raise
    except DevnetError as error:
        fail(error)
    raise typer.Exit(status)
