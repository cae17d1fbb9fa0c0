"""`lessor devnet up|down|status`: a Kubernetes control plane on this machine, on loopback only."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from devnet.cli.enclosure import NodeKind, fail, rerun_enclosed
from devnet.cli.output import Output, OutputOption, print_result
from devnet.controlplane import ControlPlane, default_nodes, is_supervised, read_state, stop_supervisor
from devnet.controlplane.certificates import Outward
from devnet.errors import ControlPlaneFailed, DevnetError
from devnet.folders import made_folder
from devnet.node import Enclosure, check_place, own_enclosure
from devnet.node.configuration import NODE_NAME
from devnet.node.edges import EdgeKind, edge_settings, edge_tools
from devnet.node.network import NODE_ADDRESS
from devnet.node.node import RealNode
from devnet.tools import CONTROL_PLANE, NODE, ensure_tools, progress_output
from lease.exit_codes import FINDING

__all__ = ["down", "status", "up"]

_Data = Annotated[Path, typer.Option("--data", help="The folder of this devnet; made if missing.")]
_DEFAULT = Path(".devnet/cluster")


def up(
    data: _Data = _DEFAULT,
    nodes: Annotated[
        int, typer.Option(min=0, max=100, help="The number of simulated nodes; the last one has GPUs.")
    ] = 3,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when it is ready; `lessor devnet down` stops it.")
    ] = False,
    *,
    node: Annotated[
        NodeKind,
        typer.Option(help="`real` adds a node that runs containers, in namespaces of its own; needs root."),
    ] = NodeKind.SIMULATED,
    edge: Annotated[
        EdgeKind,
        typer.Option(
            help="With --node real: what serves hostnames. `traefik` brings the Gateway API; its build is long."
        ),
    ] = EdgeKind.OWN,
    output: OutputOption = Output.TABLE,
) -> None:
    """Start the control plane; missing tools are built first.

    Without --detach it runs until Ctrl-C, and ends with this command.

    Example: `lessor devnet up --nodes 3`
    """
    if edge is not EdgeKind.OWN and node is not NodeKind.REAL:
        raise typer.BadParameter(f"--edge {edge} needs --node real: simulated nodes run nothing")
    if not nodes and node is not NodeKind.REAL:
        raise typer.BadParameter("--nodes 0 leaves no node: it needs --node real")
    try:
        if node is NodeKind.REAL:
            check_place(data.absolute())
        data = made_folder(data)
    except DevnetError as error:
        fail(error)
    if node is NodeKind.REAL:
        _up_real(data, nodes, detach=detach, edge=edge, output=output)
        return
    _end_on_signals()
    try:
        with progress_output(Console(stderr=True)) as progress:
            toolbox = ensure_tools(CONTROL_PLANE, progress=progress)
        with ControlPlane.start(data, toolbox, nodes=default_nodes(nodes), detached=detach) as plane:
            _show(plane, output)
            if not detach:
                _watch(plane, output)
    except DevnetError as error:
        fail(error)


def _up_real(data: Path, nodes: int, *, detach: bool, edge: EdgeKind, output: Output) -> None:
    if detach:
        raise typer.BadParameter("a real node ends with its command; leave --detach out and keep the command running")
    rerun_enclosed(data / "enclosure", [*CONTROL_PLANE, *edge_tools(edge)], until_stopped=True)
    _end_on_signals()
    try:
        toolbox = ensure_tools([*CONTROL_PLANE, *NODE, *edge_tools(edge)])
        outward = Outward(NODE_ADDRESS, NODE_NAME)
        with ControlPlane.start(data, toolbox, nodes=default_nodes(nodes) if nodes else (), outward=outward) as plane:
            RealNode.start(own_enclosure(), plane, toolbox, edge=edge).wait_for_workloads()
            _show(plane, output, commands="lessor devnet exec -- COMMAND", settings=edge_settings(edge))
            _watch(plane, output)
    except DevnetError as error:
        fail(error)


def down(data: _Data = _DEFAULT, *, output: OutputOption = Output.TABLE) -> None:
    """Stop the control plane with its real node and wait for the end.

    It is no error when none runs in this folder.

    Example: `lessor devnet down`
    """
    folder = data.absolute()
    try:
        stopped = any([Enclosure.stop_in(folder / "enclosure"), stop_supervisor(folder)])
    except PermissionError as error:
        fail(f"what runs in {folder} belongs to another user ({error.strerror}): stop it as that user, or as root")
    text = "stopped" if stopped else f"nothing runs in {folder}"
    print_result({"data": str(folder), "stopped": stopped}, [text], output)


def status(data: _Data = _DEFAULT, *, output: OutputOption = Output.JSON) -> None:
    """Print the state of the control plane as JSON.

    Exit code 1: it is not ready.

    Example: `lessor devnet status`
    """
    found = read_state(data.absolute())
    running = found is not None and (found.supervised() or is_supervised(data.absolute()))
    document: dict[str, object] = {"phase": "stopped"} if found is None else dataclasses.asdict(found)
    if not running and document["phase"] != "failed":
        document["phase"] = "stopped"
    print_result(document, [f"{name:<12}{value}" for name, value in document.items() if value], output)
    if not running or document["phase"] != "ready":
        raise typer.Exit(FINDING)


def _end_on_signals() -> None:
    """SIGTERM and SIGINT end the command by leaving its context, which waits for the end of the control plane.

    A background job of a shell inherits an ignored SIGINT; the command hears it all the same.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _show(
    plane: ControlPlane, output: Output, *, commands: str = "", settings: Mapping[str, str] | None = None
) -> None:
    """Print where the control plane is; a document stands alone on standard output."""
    document = {
        "api_server": plane.api_server,
        "kubeconfig": str(plane.kubeconfig),
        "logs": str(plane.logs),
        "settings": dict(settings or {}),
    }
    lines = [f"API server  {plane.api_server}", f"kubeconfig  {plane.kubeconfig}", f"logs        {plane.logs}"]
    lines += [f"commands    {commands}"] if commands else []
    lines += [f"setting     {name}={value}" for name, value in (settings or {}).items()]
    print_result(document, lines, output)


def _watch(plane: ControlPlane, output: Output) -> None:
    """Wait for Ctrl-C, SIGTERM or `lessor devnet down`. Raises `ControlPlaneFailed` with the reason when the control
    plane ends in another way.
    """
    beside = output is not Output.TABLE  # a document stands alone on standard output
    typer.echo("Ctrl-C stops it.", err=beside)
    try:
        while True:
            time.sleep(1)
            state = plane.state()
            if state.phase in ("stopping", "stopped") and not state.problem:
                typer.echo("stopped by `lessor devnet down`", err=beside)
                return
            if not state.supervised() or state.phase == "failed":
                raise ControlPlaneFailed(state.problem or "its supervisor was killed", logs=plane.logs)
    except KeyboardInterrupt:
        typer.echo("stopping", err=beside)
