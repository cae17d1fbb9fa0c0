"""`lessor --version`: the installed version, or the version that a checkout's pyproject.toml names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["VersionOption", "version"]

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def version(installed: Callable[[str], str] | None = None) -> str:
    """The version of the installed package; in a checkout that is not installed, the version in pyproject.toml."""
    from importlib import metadata  # noqa: PLC0415  it brings the email package, and only --version needs it

    try:
        return (installed or metadata.version)("lessor")
    except metadata.PackageNotFoundError:
        import tomllib  # noqa: PLC0415  for a checkout only

        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])


def _print_and_exit(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lessor {version()}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_and_exit)
]
