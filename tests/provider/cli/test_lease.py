"""`lessor lease`: what an operator reads of the store, beside a provider and without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lease.exit_codes import SETTINGS, TROUBLE
from lease.ids import LeaseId, namespace_name
from lease.resources import Price
from provider.cli import build_app
from provider.cli.trace import trace_events
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.lifecycle.state import LeaseStatus, Phase
from provider.market.record.decisions import StoredDecision
from provider.records.accepted import AcceptedManifest
from provider.runs.log import RunOutcome, RunReason, StoredRun, begin_run, end_run
from provider.store import Database, open_database
from provider.store.claims import Claim, ClaimKind, note_claims
from provider.store.directives import StoredDirectives
from provider.store.leases import save_status
from provider.store.manifests import save_manifest
from provider.store.money import LeaseMoney, save_money
from provider.store.ring import open_ring
from stacks.common.results import Durations, Operation, PropertyChange, ResourceChange, StackResult

OWNER, PROVIDER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx", "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
RUNNING, CLOSED = LeaseId(OWNER, 1001, 1, 1, PROVIDER), LeaseId(OWNER, 900, 1, 1, PROVIDER)
STACK = namespace_name(RUNNING)
HOSTILE = "quota\x1b[2J exceeded\u202e\nsecond line"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AP_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def kept(home: Path) -> Path:
    """Two leases, four runs."""
    _with_store(home, _fill)
    return home


@pytest.fixture
def lessor() -> Iterator[Callable[..., Result]]:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(build_app(), ["lease", *arguments])  # type: ignore[return-value]

    yield run


def _with_store(home: Path, work: Callable[[Database, Path], Coroutine[Any, Any, None]]) -> None:
    async def all_of_it() -> None:
        database = await open_database(f"sqlite+aiosqlite:///{home}/lessor.db")
        await work(database, home / "store.key")
        await database.close()

    asyncio.run(all_of_it())


async def _fill(database: Database, key: Path) -> None:
    ring = await open_ring(database, key)
    await save_status(database, LeaseStatus(CLOSED, Phase.CLOSED, "the chain says closed", 50.0))
    await save_status(database, LeaseStatus(RUNNING, Phase.UPDATE_FAILED, HOSTILE, 1_700_000_000.0, 3))
    steps = (
        (RunReason.FIRST_DEPLOYMENT, "a" * 64, ""),
        (RunReason.MANIFEST_UPDATE, "b" * 64, HOSTILE),
        (RunReason.ROLLBACK, "a" * 64, ""),
    )
    for index, (reason, spec, error) in enumerate(steps):
        await end_run(database, ring, _run(1_700_000_000.0 + 10 * index, reason, spec, error))
    await save_manifest(database, AcceptedManifest(RUNNING, 1_700_000_000.0, "d" * 64, "c" * 64, 4096, 2))
    claim = Claim(ClaimKind.HOSTNAME, "app.example.com", "", RUNNING, "web:80")
    await note_claims(database, [(claim, 1_700_000_000.0)], [])
    await begin_run(database, StoredRun(STACK, Operation.REFRESH, 1_700_000_100.0, RunReason.DRIFT_REPAIR))


def _run(at: float, reason: RunReason, spec: str, error: str) -> StoredRun:
    change = ResourceChange(
        "update",
        "kubernetes:apps/v1:Deployment",
        "web",
        diff=("spec.replicas", "spec.x"),
        properties=(PropertyChange("spec.replicas", old="1", new="2" * 300),),
    )
    durations = Durations(queue_s=0.1, objects_s=1.25)
    result = StackResult(
        Operation.UP, STACK, ok=not error, seconds=1.5, changes=(change,), error=error, durations=durations
    )
    outcome, cause = (RunOutcome.FAILED, "quota exceeded") if error else (RunOutcome.DONE, "")
    return StoredRun(
        STACK, Operation.UP, at, reason, spec, "c" * 64, at + 1.5, outcome, cause, error, {"update": 1}, result
    )


def test_the_list_has_a_line_a_lease_with_state_and_reason(kept: Path, lessor: Callable[..., Result]) -> None:
    head, line = lessor("list").stdout.splitlines()
    assert head.split() == ["LEASE", "OWNER", "NAMESPACE", "SINCE", "STATE"]
    assert line.split()[:4] == ["1001/1/1", OWNER, STACK[:8], "2023-11-14T22:13:20Z"]
    assert "update failed (running the previous version): quota" in line
    assert "\x1b" not in line and "\u202e" not in line
    assert len(lessor("list", "--all").stdout.splitlines()) == 3
    everything = json.loads(lessor("list", "--all", "--json").stdout)
    assert [item["state"] for item in everything] == ["closed", Phase.UPDATE_FAILED.value]


@pytest.mark.parametrize("name", [str(RUNNING), "1001", "1001/1/1", f"{OWNER}/1001", STACK, STACK[:7]])
def test_a_lease_is_shown_with_what_runs_and_how_its_runs_went(
    kept: Path, lessor: Callable[..., Result], name: str
) -> None:
    shown = lessor("show", name).stdout
    assert str(RUNNING) in shown and STACK in shown
    assert "running    spec aaaaaaaaaaaa, manifest cccccccccccc" in shown
    assert "last run   2023-11-14T22:15:00Z refresh (drift repair): running" in shown
    assert "runs       2 done, 1 failed, 1 running" in shown
    assert "3 in a row" in shown


def test_a_lease_as_json_has_the_same_facts(kept: Path, lessor: Callable[..., Result]) -> None:
    shown = json.loads(lessor("show", "1001", "--json").stdout)
    at = "2023-11-14T22:13:20Z"
    assert shown["manifests"] == [{
        "accepted_at": at, "last_at": at, "times": 1, "version": "d" * 64, "manifest_hash": "c" * 64, "bytes": 4096,
        "services": 2,
    }]  # fmt: skip
    assert shown["claims"] == [{
        "kind": "hostname", "name": "app.example.com", "port": "", "service": "web:80", "given_at": at,
        "released_at": None,
    }]  # fmt: skip
    assert shown["states"] == [{"at": at, "state": Phase.UPDATE_FAILED.value, "reason": HOSTILE}]
    assert (shown["spec_hash"], shown["runs"]) == ("a" * 64, {"running": 1, "done": 2, "failed": 1})
    assert shown["reason"] == HOSTILE


def test_the_history_tells_reason_changes_duration_and_error(kept: Path, lessor: Callable[..., Result]) -> None:
    lines = lessor("history", "1001").stdout.splitlines()
    heads = [line.split(" ", 2)[2] for line in lines if line.startswith("#")]
    assert heads == [
        "refresh (drift repair): running",
        "up (rollback): done in 1.50 s; 1 update",
        "up (manifest update): failed (quota exceeded) in 1.50 s; 1 update",
        "up (first deployment): done in 1.50 s; 1 update",
    ]
    assert "    update Deployment web (spec.x)" in lines
    at = "2023-11-14T22:13:20Z"
    assert f"    {at}  version dddddddddddd, manifest cccccccccccc, 2 services, 4096 bytes" in lines
    assert f"    {at}  now  hostname app.example.com → web:80" in lines
    assert lines[-1].startswith(f"    {at}  update failed (running the previous version): quota")
    assert f"      spec.replicas: 1 → {'2' * 200}… (300 characters)" in lines
    assert "    queue 0.10 s, engine start 0.00 s, plugin 0.00 s, objects 1.25 s" in lines
    assert "    error: second line" in lines
    assert "\x1b" not in "".join(lines)


def test_the_history_is_limited_and_machine_readable(kept: Path, lessor: Callable[..., Result]) -> None:
    running, newest = json.loads(lessor("history", "1001", "--limit", "2", "--json").stdout)
    assert (running["ended_at"], running["result"]) == (None, None)
    assert (newest["asked_by"], newest["result"]["changes"][0]["diff"]) == ("rollback", ["spec.replicas", "spec.x"])


def test_without_the_key_the_history_still_tells_what_needs_none(kept: Path, lessor: Callable[..., Result]) -> None:
    (kept / "store.key").unlink()
    told = lessor("history", "1001")
    assert told.exit_code == 0
    assert "changes are not shown: the store's key" in told.stderr
    assert "up (rollback): done" in told.stdout
    assert "spec.replicas" not in told.stdout
    assert not (kept / "store.key").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "1002"), "there is no lease '1002'; known are"),
        (("history", OWNER), f"{OWNER!r} may be {OWNER}/900/1/1/{PROVIDER} (closed); "),
    ],
)
def test_a_wrong_name_is_one_line_that_helps(
    kept: Path, lessor: Callable[..., Result], arguments: tuple[str, ...], said: str
) -> None:
    told = lessor(*arguments)
    assert told.exit_code == TROUBLE
    assert said in told.stderr
    assert len(told.stderr.splitlines()) == 1


def test_a_home_without_a_store_is_told_and_stays_as_it_is(home: Path, lessor: Callable[..., Result]) -> None:
    told = lessor("list")
    assert told.exit_code == TROUBLE
    assert "start `lessor run` with this AP_HOME once" in told.stderr
    assert list(home.iterdir()) == []


def test_a_file_that_is_no_store_is_told(home: Path, lessor: Callable[..., Result]) -> None:
    (home / "lessor.db").write_bytes(b"no database at all, but long enough to be looked at" * 50)
    told = lessor("list")
    assert (told.exit_code, len(told.stderr.splitlines())) == (TROUBLE, 1)


def test_wrong_settings_are_told(kept: Path, lessor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSOR_HISTORY_RUNS", "none")
    told = lessor("list")
    assert told.exit_code == SETTINGS
    assert "LESSOR_HISTORY_RUNS" in told.stderr


def test_a_store_without_leases_says_so(home: Path, lessor: Callable[..., Result]) -> None:
    async def nothing(_: Database, __: Path) -> None: ...

    _with_store(home, nothing)
    assert lessor("list").stdout == "no lease is known\n"
    assert json.loads(lessor("list", "--json").stdout) == []


async def _brake(database: Database, _key: Path) -> None:
    held = Directive(RUNNING, DirectiveKind.HELD, 0.0)
    assert await StoredDirectives(database).save([held, Directive(CLOSED, DirectiveKind.LET, 5.0)])


def test_what_the_teardown_brake_holds_is_said_below_the_list_with_the_word_for_it(kept, lessor) -> None:
    assert "brake" not in lessor("list").stdout
    _with_store(kept, _brake)
    last = lessor("list").stdout.splitlines()[-1]
    assert last == "teardown brake: 1 closed leases wait for `lessor lease release-brake` (1001/1/1)"
    assert [each.get("braked") for each in json.loads(lessor("list", "--all", "--json").stdout)] == [None, True]


def test_a_trace_has_decision_runs_state_and_earnings_in_order(kept: Path) -> None:
    async def add(database: Database, _key: Path) -> None:
        money = LeaseMoney(RUNNING, "uakt", Decimal("7.5"), 1_700_000_500.0, 1_700_000_000.0)
        await save_money(database, [money], [])

    _with_store(kept, add)
    result = CliRunner().invoke(build_app(), ["trace", "1001"])
    head, *lines = result.stdout.splitlines()
    assert head == f"lease {RUNNING}" and result.exit_code == 0
    assert [line.split()[0] for line in lines] == sorted(line.split()[0] for line in lines)
    said = [" ".join(line.split()[1:]) for line in lines]
    assert "engine up (first deployment): done in 1.5 s: 1 update" in said
    assert said[-2:] == ["engine refresh (drift repair) begins", "funds earned 7.5uakt"]
    assert any(line.startswith("engine up (manifest update): failed in 1.5 s: 1 update; quota") for line in said)
    assert any(line.startswith("lease update failed") for line in said)
    assert "\x1b" not in result.stdout
    found = json.loads(CliRunner().invoke(build_app(), ["trace", "1001", "--json"]).stdout)
    assert found["lease"] == str(RUNNING) and len(found["events"]) == len(lines)


def test_the_decisions_about_a_lease_are_in_its_trace() -> None:
    bid = StoredDecision(1, RUNNING.order, 5.0, "bid", Price("uakt", Decimal(10)), (), "sent AB at 7")
    declined = StoredDecision(2, RUNNING.order, 3.0, "declined", None, ("no room",), "")
    found = trace_events(LeaseStatus(RUNNING, Phase.RUNNING, "", 9.0), [bid, declined], [], None)
    assert [(event.part, event.text) for event in found] == [
        ("market", "declined: no room"),
        ("market", "bid 10uakt a block; sent AB at 7"),
        ("lease", "running"),
    ]


def test_a_trace_of_no_lease_names_those_that_are_known(kept: Path) -> None:
    result = CliRunner().invoke(build_app(), ["trace", "77"])
    assert result.exit_code == TROUBLE and "there is no lease '77'; known are" in result.output
