"""The `lessor` command."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from lease.exit_codes import EXIT_CODES, INTERRUPTED, TROUBLE, USAGE
from lease.printable import printable
from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import LazyGroup, lazy_commands, unwrapped
from provider.cli.version import VersionOption

__all__ = ["COMPLETE", "build_app", "main"]

COMPLETE = "_LESSOR_COMPLETE"
"""The variable by which a shell asks for completions instead of running the command."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
"""Why a write fails that has no file name: the disk, the terminal or the reader behind standard output."""
_HELP = """An Akash Network provider in which every lease is a Pulumi stack.

Start with `lessor doctor` (which tools are on this machine?), `lessor demo` (one lease from its SDL to its end) and
`lessor sdl check` (is this SDL valid?).

Exit codes of every command: """ + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())


_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The base of all errors about options, arguments and names of commands, which Typer does not export."""


@contextmanager
def _documented_codes() -> Iterator[None]:
    """Give wrong usage, and a question that was answered with no, the exit codes of docs/exit-codes.md."""
    try:
        yield
    except _UsageError as error:
        error.exit_code = USAGE  # type: ignore[attr-defined]
        raise
    except (typer.Abort, EOFError):
        typer.echo("Aborted.", err=True)
        raise typer.Exit(TROUBLE) from None
    except BrokenPipeError as error:
        if error.filename is not None:
            raise
        _end_output()
        raise typer.Exit(TROUBLE) from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich ends the process itself, with the code of a finding
            raise typer.Exit(TROUBLE) from None
        raise


class _Lessor(LazyGroup):
    """The group of all commands."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes | {"commands": lazy_commands(COMMANDS)})  # type: ignore[arg-type]

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        if os.environ.get("NO_COLOR"):
            options["color"] = False
        with _documented_codes():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _documented_codes():
            return super().invoke(ctx)


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
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to find that there are none takes 15 ms
    if COMPLETE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # noqa: PLC0415  for a TAB only

        completion_init()
    gc.disable()  # until the command is imported: collections find no garbage then and take a sixth of the time
    try:
        try:
            build_app()()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # while a failure of it still decides the code
    except KeyboardInterrupt:  # during an import, before the command runs
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        if isinstance(error, OSError) and (error.filename is not None or error.errno in _FULL):
            _end_output()
            where = "" if error.filename is None else f"{error.filename}: "
            if error.errno != errno.EPIPE:
                typer.secho(printable(f"lessor: {where}{error.strerror}"), err=True, fg=typer.colors.RED)
            raise SystemExit(TROUBLE) from None
        from stacks.common import use_plain_tracebacks  # noqa: PLC0415  most commands end without one

        use_plain_tracebacks()  # Typer has put its own in place meanwhile
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(TROUBLE) from None


def _end_output() -> None:
    """Send what is still in buffers nowhere: the output takes no more, and the interpreter's end would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
