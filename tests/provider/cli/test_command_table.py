"""The table of commands: what it says of each is true, and help imports no command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from lease.exit_codes import USAGE
from provider.cli import build_app
from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import CommandEntry, Table, loaded

_HEAVY = (
    "sqlalchemy",
    "pulumi",
    "cosmpy",
    "aiohttp",
    "yaml",
    "devnet",
    "components",
    "stacks",
    "lightkube",
)


def _commands(table: Table, *path: str) -> Iterator[tuple[str, CommandEntry]]:
    for name, entry in table.items():
        if isinstance(entry, CommandEntry):
            yield " ".join((*path, name)), entry
        else:
            yield from _commands(entry.commands, *path, name)


@pytest.mark.parametrize(("name", "entry"), [*_commands(COMMANDS)])
def test_the_line_of_help_is_the_first_line_of_the_commands_own_help(name: str, entry: CommandEntry) -> None:
    assert loaded(name, entry).help.split("\n\n")[0].split("\n") == [entry.help]


@pytest.mark.parametrize("arguments", [["--help"], ["lease", "--help"], ["devnet", "--help"], ["--version"], []])
def test_help_imports_no_command(arguments: list[str]) -> None:
    code = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print('imported:', [name for name in {_HEAVY!r} if name in sys.modules]))\n"
        "from provider.cli import main\n"
        f"sys.argv = ['lessor', *{arguments!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "imported: []" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["hash", "manifest", "groups"])
def test_an_sdl_command_imports_nothing_that_it_does_not_use(command: str) -> None:
    """Every import counts: they are most of the command's processor time."""
    unused = (*(name for name in _HEAVY if name != "yaml"), "rich", "structlog", "tomllib", "asyncio")
    code = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print('imported:', [name for name in {unused!r} if name in sys.modules]))\n"
        "from provider.cli import main\n"
        f"sys.argv = ['lessor', 'sdl', {command!r}, 'tests/data/sdl/accept-empty.yaml']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "imported: []" in done.stdout, done.stdout + done.stderr


def test_help_teaches_every_command_that_is_not_hidden() -> None:
    text = CliRunner().invoke(build_app(), ["--help"]).output
    assert all(name in text for name in COMMANDS)
    group = CliRunner().invoke(build_app(), ["lease", "--help"]).output
    assert "release-brake" in group and "forget" not in group


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["leese"], "Did you mean"), (["lease", "shw"], "Did you mean"), (["lease", "--nope"], "nope")],
)
def test_an_unknown_command_is_an_error_that_names_a_similar_one(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(build_app(), arguments)
    assert done.exit_code == USAGE
    assert words in done.output
