"""What is written down about the runs of the real lease loop, over fakes: why each ran, what it did, how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from structlog.testing import capture_logs

from lease.ids import namespace_name
from lease.manifest import Group
from lease.spec import BUILDER_VERSION, LeaseSpec
from provider.cli.lease_text import history_lines
from provider.errors import StoreError
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from provider.runs.history import History, RecordedEngine
from provider.runs.log import RunOutcome, RunReason, StoredRun, runs_of
from provider.runs.versions import versions_of
from provider.store import Database, open_database
from provider.store.sealing import KeyRing
from stacks.common.results import Operation, StackResult
from tests.provider.lifecycle.world import World, a_group, a_lease
from tests.world.engine import Fault, Killed
from tests.world.specs import ScriptedMaker

L = a_lease()
STACK = namespace_name(L)
SECRET = 'c4n"ry/+ <&> hunter2'


class Recorded:
    """The lease loop's world with its engine recorded, in a store of its own."""

    def __init__(self, database: Database, **limits: Any) -> None:
        self.database = database
        self.ring = KeyRing.of([Fernet.generate_key().decode()])
        self.world = World()
        self.limits = limits
        self.wrap()

    def wrap(self) -> None:
        """As a start of the daemon does: nothing in memory is known."""
        history = History(self.database, self.ring, self.world.clock, **self.limits)
        self.engine = RecordedEngine(self.world.engine, history)
        specs = ScriptedMaker(self.world.facts, script=self.world.build_spec, note=self.engine.note_spec)
        note = self.engine.note_refusal
        parts = replace(self.world.parts, engine=self.engine, specs=specs, note_refusal=note)
        self.world.parts = parts
        self.world.reconciler._parts = parts

    async def runs(self) -> list[StoredRun]:
        """Oldest first."""
        return list(reversed(await runs_of(self.database, STACK, ring=self.ring)))

    async def told(self) -> list[tuple[Operation, str, str]]:
        return [(run.operation, run.reason.value, run.outcome.value) for run in await self.runs()]


@pytest.fixture
async def recorded(tmp_path: Path) -> AsyncIterator[Recorded]:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    yield Recorded(database)
    await database.close()


async def test_the_history_of_a_lease_has_the_reason_of_each_run(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    await world.send(L, a_group("nginx:2"))
    await world.converge(L)
    world.engine.refused["nginx:3"] = "exceeded quota: nothing left"
    await world.send(L, a_group("nginx:3"))
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    world.engine.cluster.remove(next(key for key in world.engine.cluster.objects if key[1] == "Deployment"))
    await world.converge(L)
    world.chain.put_lease(L, LeaseState.CLOSED)
    await world.converge(L)
    up, refresh = Operation.UP, Operation.REFRESH
    assert await recorded.told() == [
        (up, "first deployment", "done"),
        (up, "manifest update", "done"),
        (up, "manifest update", "failed"),
        (up, "rollback", "done"),
        (refresh, "drift repair", "done"),
        (up, "drift repair", "done"),
        (Operation.DESTROY, "close", "done"),
    ]
    runs = await recorded.runs()
    manifests = [run.manifest_hash for run in runs[:4]]
    assert manifests[3] == manifests[1]
    assert len(set(manifests)) == 3
    assert runs[3].spec_hash == runs[1].spec_hash != runs[2].spec_hash
    assert runs[2].error == "exceeded quota: nothing left"
    assert all(run.result and run.ended_at and run.ended_at >= run.started_at for run in runs)
    assert await versions_of(recorded.database, recorded.ring, STACK) == [], "a closed lease leaves no secrets"


async def test_other_settings_are_no_manifest_update(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group(hosts=("a.example.com",)))
    world.settings = world.settings.model_copy(update={"overcommit_cpu_percent": 50})
    await world.converge(L)
    assert [reason for _, reason, _ in await recorded.told()] == ["first deployment", "settings change"]


async def test_an_upgrade_and_its_recreation_are_no_change_of_settings(recorded: Recorded) -> None:
    world, todays = recorded.world, recorded.world.build_spec

    def older(inputs: SpecInputs) -> LeaseSpec:
        return todays(inputs).model_copy(update={"builder_version": BUILDER_VERSION - 1})

    world.build_spec = older  # type: ignore[method-assign]
    recorded.wrap()
    await world.run(L, a_group())
    world.build_spec = todays  # type: ignore[method-assign]
    recorded.wrap()
    await world.converge(L)
    await world.reconciler.recreate(L)
    await world.converge(L)
    assert [reason for _, reason, _ in await recorded.told()] == ["first deployment", "upgrade", "recreate"]


async def test_the_reasons_survive_a_restart(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    world.engine.refused["nginx:3"] = "is invalid: no"
    await world.send(L, a_group("nginx:3"))
    for _ in range(2):
        world.restart()
        recorded.wrap()
        await world.check(L)
    assert [reason for _, reason, _ in await recorded.told()] == ["first deployment", "manifest update", "rollback"]


async def test_our_trouble_tried_again_keeps_its_reason(recorded: Recorded) -> None:
    world = recorded.world
    world.engine.faults.extend([Fault("connection refused", objects=1)] * 2)
    await world.run(L, a_group())
    expected = [("first deployment", "failed")] * 2 + [("first deployment", "done")]
    assert [(reason, outcome) for _, reason, outcome in await recorded.told()] == expected


async def test_a_killed_run_is_seen_as_interrupted_after_the_restart(recorded: Recorded) -> None:
    world = recorded.world
    world.engine.faults.append(Fault(kill=True, objects=1))
    await world.win(L, a_group())
    with suppress(Killed):
        await world.check(L)
    async with asyncio.timeout(5):
        while [outcome for *_, outcome in await recorded.told()] not in (["running"], []):
            await asyncio.sleep(0.01)
    world.restart()
    recorded.wrap()
    await recorded.engine.start()
    await world.converge(L)
    outcomes = [(reason, outcome) for _, reason, outcome in await recorded.told()]
    assert ("first deployment", "done") in outcomes
    assert RunOutcome.RUNNING.value not in [outcome for _, outcome in outcomes]


@pytest.mark.parametrize("broken", ["before", "within"])
async def test_a_store_that_cannot_be_written_fails_no_operation(
    recorded: Recorded, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = recorded.world
    if broken == "before":
        _break(recorded.database)
    await world.win(L, a_group())
    if broken == "within":
        task = asyncio.create_task(world.converge(L))
        await asyncio.sleep(0)
        _break(recorded.database)
        await task
    outcome = await world.converge(L)
    assert outcome.phase is Phase.RUNNING
    assert "store.unwritable" in capsys.readouterr().out


async def test_a_store_that_hangs_is_not_waited_for(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provider.runs.history._STORE_S", 0.05)
    world = recorded.world
    async with recorded.database.turn:
        await world.win(L, a_group())
        outcome = await world.converge(L)
    assert outcome.phase is Phase.RUNNING
    assert await recorded.told() == []


async def test_only_the_newest_runs_are_kept(recorded: Recorded) -> None:
    recorded.limits = {"keep_runs": 2}
    recorded.wrap()
    for image in ("nginx:1", "nginx:2", "nginx:3", "nginx:4"):
        await recorded.world.win(L, a_group(image))
        await recorded.world.converge(L)
    assert len(await recorded.runs()) == 2


async def test_errors_are_masked_with_every_version_before_anybody_sees_them(recorded: Recorded) -> None:
    world = recorded.world
    spec = await world.run(L, _with_secret(a_group()))
    assert await versions_of(recorded.database, recorded.ring, STACK) == [spec]
    await world.send(L, a_group("nginx:2"))  # the secret is in the version before only
    world.engine.refused["nginx:2"] = f"denied the request: {SECRET}"
    outcome = await world.converge(L)
    recorded.wrap()  # and after a restart, when only the store knows it
    world.engine.faults.append(Fault(f"connection refused by {SECRET}"))
    destroyed = await recorded.engine.destroy(STACK)
    for text in (outcome.reason, destroyed.error, *(run.error for run in await recorded.runs())):
        assert SECRET not in text
    assert destroyed.error == "connection refused by [secret]"
    assert all(SECRET not in str(run.result) for run in await recorded.runs())


async def test_what_an_api_server_says_of_a_lease_is_masked_too(recorded: Recorded) -> None:
    await recorded.world.run(L, _with_secret(a_group()))
    await recorded.world.send(L, a_group("nginx:2"))
    await recorded.world.check(L)
    assert recorded.engine.mask(L, f"denied: {SECRET}") == "denied: [secret]", "of the version before"
    assert recorded.engine.mask(a_lease(2), "denied: something") == "denied: something"


async def test_an_operation_nobody_announced_is_recorded_without_a_reason(recorded: Recorded) -> None:
    spec = await recorded.world.run(L, a_group())
    recorded.wrap()
    result = await recorded.engine.preview(spec)
    assert isinstance(result, StackResult)
    last = (await recorded.runs())[-1]
    assert (last.operation, last.reason, last.spec_hash) == (Operation.PREVIEW, RunReason.NOT_KEPT, spec.content_hash())
    assert await recorded.engine.stacks() == [STACK]


def _with_secret(group: Group) -> Group:
    services = tuple(replace(service, env=(f"TOKEN={SECRET}",)) for service in group.services or ())
    return replace(group, services=services)


def _break(database: Database) -> None:
    """Nothing can be written any more, as on a full disk."""

    class Refusing:
        async def __aenter__(self) -> None:
            raise StoreError("the database cannot be written: disk full")

        async def __aexit__(self, *_: object) -> None: ...

    object.__setattr__(database, "turn", Refusing())


def refuses(image: str, *, why: str) -> Any:
    """The API server's answer to a dry run of a workload with this image."""

    def admission(obj: Mapping[str, Any]) -> str:
        containers = (obj.get("spec") or {}).get("template", {}).get("spec", {}).get("containers", ())
        return why if any(item["image"] == image for item in containers) else ""

    return admission


DENIED = 'admission webhook "policy" denied the request: '


async def test_a_version_that_is_refused_without_a_run_is_in_the_history_once(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    world.cluster.admission = refuses("nginx:2", why=f"{DENIED}unsigned")
    for _ in range(3):
        await world.send(L, a_group("nginx:2"))
        world.reconciler.manifest_sent(L)
        assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    recorded.wrap()
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    world.engine.cluster.remove(next(key for key in world.engine.cluster.objects if key[1] == "Deployment"))
    await world.converge(L)
    up = Operation.UP
    assert await recorded.told() == [
        (up, "first deployment", "done"),
        (up, "manifest update", "refused"),
        (Operation.REFRESH, "drift repair", "done"),
        (up, "drift repair", "done"),
    ]
    _, refused, *_ = await recorded.runs()
    assert "unsigned" in refused.error and refused.manifest_hash and refused.spec_hash
    line, _, error = history_lines([refused])
    assert line.endswith("up (manifest update): refused") and "unsigned" in error


async def test_another_reason_and_another_version_are_other_refusals(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    for image, why in (("nginx:2", "no"), ("nginx:2", "never"), ("nginx:3", "never"), ("nginx:2", "never")):
        world.cluster.admission = refuses(image, why=DENIED + why)
        await world.send(L, a_group(image))
        world.reconciler.manifest_sent(L)
        await world.converge(L)
    _, *refused = await recorded.runs()
    assert ["never" in run.error for run in refused] == [False, True, True, True]
    assert {run.outcome for run in refused} == {RunOutcome.REFUSED}


async def test_a_tenant_whose_versions_are_refused_again_and_again_pushes_no_run_out(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    for number in range(40):
        world.cluster.admission = refuses(f"nginx:{number}", why=f"{DENIED}no")
        await world.send(L, a_group(f"nginx:{number}"))
        await world.converge(L)
    first, *refused = await recorded.runs()
    assert first.outcome is RunOutcome.DONE and len(refused) == 20


async def test_a_refused_first_version_and_one_that_was_undone_are_recorded_as_such(recorded: Recorded) -> None:
    world = recorded.world
    world.engine.refused["nginx:1"] = "Deployment web is invalid: no"
    await world.win(L, a_group("nginx:1"))
    await world.converge(L)
    world.cluster.admission = refuses("nginx:2", why=f"{DENIED}no")
    await world.send(L, a_group("nginx:2"))
    assert (await world.converge(L)).phase is Phase.FAILED
    assert await recorded.told() == [
        (Operation.UP, "first deployment", "failed"),
        (Operation.UP, "rollback", "done"),
        (Operation.UP, "first deployment", "refused"),
    ]


async def test_a_refusal_keeps_a_tenants_secrets_and_needs_no_store(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    world.cluster.admission = refuses("nginx:2", why=f"{DENIED}{SECRET} is no password")
    await world.send(L, _with_secret(a_group("nginx:2")))
    await world.converge(L)
    last = (await recorded.runs())[-1]
    assert last.outcome is RunOutcome.REFUSED and SECRET not in last.error and "[secret]" in last.error
    async with recorded.database.writing() as connection:
        await connection.exec_driver_sql("ALTER TABLE runs RENAME TO away")
    await world.send(L, a_group("nginx:2"))
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED


async def test_a_crash_before_the_attempt_is_written_records_the_refusal_once(recorded: Recorded) -> None:
    world = recorded.world
    await world.run(L, a_group())
    world.cluster.admission = refuses("nginx:2", why=f"{DENIED}no")
    await world.send(L, a_group("nginx:2"))

    def crash(operation: str, kind: str, name: str) -> None:
        if operation == "apply" and name.startswith("applied-"):
            raise Killed

    world.cluster.before = crash
    with suppress(Killed):
        await world.check(L)
    world.cluster.before = lambda *_: None
    recorded.wrap()
    assert (await world.converge(L)).phase is Phase.UPDATE_FAILED
    assert [run.outcome.value for run in await recorded.runs()] == ["done", "refused"]


async def test_a_store_that_is_away_costs_only_the_line(recorded: Recorded) -> None:
    before, world = await recorded.runs(), recorded.world
    async with recorded.database.writing() as connection:
        await connection.exec_driver_sql("ALTER TABLE runs RENAME TO away")
    with capture_logs() as logs:
        spec = await world.run(L, a_group())
    assert spec.services and (await world.converge(L)).phase is Phase.RUNNING, "the engine works on"
    assert [operation for operation, _ in world.engine.calls] == [Operation.UP]
    assert {entry["event"] for entry in logs if entry["log_level"] == "error"} == {"store.unwritable"}
    async with recorded.database.writing() as connection:
        await connection.exec_driver_sql("ALTER TABLE away RENAME TO runs")
    assert await recorded.runs() == before
    await world.send(L, a_group("nginx:2"))
    await world.converge(L)
    assert [run.outcome for run in await recorded.runs()] == [RunOutcome.DONE], "the next run has its line again"


async def test_an_empty_store_gets_the_versions_that_run_now_and_as_each_becomes_known(
    recorded: Recorded, tmp_path: Path
) -> None:
    world = recorded.world
    await world.run(L, a_group())
    await world.converge(L)
    before = await versions_of(recorded.database, recorded.ring, STACK)
    replaced, restarted = [await open_database(f"sqlite+aiosqlite:///{tmp_path}/{name}.db") for name in "ab"]
    object.__setattr__(recorded.engine._history, "database", replaced)
    await recorded.engine.begin_anew()
    assert await versions_of(replaced, recorded.ring, STACK) == before
    recorded.database = restarted
    recorded.wrap()
    await recorded.engine.begin_anew()
    assert await versions_of(restarted, recorded.ring, STACK) == [], "the cluster was not read yet"
    await world.converge(L)
    await asyncio.gather(*recorded.engine._writing)
    assert await versions_of(restarted, recorded.ring, STACK) == before
    await world.send(L, a_group("nginx:2"))
    await world.converge(L)
    assert (await recorded.told())[-1][1] == "manifest update"
    await replaced.close()
    await restarted.close()
