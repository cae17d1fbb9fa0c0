"""A group of commands that imports the module of a command only when the command runs.

Help of the group needs the names and one line of help each. Both stand in the table, so `lessor --help` imports no
command, and `lessor sdl check` does not import the store, the daemon or Pulumi.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from lease.exit_codes import FINDING

__all__ = ["CommandEntry", "GroupEntry", "LazyGroup", "Table", "lazy_commands", "loaded", "unwrapped"]


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """`target` is "module:function"; `help` is the first line of the function's docstring.

    `before` is a check, "module:function" too, that runs first. When it returns true, it has found something.
    `early` is called before the module of `target` is imported. `open_options`: the function reads options itself.
    """

    target: str
    help: str
    hidden: bool = False
    before: str = ""
    early: str = ""
    open_options: bool = False


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group of commands and of further groups."""

    help: str
    commands: Table


Table: TypeAlias = Mapping[str, CommandEntry | GroupEntry]


class LazyGroup(TyperGroup):
    """A group whose commands are stubs until one of them runs or shows its help."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, _Stub):
            return name, command, rest
        whole = loaded(command.name or "", command.entry)
        if not gc.isenabled():  # by `main`, for the imports
            gc.freeze()
            gc.enable()
        if "structlog" in sys.modules:
            from provider.observe.logs import configure_command  # noqa: PLC0415  few commands log

            configure_command()
        return name, whole, rest


class _Stub(TyperCommand):
    """The name and the line of help of a command that is not imported."""

    def __init__(self, name: str, entry: CommandEntry) -> None:
        super().__init__(name, help=entry.help, hidden=entry.hidden, rich_markup_mode="rich")
        self.entry = entry


class _Command(TyperCommand):
    """A command that takes `--json` for `--output json` where it has the option `--output`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(parameter.name == "output" for parameter in self.params):
            end = args.index("--") if "--" in args else len(args)
            args = [*("--output=json" if each == "--json" else each for each in args[:end]), *args[end:]]
        found: list[str] = super().parse_args(ctx, args)
        return found


def lazy_commands(table: Table) -> dict[str, Any]:
    """One stub for each command and one `LazyGroup` for each group of `table`, by name."""
    return {
        name: _Stub(name, entry) if isinstance(entry, CommandEntry) else _group(name, entry)
        for name, entry in table.items()
    }


def _group(name: str, entry: GroupEntry) -> LazyGroup:
    commands = lazy_commands(entry.commands)
    return LazyGroup(name=name, help=entry.help, commands=commands, no_args_is_help=True, rich_markup_mode="rich")


def loaded(name: str, entry: CommandEntry) -> Any:
    """The command itself, its module imported."""
    if entry.early:
        _named(entry.early)()
    function = _named(entry.target)
    if entry.before:
        function = _checked_first(_named(entry.before), function)
    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
    parsing = {"allow_extra_args": True, "ignore_unknown_options": True} if entry.open_options else {}
    app.command(name, cls=_Command, hidden=entry.hidden, context_settings=parsing)(function)
    command = get_command(app)
    command.help = unwrapped(command.help or "")
    return command


def _named(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def _checked_first(check: Callable[[], bool], command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(command)
    def both(*arguments: Any, **options: Any) -> None:
        failed = check()
        command(*arguments, **options)
        if failed:
            raise typer.Exit(FINDING)

    return both


def unwrapped(text: str) -> str:
    """`text` with each paragraph on one line, since help breaks lines at the width of the terminal."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)
