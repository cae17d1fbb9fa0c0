"""`lessor completion`: what a shell needs to complete commands, options and leases."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from provider.cli import COMPLETE

__all__ = ["Shell", "completion", "lease_names"]

_MOST = 200


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.", metavar="SHELL")]) -> None:
    """Print what makes a shell complete commands, options and leases.

    SHELL is bash, zsh or fish. For every new bash, write `source <(lessor completion bash)` into ~/.bashrc; for zsh the
    same with `zsh` into ~/.zshrc, after compinit; for fish write the output to ~/.config/fish/completions/lessor.fish.
    Leases are those of the database in AP_HOME.

    Example: `source <(lessor completion bash)`
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # noqa: PLC0415  for this only

    typer.echo(get_completion_script(prog_name="lessor", complete_var=COMPLETE, shell=shell.value))


def lease_names(incomplete: str) -> list[tuple[str, str]]:
    """The living leases whose dseq begins with `incomplete`, each with its state: by dseq, or dseq/gseq/oseq where a
    deployment has several. Empty where no SQLite database can be read: a shell shows no errors.
    """
    from provider.settings import load_settings  # noqa: PLC0415  for a TAB only

    try:
        file = load_settings().database_url.partition("sqlite+aiosqlite:///")[2]
        found = _living(Path(file)) if file else []
    except Exception:
        return []
    count = Counter(dseq for dseq, _, _ in found)
    names = [(dseq if count[dseq] == 1 else whole, state) for dseq, whole, state in found]
    return [each for each in names if each[0].startswith(incomplete)][:_MOST]


def _living(file: Path) -> list[tuple[str, str, str]]:
    """dseq, dseq/gseq/oseq and state."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=1)) as database:
        rows = database.execute("SELECT lease, phase FROM leases WHERE ended_at IS NULL ORDER BY lease").fetchall()
    parts = [(str(lease).split("/"), str(phase)) for lease, phase in rows]
    return [(each[1], "/".join(each[1:4]), phase) for each, phase in parts if len(each) == 5]
