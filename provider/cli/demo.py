"""`lessor demo`: a provider at work, from an SDL to nothing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from devnet.tools import CONTROL_PLANE, ENGINE
from provider.cli.devnet_node import NodeKind, rerun_enclosed

if TYPE_CHECKING:
    from devnet.demo import Borrow

__all__ = ["register"]


_SDL = Path("examples/demo.yaml")
_OWN_CLUSTER_SDL = Path("examples/web.yaml")
_DATA = Path(".demo")
_OURS = ("controlplane", "borrowed.json", "cluster.kubeconfig", "provider.log")
"""Any of these in a folder says that an earlier demo made it."""


def register(app: typer.Typer) -> None:
    """Add `demo`."""
    app.command()(demo)


def demo(
    *,
    sdl: Annotated[
        Path | None,
        typer.Option(help=f"The SDL that the tenant publishes: {_SDL}, with --kubeconfig {_OWN_CLUSTER_SDL}."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running at the end, until Ctrl-C.")] = False,
    denom: Annotated[str, typer.Option(help="Rewrite the SDL's prices to this denom, for example uact.")] = "",
    data: Annotated[Path, typer.Option(help="Folder for everything; what an earlier demo left is removed.")] = _DATA,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Use this cluster (kind, k3s, …) and build nothing; needs Pulumi and its Kubernetes plugin."),
    ] = None,
    context: Annotated[str, typer.Option(help="A context of --kubeconfig other than its current one.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what will be made in the cluster.")] = False,
    node: Annotated[
        NodeKind, typer.Option(help="`real` runs containers, in namespaces that cannot reach the network; needs root.")
    ] = NodeKind.SIMULATED,
) -> None:
    """Start a cluster, a chain, a provider and a tenant on this machine, and follow one lease from start to end.

    Everything listens on loopback only and stops with this command. Needs a checkout; missing tools are built first.

    With --kubeconfig the cluster is yours. What will be made in it is listed, and made once you agree; all of it is
    removed at the end, also after Ctrl-C or a failure, and what could not be removed is named. A cluster in which an
    Akash provider lives is refused. Neither MetalLB nor an ingress controller is needed.
    """
    from devnet.demo import DemoOptions, Interrupted, Interrupts, run_demo  # noqa: PLC0415  only this command needs it
    from devnet.errors import DevnetError  # noqa: PLC0415
    from lease.errors import LeaseError  # noqa: PLC0415
    from lease.printable import printable  # noqa: PLC0415

    if node is NodeKind.REAL:
        _check_for_node(kubeconfig)
        rerun_enclosed(data.absolute().with_name(data.name + "-enclosure"), [*CONTROL_PLANE, *ENGINE])
    console = Console()
    borrow = _borrow(kubeconfig, context, yes=yes)
    chosen = _checked(sdl, _OWN_CLUSTER_SDL if borrow else _SDL)
    try:
        with Interrupts().heard() as interrupts:
            _clear(data, console)
            run_demo(
                DemoOptions(chosen, data.absolute(), keep, denom, borrow, node is NodeKind.REAL), console, interrupts
            )
    except (DevnetError, LeaseError) as error:
        console.print(f"\n{printable(str(error))}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except Interrupted:
        console.print("\nstopped")
        raise typer.Exit(130) from None


def _borrow(kubeconfig: Path | None, context: str, *, yes: bool) -> Borrow | None:
    from devnet.demo import Borrow  # noqa: PLC0415

    if kubeconfig is None:
        if context:
            raise typer.BadParameter("--context chooses in a kubeconfig; name it by --kubeconfig")
        return None
    return Borrow(kubeconfig.expanduser(), context, lambda: yes or _asked())


def _check_for_node(kubeconfig: Path | None) -> None:
    if kubeconfig is not None:
        raise typer.BadParameter(
            "--node real is the devnet's own node; with --kubeconfig the cluster has its own nodes"
        )


def _asked() -> bool:
    """The person's answer; where nobody can be asked, --yes is the only one."""
    if not sys.stdin.isatty():
        typer.echo("   nobody can be asked here; say --yes if you agree")
        return False
    return typer.confirm("   Go on?")


def _checked(sdl: Path | None, default: Path) -> Path:
    """A missing file is told with what is wrong: often it is only the folder that the command was started in."""
    chosen = sdl or default
    if chosen.is_file():
        return chosen
    if chosen == default:
        raise typer.BadParameter(
            f"{chosen} is not in {Path.cwd()}: start the demo in a checkout of the repository, or name an SDL by --sdl"
        )
    raise typer.BadParameter(f"{chosen} is no file; --sdl names the SDL that the tenant publishes")


def _clear(data: Path, console: Console) -> None:
    """Stop and remove what an earlier demo left in its folder and in a cluster; a folder that is none of ours is
    refused.
    """
    from devnet.borrowed import give_back_earlier  # noqa: PLC0415
    from devnet.controlplane import stop_supervisor  # noqa: PLC0415

    if not data.exists():
        return
    if not data.is_dir():
        raise typer.BadParameter(f"{data} is no folder; name an empty one by --data, or one that can be made")
    if not any(data.iterdir()):
        return
    if not any((data / name).exists() for name in _OURS):
        raise typer.BadParameter(f"{data} holds something else than an earlier demo; name an empty folder")
    stop_supervisor((data / "controlplane").absolute())
    give_back_earlier(data.absolute(), lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
    shutil.rmtree(data)
