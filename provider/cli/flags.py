"""Options of commands that the Go provider has as flags: the environment gives each of them too (operators.md §1.3)."""

from __future__ import annotations

from typing import Any

import typer

__all__ = ["flag", "variables"]


def variables(name: str) -> list[str]:
    """The environment variables of a flag, the first one that is set holds: `rest-port` → AP_…, AKASH_…."""
    variable = name.upper().replace("-", "_").replace(".", "_")
    return [f"AP_{variable}", f"AKASH_{variable}"]


def flag(name: str, help_: str, **more: Any) -> Any:
    """The option `--name`."""
    return typer.Option(f"--{name}", envvar=variables(name), help=help_, **more)
