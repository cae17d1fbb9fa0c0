"""What holds for every command: an example in its help, a dseq for a lease, completion, no colour."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lease.exit_codes import USAGE
from lease.ids import LeaseId
from provider.cli import COMPLETE, build_app
from provider.cli.commands import COMMANDS
from provider.cli.completion import lease_names
from provider.cli.lazy_group import CommandEntry, Table, loaded
from provider.lifecycle.state import LeaseStatus, Phase
from provider.store import open_database
from provider.store.leases import save_status

LESSOR = Path(sys.executable).with_name("lessor")
CHECKOUT = Path(__file__).resolve().parents[3]
OWNER, PROVIDER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
LEASES = [
    LeaseId(OWNER, 1001, 1, 1, PROVIDER),
    LeaseId(OWNER, 1002, 1, 1, PROVIDER),
    LeaseId(OWNER, 1002, 2, 1, PROVIDER),
    LeaseId(OWNER, 77, 1, 1, PROVIDER),
]
WITH_A_LEASE = {
    "trace": "{}",
    "lease show": "{}",
    "lease history": "{}",
    "lease logs": "{}",
    "lease shell": "{} -- true",
    "lease recreate": "{} --yes",
    "lease retry": "{}",
    "lease close": "{} --yes",
    "lease forget": "{} --yes",
    "lease restore": "{} --into {}",
    "pulumi": "{} -- stack",
    "diff": "examples/web.yaml --objects --lease {}",
}
"""The arguments of each command that asks for a lease."""


def commands(table: Table, *path: str) -> Iterator[tuple[str, CommandEntry]]:
    for name, entry in table.items():
        if isinstance(entry, CommandEntry):
            yield " ".join((*path, name)), entry
        else:
            yield from commands(entry.commands, *path, name)


EVERY = dict(commands(COMMANDS))


def command(name: str) -> Any:
    return loaded(name.rsplit(maxsplit=1)[-1], EVERY[name])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    async def save() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/lessor.db")
        for lease in LEASES:
            await save_status(database, LeaseStatus(lease, Phase.RUNNING, "", 1.0))
        await database.close()

    asyncio.run(save())
    return tmp_path


@pytest.mark.parametrize("name", EVERY)
def test_the_help_has_an_example_that_the_command_understands(name: str) -> None:
    found = command(name)
    example = re.search(r"Example: `([^`]+)`", found.help)
    assert example, f"lessor {name} --help has no line `Example: …`"
    words = shlex.split(re.sub(r"[$<]\(|\)", " ", example[1]))
    begin = words.index("lessor") + 1
    end = next((at for at, word in enumerate(words) if at > begin and word in ("|", "&&")), len(words))
    path = name.replace("forget", "close").split()
    assert words[begin : begin + len(path)] == path
    with found.make_context(path[-1], [], resilient_parsing=True) as context:
        _, left, _ = found.make_parser(context).parse_args(words[begin + len(path) : end])
    assert left == [] or found.context_settings.get("allow_extra_args")


def test_the_commands_that_ask_for_a_lease_are_those_of_the_table() -> None:
    asking = {name for name in EVERY for each in command(name).params if each.metavar == "LEASE"}
    assert asking == WITH_A_LEASE.keys()


@pytest.mark.parametrize("name", WITH_A_LEASE)
def test_a_dseq_is_enough_for_a_lease(name: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    env = {"AP_HOME": str(home), "KUBECONFIG": f"{home}/none", "COLUMNS": "500"}

    def said(dseq: str) -> tuple[int, str]:
        argv = [*name.split(), *WITH_A_LEASE[name].replace("{}", dseq).split()]
        done = CliRunner().invoke(build_app(), argv, env=env)
        return done.exit_code, done.output

    code, text = said("1001")
    assert code != USAGE and "there is no lease" not in text, text
    code, text = said("4711")
    assert "there is no lease '4711'; known are" in text
    assert "may be" in said("1002")[1]


def test_leases_are_completed_by_the_shortest_name_that_is_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AP_HOME", str(home))
    names = [name for name, _ in lease_names("")]
    assert names == ["1001", "1002/1/1", "1002/2/1", "77"]
    assert lease_names("7") == [("77", "running")]


@pytest.mark.parametrize("content", [None, b"", b"no database" * 1000], ids=["none", "empty", "other"])
def test_no_database_completes_nothing_and_says_nothing(
    tmp_path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    if content is not None:
        (tmp_path / "lessor.db").write_bytes(content)
    assert lease_names("") == []
    monkeypatch.setenv("AP_BID_TIMEOUT", "soon")
    assert lease_names("") == []
    assert capfd.readouterr() == ("", "")
    assert {path.name for path in tmp_path.iterdir()} <= {"lessor.db"}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("lessor inv", {"inventory"}),
        ("lessor lease sh", {"show", "shell"}),
        ("lessor lease show 10", {"1001", "1002/1/1", "1002/2/1"}),
        ("lessor trace 7", {"77"}),
        ("lessor backup --out", {"--output"}),
    ],
)
def test_a_real_bash_gets_completions(line: str, wanted: set[str], home: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = (
        'source <(lessor completion bash); read -ra COMP_WORDS <<< "$1"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
        "_lessor_completion lessor; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    env = {"AP_HOME": str(home), "PATH": f"{LESSOR.parent}:{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script, "x", line], env=env, capture_output=True, text=True, check=False)
    assert set(done.stdout.split()) == wanted, done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_this_program(shell: str) -> None:
    done = CliRunner().invoke(build_app(), ["completion", shell])
    assert COMPLETE in done.output and "lessor" in done.output


@pytest.mark.parametrize("arguments", [["--help"], ["lease", "show", "4711"], ["leese"]])
def test_no_color_means_no_colour_on_a_terminal(arguments: list[str], home: Path) -> None:
    import pty

    def printed(**more: str) -> bytes:
        master, slave = pty.openpty()
        env = {"AP_HOME": str(home), "TERM": "xterm-256color", "PATH": os.environ["PATH"], **more}
        process = subprocess.Popen([LESSOR, *arguments], env=env, stdout=slave, stderr=slave, stdin=slave)
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break
            if not piece:
                break
            text += piece
        process.wait()
        os.close(master)
        return text

    colour = re.compile(rb"\x1b\[[0-9;]*[34][0-7]m")
    assert colour.search(printed())
    assert not colour.search(printed(NO_COLOR="1"))
