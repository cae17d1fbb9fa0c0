"""The `lessor` command: one module a group of commands, each adding itself to the app."""

from __future__ import annotations

import importlib

import typer

__all__ = ["main"]

_COMMANDS = ("doctor", "sdl", "render", "run", "devnet", "demo")
"""Modules of this package with a `register(app)`; imported only when the command line starts, none imports Pulumi."""


def build_app() -> typer.Typer:
    """The whole command tree."""
    app = typer.Typer(name="lessor", no_args_is_help=True, add_completion=False, rich_markup_mode="rich", help=__doc__)
    for name in _COMMANDS:
        importlib.import_module(f"provider.cli.{name}").register(app)
    return app


def main() -> None:
    """Entry point of the installed command."""
    build_app()()
