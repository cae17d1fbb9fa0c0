"""The `lessor` command: one module a group of commands, each adding itself to the app."""

from __future__ import annotations

import importlib

import typer

from provider.cli.version import VersionOption

__all__ = ["main"]

_COMMANDS = (
    "doctor", "sdl", "render", "diff", "status", "lease", "bid", "keys", "earnings", "pulumi", "settings",
    "run", "devnet", "demo",
)  # fmt: skip
"""Modules of this package with a `register(app)`; imported only when the command line starts, none imports Pulumi."""


_HELP = """An Akash Network provider in which every lease is a Pulumi stack.

Start with `lessor doctor` (are the tools there?), `lessor demo` (a whole world on this machine) and `lessor sdl check`.
"""


def build_app() -> typer.Typer:
    """The whole command tree."""
    app = typer.Typer(name="lessor", no_args_is_help=True, add_completion=False, rich_markup_mode="rich")
    app.callback(help=_HELP)(_options)
    for name in _COMMANDS:
        importlib.import_module(f"provider.cli.{name}").register(app)
    return app


def _options(*, version: VersionOption = False) -> None:
    """The options before the command; the callback of each option does the work."""


def main() -> None:
    """Entry point of the installed command. A file or folder that cannot be used is a line, not a traceback."""
    try:
        build_app()()
    except OSError as error:
        if error.filename is None:
            raise
        typer.secho(f"lessor: {error.filename}: {error.strerror}", err=True, fg=typer.colors.RED)
        raise SystemExit(1) from None
