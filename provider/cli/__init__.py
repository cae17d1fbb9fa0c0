"""The `lessor` command."""

from __future__ import annotations

import errno

import typer

from lease.printable import printable
from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import LazyGroup, lazy_commands, unwrapped
from provider.cli.version import VersionOption

__all__ = ["build_app", "main"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Why a write fails that has no file name: the disk or the terminal behind standard output."""
_HELP = """An Akash Network provider in which every lease is a Pulumi stack.

Start with `lessor doctor` (which tools are on this machine?), `lessor demo` (one lease from its SDL to its end) and
`lessor sdl check` (is this SDL valid?).
"""


class _Lessor(LazyGroup):
    """The group of all commands."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes | {"commands": lazy_commands(COMMANDS)})  # type: ignore[arg-type]


def build_app() -> typer.Typer:
    """The whole command tree; a command's module is imported when the command runs."""
    app = typer.Typer(
        name="lessor",
        cls=_Lessor,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help=unwrapped(_HELP),
    )
    app.callback()(_options)
    return app


def _options(*, version: VersionOption = False) -> None:
    """Accept the options before the command; the callback of each option does the work."""


def main() -> None:
    """Run the installed command. An unusable file or folder, or a full disk behind the output, ends it with one line
    instead of a traceback, and a traceback shows no values.
    """
    try:
        build_app()()
    except Exception as error:
        if isinstance(error, OSError) and (error.filename is not None or error.errno in _FULL):
            where = "" if error.filename is None else f"{error.filename}: "
            typer.secho(printable(f"lessor: {where}{error.strerror}"), err=True, fg=typer.colors.RED)
            raise SystemExit(1) from None
        from stacks.common import use_plain_tracebacks  # noqa: PLC0415  most commands end without one

        use_plain_tracebacks()  # Typer has put its own in place meanwhile
        raise
