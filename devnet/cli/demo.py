"""`lessor demo`: one lease from its SDL to its end."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from devnet.borrowed import chosen_context, give_back_earlier
from devnet.cli.enclosure import NodeKind, fail, rerun_enclosed
from devnet.controlplane import stop_supervisor
from devnet.demo import (
    Borrow,
    DemoOptions,
    Interrupted,
    Interrupts,
    check_folder,
    demo_folder,
    refuse_addresses,
    run_demo,
)
from devnet.errors import DevnetError
from devnet.node import check_place
from devnet.tools import CONTROL_PLANE, ENGINE
from lease.errors import LeaseError
from lease.exit_codes import FINDING, INTERRUPTED, TROUBLE
from lease.printable import printable
from lease.sdl import Sdl, read_sdl
from lease.sdl.document import MAX_BYTES
from lease.sdl.quantities import denom_valid

__all__ = ["demo"]


_SDL = Path("examples/demo.yaml")
_OWN_CLUSTER_SDL = Path("examples/web.yaml")
_DATA = Path(".demo")


def demo(
    *,
    sdl: Annotated[
        Path | None,
        typer.Option(help=f"The SDL that the tenant publishes: {_SDL}, with --kubeconfig {_OWN_CLUSTER_SDL}."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep everything running at the end, until Ctrl-C.")] = False,
    denom: Annotated[str, typer.Option(help="Rewrite the SDL's prices to this denom, for example uact.")] = "",
    data: Annotated[Path, typer.Option(help="The demo's folder; files of an earlier demo in it are removed.")] = _DATA,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Use this cluster (kind, k3s, …) and build nothing; needs Pulumi and its Kubernetes plugin."),
    ] = None,
    context: Annotated[str, typer.Option(help="The context of --kubeconfig; default: its current one.")] = "",
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree to the objects that the demo will make in the cluster.")
    ] = False,
    node: Annotated[
        NodeKind, typer.Option(help="`real` runs containers, in namespaces that cannot reach the network; needs root.")
    ] = NodeKind.SIMULATED,
) -> None:
    """Start a cluster, a chain, a provider and a tenant on this machine, and follow one lease from start to end.

    Everything listens on loopback only and stops with this command. Needs a checkout; missing tools are built first.

    With --kubeconfig the demo uses your cluster. It lists the objects that it will make there, and makes them once you
    agree. It removes all of them at the end, also after Ctrl-C or a failure, and names any that it could not remove. A
    cluster with an Akash provider is refused. The cluster needs neither MetalLB nor an ingress controller.

    Example: `lessor demo --sdl examples/web.yaml`
    """
    console, folder, real = Console(), data.absolute(), node is NodeKind.REAL
    _check_options(kubeconfig, denom, real=real)
    borrow = _borrow(kubeconfig, context, yes=yes)
    try:
        document = _document(_checked(sdl, _OWN_CLUSTER_SDL if borrow else _SDL), borrow)
        if real:
            check_place(folder)
        check_folder(folder)
        if real:
            rerun_enclosed(folder.with_name(folder.name + "-enclosure"), [*CONTROL_PLANE, *ENGINE])
        with Interrupts().installed() as interrupts, demo_folder(folder):
            _clear(folder, console)
            run_demo(DemoOptions(document, folder, keep, denom, borrow, real), console, interrupts)
    except (DevnetError, LeaseError) as error:
        raise _refused(error, console) from None
    except Interrupted:
        console.print("\nstopped")
        raise typer.Exit(INTERRUPTED) from None


def _refused(error: DevnetError | LeaseError, console: Console) -> typer.Exit:
    console.print(f"\n{printable(str(error))}", style="red", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(FINDING if isinstance(error, LeaseError) else TROUBLE)


def _borrow(kubeconfig: Path | None, context: str, *, yes: bool) -> Borrow | None:
    if kubeconfig is None:
        if context:
            raise typer.BadParameter("--context needs --kubeconfig, the file that it is in")
        return None
    return Borrow(kubeconfig.expanduser(), context, lambda: yes or _asked())


def _check_options(kubeconfig: Path | None, denom: str, *, real: bool) -> None:
    """Raise `typer.BadParameter` for options that cannot be right."""
    if real and kubeconfig is not None:
        raise typer.BadParameter(
            "--node real is the devnet's own node; with --kubeconfig the cluster has its own nodes"
        )
    if denom and not denom_valid(denom):
        raise typer.BadParameter(printable(f"{denom!r} is no denom; --denom is for example uact"))


def _document(path: Path, borrow: Borrow | None) -> Sdl:
    """The valid SDL. What can be checked of the options without a cluster is checked here, before any work."""
    with path.open("rb") as stream:
        found = read_sdl(stream.read(MAX_BYTES + 1), file=str(path))
    if borrow is not None:
        refuse_addresses(found)
        chosen_context(borrow.kubeconfig, borrow.context)
    return found


def _asked() -> bool:
    """The answer of the person at the terminal; False without a terminal."""
    if sys.stdin is None or not sys.stdin.isatty():
        typer.echo("   there is no terminal to ask at; give --yes to agree")
        return False
    return typer.confirm("   Go on?")


def _checked(sdl: Path | None, default: Path) -> Path:
    """The SDL to publish. Ends the command when there is none, often because of the current folder."""
    chosen = sdl or default
    if chosen.is_file():
        return chosen
    if chosen == default:
        raise typer.BadParameter(
            f"{chosen} is not in {Path.cwd()}: start the demo in a checkout of the repository, or name an SDL by --sdl"
        )
    what = "is a folder" if chosen.is_dir() else "is no file"
    return fail(f"{chosen} {what}; --sdl names the SDL that the tenant publishes")


def _clear(data: Path, console: Console) -> None:
    """End what an earlier demo left: its control plane, its objects in a cluster, and the files in its folder."""
    stop_supervisor(data / "controlplane")
    give_back_earlier(data, lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True))
    for path in data.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
