"""`lessor demo`: a provider at work, from an SDL to nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

__all__ = ["register"]

_SDL = Path("examples/demo.yaml")
_DATA = Path(".demo")


def register(app: typer.Typer) -> None:
    """Add `demo`."""
    app.command()(demo)


def demo(
    sdl: Annotated[Path, typer.Option(help="The SDL that the tenant publishes.")] = _SDL,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running at the end, until Ctrl-C.")] = False,
    denom: Annotated[str, typer.Option(help="Rewrite the SDL's prices to this denom, for example uact.")] = "",
    data: Annotated[Path, typer.Option(help="Folder for everything; what an earlier demo left is removed.")] = _DATA,
) -> None:
    """Start a cluster, a chain, a provider and a tenant on this machine, and follow one lease from start to end.

    Everything listens on loopback only and stops with this command. Needs a checkout; missing tools are built first.
    """
    from devnet.demo import DemoOptions, Interrupted, Interrupts, run_demo  # noqa: PLC0415  only this command needs the devnet
    from devnet.errors import DevnetError  # noqa: PLC0415
    from lease.errors import LeaseError  # noqa: PLC0415
    from lease.printable import printable  # noqa: PLC0415

    console = Console()
    _check(sdl)
    _clear(data)
    try:
        with Interrupts().heard() as interrupts:
            run_demo(DemoOptions(sdl, data.absolute(), keep, denom), console, interrupts)
    except (DevnetError, LeaseError) as error:
        console.print(f"\n{printable(str(error))}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    except Interrupted:
        console.print("\nstopped")
        raise typer.Exit(130) from None


def _check(sdl: Path) -> None:
    """A missing file is told with what is wrong: often it is only the folder that the command was started in."""
    if sdl.is_file():
        return
    if sdl == _SDL:
        raise typer.BadParameter(
            f"{sdl} is not in {Path.cwd()}: start the demo in a checkout of the repository, or name an SDL by --sdl"
        )
    raise typer.BadParameter(f"{sdl} is no file; --sdl names the SDL that the tenant publishes")


def _clear(data: Path) -> None:
    """Stop and remove what an earlier demo left in its folder; a folder that is none of ours is refused."""
    from devnet.controlplane import stop_supervisor  # noqa: PLC0415

    if not data.exists():
        return
    if not data.is_dir():
        raise typer.BadParameter(f"{data} is no folder; name an empty one by --data, or one that can be made")
    if not any(data.iterdir()):
        return
    if not (data / "controlplane").is_dir():
        raise typer.BadParameter(f"{data} holds something else than an earlier demo; name an empty folder")
    stop_supervisor((data / "controlplane").absolute())
    shutil.rmtree(data)
