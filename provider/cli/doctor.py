"""`lessor doctor`: the tools of this machine, and whether other users may read the provider's home.

The tools are the devnet's to know. This module finds its command by name, as the table of commands does.
"""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import Any

import typer

from provider.cli.output import FAILED, warn
from provider.daemon.private_home import home_problems
from provider.errors import SettingsError
from provider.settings import load_settings

__all__ = ["doctor"]

_tools = import_module("devnet.cli.doctor").doctor


@wraps(_tools)
def doctor(*arguments: Any, **options: Any) -> None:
    try:
        problems = home_problems(load_settings())
    except (SettingsError, OSError):
        problems = ()  # `lessor run` and `lessor settings` name wrong settings
    for problem in problems:
        warn(problem)
    _tools(*arguments, **options)
    if problems:
        raise typer.Exit(FAILED)
