"""`lessor devnet up|down|status`: the provider's world on this machine, on loopback only."""

from __future__ import annotations

import dataclasses
import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from devnet.controlplane import ControlPlane

__all__ = ["register"]

_Data = Annotated[Path, typer.Option("--data", help="Folder of this devnet; made if missing.")]
_DEFAULT = Path(".devnet/cluster")


def register(app: typer.Typer) -> None:
    """Add the group of commands."""
    group = typer.Typer(no_args_is_help=True, help="A Kubernetes control plane on this machine, for development.")
    group.command()(up)
    group.command()(down)
    group.command()(status)
    app.add_typer(group, name="devnet")


def up(
    data: _Data = _DEFAULT,
    nodes: Annotated[int, typer.Option(min=1, max=100, help="Simulated nodes; the last one has GPUs.")] = 3,
    detach: Annotated[bool, typer.Option("--detach", help="Come back when it is ready; stop it with `down`.")] = False,
) -> None:
    """Start the control plane; missing tools are built first.

    Without --detach it runs until Ctrl-C, and ends with this command.
    """
    from devnet.controlplane import ControlPlane, default_nodes  # noqa: PLC0415  only this command needs them
    from devnet.errors import DevnetError  # noqa: PLC0415
    from devnet.tools import CONTROL_PLANE, ensure_tools, voice  # noqa: PLC0415

    errors = Console(stderr=True)
    signal.signal(signal.SIGTERM, _interrupt)  # ends like Ctrl-C: by leaving the context, which waits for the end
    try:
        with voice(errors) as told:
            toolbox = ensure_tools(CONTROL_PLANE, voice=told)
        plane = ControlPlane.start(data, toolbox, nodes=default_nodes(nodes), detached=detach)
        with plane:
            _tell(plane)
            if not detach:
                _watch(plane)
    except DevnetError as error:
        errors.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None


def down(data: _Data = _DEFAULT) -> None:
    """Stop the control plane and wait for its end.

    It is no error when none runs in this folder.
    """
    from devnet.controlplane import stop_supervisor  # noqa: PLC0415

    stopped = stop_supervisor(data.absolute())
    typer.echo("stopped" if stopped else f"nothing runs in {data.absolute()}")


def status(data: _Data = _DEFAULT) -> None:
    """Print the state of the control plane as JSON.

    Exit code 1: it is not ready.
    """
    from devnet.controlplane import read_state  # noqa: PLC0415

    found = read_state(data.absolute())
    if found is None:
        typer.echo(json.dumps({"phase": "stopped"}))
        raise typer.Exit(1)
    running = found.supervised()
    told = dataclasses.asdict(found)
    if not running and found.phase != "failed":
        told["phase"] = "stopped"
    typer.echo(json.dumps(told))
    if not running or found.phase != "ready":
        raise typer.Exit(1)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _tell(plane: ControlPlane) -> None:
    typer.echo(f"API server  {plane.api_server}\nkubeconfig  {plane.kubeconfig}\nlogs        {plane.logs}")


def _watch(plane: ControlPlane) -> None:
    """Until Ctrl-C, SIGTERM, or the end of the control plane, whose reason becomes our error."""
    from devnet.errors import ControlPlaneFailed  # noqa: PLC0415

    typer.echo("Ctrl-C stops it.")
    try:
        while True:
            time.sleep(1)
            state = plane.state()
            if not state.supervised() or state.phase == "failed":
                raise ControlPlaneFailed(state.problem or "it was stopped", logs=plane.logs)
    except KeyboardInterrupt:
        typer.echo("stopping")
