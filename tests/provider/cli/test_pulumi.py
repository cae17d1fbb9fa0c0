"""`lessor pulumi` up to the command line, which is a script here; the real one: test_pulumi_on_a_cluster.py."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lease.exit_codes import TROUBLE, USAGE
from lease.ids import LeaseId, namespace_name
from provider.cli import build_app
from provider.cli import pulumi as command
from provider.lifecycle.state import LeaseStatus, Phase
from provider.runs.log import RunOutcome, RunReason, StoredRun, runs_of
from provider.store import open_database
from provider.store.leases import save_status
from stacks.common.processes import DATA_MARK, STACK_MARK
from stacks.engine import EngineConfig

LEASE = LeaseId(
    "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", 1001, 1, 1, "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
)
STACK = namespace_name(LEASE)
SCRIPT = """#!/bin/sh
env > "$(dirname "$0")/environment"
pwd > "$(dirname "$0")/folder"
echo "$@" > "$(dirname "$0")/arguments"
case "$*" in *slain*) kill -9 $$ ;; *fails*) exit 7 ;; esac
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineConfig:
    """A home with a store that knows one lease, whose stack exists; the settings point there."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pulumi").write_text(SCRIPT)
    (tools / "pulumi").chmod(0o700)
    (tmp_path / "kubeconfig").write_text("clusters: []\nusers: []\n")
    variables = {"AP_HOME": tmp_path, "KUBECONFIG": tmp_path / "kubeconfig", "PULUMI_STACK": "another"}
    for name, value in (variables | {"PATH": f"{tools}:{os.environ['PATH']}", "LESSOR_PRICE_RUN": "mine"}).items():
        monkeypatch.setenv(name, str(value))
    found = EngineConfig(
        data=tmp_path / "engine", kubeconfig=tmp_path / "kubeconfig", pulumi=tools / "pulumi", pulumi_home=None
    )
    found.state_file(STACK).parent.mkdir(parents=True)
    found.state_file(STACK).write_text("{}")
    found.key_file.write_text("k" * 32)
    asyncio.run(_fill(tmp_path))
    return found


async def _fill(home: Path) -> None:
    database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
    await save_status(database, LeaseStatus(LEASE, Phase.RUNNING, "", 1.0))
    await database.close()


def lessor(*arguments: str, said: str | None = None) -> Result:
    return CliRunner().invoke(build_app(), ["pulumi", *arguments], input=said)  # type: ignore[return-value]


@pytest.fixture
def told(config: EngineConfig) -> Callable[[str], str]:
    """What the script has seen; empty if it was not run."""

    def read(what: str) -> str:
        file = config.pulumi.with_name(what)
        return file.read_text() if file.exists() else ""

    return read


def runs(config: EngineConfig) -> list[StoredRun]:
    async def read() -> list[StoredRun]:
        database = await open_database(f"sqlite+aiosqlite:///{config.data.parent}/lessor.db")
        found = await runs_of(database, STACK, limit=10, ring=None)
        await database.close()
        return list(found)

    return asyncio.run(read())


def test_what_only_looks_runs_at_once_in_the_stacks_folder_and_is_not_written_down(config, told):
    result = lessor("1001", "--", "stack", "output", "--json")

    assert result.exit_code == 0, result.output
    assert told("arguments").split() == ["stack", "output", "--json"]
    assert told("folder").strip() == str(config.folder(STACK))
    variables = dict(line.split("=", 1) for line in told("environment").splitlines() if "=" in line)
    assert variables["PULUMI_STACK"] == STACK and variables["PULUMI_BACKEND_URL"].startswith("file://")
    assert variables["VAULT_SERVER_TOKEN"] and variables["KUBECONFIG"] == str(config.kubeconfig_copy)
    foreign = {DATA_MARK, STACK_MARK, "PULUMI_SKIP_CHECKPOINTS", "LESSOR_PRICE_RUN"}
    assert not foreign & set(variables), "a worker would end it for its marks; a kill must leave a whole state"
    assert not Path(variables["TMPDIR"]).exists()
    assert runs(config) == []


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (["1001", "--", "destroy"], "--yes", USAGE),
        (["1001", "--", "state", "delete", "urn:x"], "--yes", USAGE),
        (["1001", "--", "up", "--yes"], "lessor diff", USAGE),
        (["--yes", "1001", "--", "preview"], "lessor diff", USAGE),
        (["1002", "--", "stack"], "there is no lease", TROUBLE),
        (["../..", "--", "stack"], "namespace", USAGE),
        (["1001\x1b[2J", "--", "stack"], "namespace", USAGE),
    ],
)
def test_what_may_not_be_done_is_refused_with_a_reason_and_nothing_runs(config, told, arguments, words, code):
    result = lessor(*arguments)

    assert result.exit_code == code and words in result.output and "\x1b" not in result.output
    assert told("arguments") == "" and runs(config) == []


def test_a_stack_that_the_provider_works_on_is_left_alone(config, told):
    marks = {DATA_MARK: str(config.data), STACK_MARK: STACK}
    with subprocess.Popen(["sleep", "60"], env=os.environ | marks) as working:
        busy = lessor("--yes", "1001", "--", "refresh")
        looks = lessor("1001", "--", "stack")
        working.kill()

    assert busy.exit_code == TROUBLE and f"process {working.pid}" in busy.output
    assert looks.exit_code == 0 and told("arguments").split() == ["stack"]
    assert runs(config) == []


def test_a_lock_counts_as_long_as_a_command_line_holds_it(config):
    lock = config.folder(STACK) / ".pulumi" / "locks" / "organization" / "lease" / STACK / "a.json"
    lock.parent.mkdir(parents=True)
    slow = config.pulumi.with_name("slow") / "pulumi"
    slow.parent.mkdir()
    slow.symlink_to("/bin/sleep")
    with subprocess.Popen([slow, "60"]) as holder:
        lock.write_text(f'{{"pid":{holder.pid},"username":"x"}}')
        busy = lessor("--yes", "1001", "--", "cancel")
        holder.kill()
    assert busy.exit_code == TROUBLE and str(holder.pid) in busy.output

    for text in (
        f'{{"pid":{holder.pid}}}',
        f'{{"pid":{os.getpid()}}}',
        "",
        '{"pid":"',
        "\udcff".encode("utf8", "replace"),
    ):
        lock.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert lessor("--yes", "1001", "--", "cancel").exit_code == 0, text


def test_the_exit_code_is_pulumis_and_each_change_is_in_the_history(config, told):
    assert lessor("--yes", "1001", "--", "refresh").exit_code == 0
    assert told("arguments").split() == ["refresh", "--client=127.0.0.1:1", "--yes"]
    assert lessor("--yes", "1001", "--", "config", "set", "token", "fails").exit_code == 7
    assert lessor("--yes", "1001", "--", "destroy", "--target", "slain").exit_code == 137

    destroyed, configured, refreshed = runs(config)
    assert {run.reason for run in (destroyed, configured, refreshed)} == {RunReason.OPERATOR}
    assert (refreshed.outcome, refreshed.error) == (RunOutcome.DONE, "")
    assert (configured.outcome, configured.error) == (RunOutcome.FAILED, "pulumi config set ended with 7")
    assert destroyed.error == "pulumi destroy ended with 137" and destroyed.operation == "destroy"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", TROUBLE), ("\n", TROUBLE)])
def test_at_a_terminal_the_operator_is_asked(config, told, monkeypatch, answer, code):
    monkeypatch.setattr(command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))

    result = lessor("1001", "--", "state", "delete", "urn:x", said=answer)

    assert "pulumi state delete urn:x" in result.output and STACK in result.output
    assert result.exit_code == code and bool(told("arguments")) is (code == 0)


def test_a_lease_without_a_stack_and_a_provider_without_a_key_are_told(config):
    config.key_file.unlink()
    keyless = lessor("1001", "--", "stack")
    assert keyless.exit_code == TROUBLE and "the key" in keyless.output
    config.state_file(STACK).unlink()
    absent = lessor("1001", "--", "stack")
    assert absent.exit_code == TROUBLE and "there is no stack" in absent.output
