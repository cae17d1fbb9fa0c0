"""The exit codes of docs/exit-codes.md, for each command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lease.exit_codes import EXIT_CODES, FINDING, FINE, SETTINGS, TROUBLE, UNAVAILABLE, USAGE
from provider.cli import build_app
from provider.cli.commands import COMMANDS
from provider.cli.lazy_group import CommandEntry, Table

CHECKOUT = Path(__file__).resolve().parents[3]
LEASE = f"{'akash1' + 'q' * 38}/1/1/1/{'akash1' + 'q' * 38}"
ENDS = {
    "doctor": {FINDING: "--gpu-toolkit {broken}"},
    "demo": {FINDING: "--sdl {broken}", TROUBLE: "--data /proc/nothing", USAGE: "--context x"},
    "devnet up": {TROUBLE: "--data /proc/nothing", USAGE: "--nodes 0"},
    "devnet down": {FINE: "--data {home}"},
    "devnet status": {FINDING: "--data {home}"},
    "devnet exec": {TROUBLE: "--data {home} -- true", USAGE: ""},
    "devnet enclosed": {USAGE: ""},
    "sdl check": {FINE: "{sdl}", FINDING: "{broken}", TROUBLE: "{home}/none", USAGE: "- -"},
    "sdl hash": {FINE: "{sdl}", FINDING: "{broken}", TROUBLE: "{home}/none", USAGE: ""},
    "sdl manifest": {FINE: "{sdl}", FINDING: "{broken}", TROUBLE: "{home}/none", USAGE: ""},
    "sdl groups": {FINE: "{sdl}", FINDING: "{broken}", TROUBLE: "{home}/none", USAGE: ""},
    "render": {FINE: "{sdl}", FINDING: "{broken}", TROUBLE: "{home}/none", USAGE: "{sdl} --group nowhere"},
    "run": {SETTINGS: ""},
    "settings": {FINE: "", SETTINGS: ""},
    "config show": {FINE: "", SETTINGS: "", USAGE: "--no-such-setting"},
    "config check": {SETTINGS: "", USAGE: "--bid-timout 5m"},
    "gateway": {SETTINGS: "", USAGE: "--parent -1"},
    "worker": {SETTINGS: "", USAGE: "--no-such"},
    "adopt": {SETTINGS: "", USAGE: "--no-such"},
    "drain": {FINE: "n1 --for 2h", SETTINGS: "", USAGE: "--for soon"},
    "undrain": {FINE: "", SETTINGS: "", USAGE: "--no-such"},
    "policy list": {FINE: "", SETTINGS: ""},
    "policy audit": {SETTINGS: ""},
    "policy test": {TROUBLE: "{home}/none", SETTINGS: "{broken}", USAGE: ""},
    "keys": {SETTINGS: ""},
    "status": {UNAVAILABLE: "", SETTINGS: ""},
    "dashboard": {UNAVAILABLE: "", SETTINGS: ""},
    "trace": {TROUBLE: "77", SETTINGS: "77"},
    "inventory": {UNAVAILABLE: "", SETTINGS: "", USAGE: "--no-such"},
    "address list": {UNAVAILABLE: "", SETTINGS: "", USAGE: "--no-such"},
    "hostname list": {UNAVAILABLE: "", SETTINGS: "", USAGE: "--no-such"},
    "address history": {TROUBLE: "203.0.113.7", SETTINGS: "203.0.113.7", USAGE: "no-address"},
    "hostname history": {TROUBLE: "app.example.com", SETTINGS: "app.example.com", USAGE: ""},
    "lease list": {TROUBLE: "", UNAVAILABLE: "--suspect", SETTINGS: ""},
    "lease show": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "lease history": {TROUBLE: "77", SETTINGS: "77", USAGE: "77 --limit 0"},
    "lease logs": {TROUBLE: "77", SETTINGS: "77", USAGE: "77 --tail -1"},
    "lease shell": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "lease recreate": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "lease retry": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "lease close": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "lease forget": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "lease release-brake": {UNAVAILABLE: "", SETTINGS: ""},
    "lease volumes": {UNAVAILABLE: "", SETTINGS: ""},
    "lease restore": {TROUBLE: "77", SETTINGS: "77", USAGE: ""},
    "bid list": {TROUBLE: "", SETTINGS: "", USAGE: "--declined --bids"},
    "bid explain": {
        FINDING: "--sdl {broken}",
        TROUBLE: "--sdl {home}/none",
        UNAVAILABLE: "--sdl {sdl}",
        SETTINGS: "7",
        USAGE: "x/y",
    },
    "earnings": {TROUBLE: "", SETTINGS: "", USAGE: "--days 0"},
    "backup": {FINE: "{backups}/x.zip", TROUBLE: "{sdl}", SETTINGS: "{home}/x.zip", USAGE: "{home}/x.zip"},
    "restore": {TROUBLE: "{sdl}", SETTINGS: "{sdl}", USAGE: ""},
    "completion": {FINE: "bash", USAGE: "tcsh"},
    "diff": {
        FINDING: f"{{broken}} --lease {LEASE}",
        TROUBLE: f"{{home}}/none --lease {LEASE}",
        SETTINGS: f"{{sdl}} --lease {LEASE}",
        USAGE: "{sdl} --lease x/1/1/1",
    },
    "operator hostname": {USAGE: "--rest-port x"},
    "operator ip": {USAGE: "--rest-port x"},
    "operator inventory": {SETTINGS: "--registry-query-period soon", USAGE: "--rest-port x"},
    "tools psutil list": {FINE: "memory", USAGE: "floppy"},
    "tools psutil serve": {TROUBLE: "--api-address 203.0.113.1", USAGE: "--api-port x"},
    "pulumi": {TROUBLE: "77 -- stack", SETTINGS: "77 -- stack", USAGE: "77 -- up"},
}
"""The arguments that end each command with a code, in a home in which no provider ever ran. The greatest code of a
command holds for a wrong value of a setting.
"""


def _names(table: Table, *path: str) -> Iterator[str]:
    for name, entry in table.items():
        if isinstance(entry, CommandEntry):
            yield " ".join((*path, name))
        else:
            yield from _names(entry.commands, *path, name)


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    broken, backups = tmp_path / "broken", tmp_path.with_name(f"{tmp_path.name}-backups")
    broken.write_text("services: 7\n")
    backups.mkdir()
    return {
        "home": str(tmp_path),
        "backups": str(backups),
        "broken": str(broken),
        "sdl": str(CHECKOUT / "examples" / "web.yaml"),
    }


def _environment(home: str, *, wrong: bool) -> dict[str, str]:
    return {"AP_HOME": home, "KUBECONFIG": f"{home}/none", "COLUMNS": "500"} | (
        {"AP_BID_TIMEOUT": "soon"} if wrong else {}
    )


@pytest.mark.parametrize(
    ("command", "code", "arguments"),
    [(command, code, arguments) for command, ends in ENDS.items() for code, arguments in ends.items()],
)
def test_every_command_ends_with_the_code_of_the_table(
    command: str, code: int, arguments: str, places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    argv = [*command.split(), *arguments.format(**places).split()]
    done = CliRunner().invoke(build_app(), argv, env=_environment(places["home"], wrong=code == SETTINGS))
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("command", [*_names(COMMANDS)])
def test_an_unknown_option_is_wrong_usage_for_every_command(command: str) -> None:
    done = CliRunner().invoke(build_app(), [*command.split(), "--no-such-option"])
    assert done.exit_code == USAGE, done.output


def test_the_table_has_every_command() -> None:
    assert ENDS.keys() == {*_names(COMMANDS)}


@pytest.mark.parametrize("arguments", [["leese"], ["lease", "shw"], ["--no-such-option"], ["lease"], []])
def test_a_wrong_or_missing_command_is_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(build_app(), arguments).exit_code == USAGE


def test_the_document_has_the_table_of_the_code() -> None:
    text = (CHECKOUT / "docs" / "exit-codes.md").read_text()
    assert {int(code): meaning for code, meaning in re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.M)} == EXIT_CODES


def test_help_says_the_codes() -> None:
    said = " ".join(CliRunner().invoke(build_app(), ["--help"], env={"COLUMNS": "500"}).output.split())
    assert all(f"{code} {meaning}" in said for code, meaning in EXIT_CODES.items())


def test_a_defect_is_trouble() -> None:
    code = "import provider.cli as cli; cli.build_app = lambda: {}['key']; cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == TROUBLE
    assert "Traceback" in done.stderr and "KeyError" in done.stderr
