"""Engines of several machines over one backend: each finds the other's stacks, and what the other left."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from pathlib import Path

import lightkube
import pytest
from lightkube import codecs
from lightkube.core.exceptions import ApiError
from lightkube.resources.core_v1 import Namespace, Service

from components.lease import lease_objects
from lease.spec import LeaseSpec
from stacks.common import EngineConfig, StackNote
from stacks.common.begun_objects import note_of
from stacks.common.results import FailureCause
from stacks.engine import PulumiEngine
from stacks.worker.locks import is_abandoned
from tests.components.specs import port, service
from tests.stacks.leases import small

LOCK = "error: the stack is currently locked by 1 lock(s).\n  s3://x.json: created by a@elsewhere (pid 7) at 2026"


class Notes:
    """`StackNotes` in memory, for engines of one process."""

    def __init__(self) -> None:
        self.rows: dict[str, StackNote] = {}

    async def read(self, stack: str) -> StackNote | None:
        return self.rows.get(stack)

    async def write(self, stack: str, note: StackNote) -> None:
        self.rows[stack] = note

    async def forget(self, stack: str) -> None:
        self.rows.pop(stack, None)


class Machines:
    """Engines with homes of their own, one key, one backend and one set of notes."""

    def __init__(self, config: EngineConfig, folder: Path) -> None:
        (folder / "state").mkdir()
        key = folder / "key"
        key.write_text(secrets.token_urlsafe(32))
        shared = {"backend": f"file://{folder / 'state'}", "key": key, "exclusive": True, "foreign_lock_seconds": 1e-9}
        self.base, self.folder, self.notes = config.model_copy(update=shared), folder, Notes()
        self.engines: list[PulumiEngine] = []

    def engine(self, name: str, **changes: object) -> PulumiEngine:
        engine = PulumiEngine(self.config(name).model_copy(update=changes))
        engine.share(self.notes)
        self.engines.append(engine)
        return engine

    def config(self, name: str) -> EngineConfig:
        return self.base.model_copy(update={"data": self.folder / name})


@pytest.fixture
async def machines(config: EngineConfig, tmp_path: Path):
    made = Machines(config, tmp_path)
    yield made
    for engine in made.engines:
        await engine.close()


def with_cache(first: LeaseSpec) -> LeaseSpec:
    return first.model_copy(update={"services": (*first.services, service("cache", ports=(port(6379),)))})


@pytest.mark.devnet
async def test_another_machine_updates_and_destroys_what_the_first_has_made(machines: Machines):
    spec = small()
    first, second = machines.engine("a"), machines.engine("b")
    assert (await first.up(spec)).ok
    assert list(await second.stacks()) == [spec.namespace]

    updated = await second.up(small("nginx:2", lease=spec.lease))
    assert updated.ok, updated.error
    assert {change.op for change in updated.changes} == {"update"}, updated.changes
    assert {change.type for change in updated.changes} == {"kubernetes:apps/v1:Deployment"}, "no other provider"
    again = await first.up(small("nginx:2", lease=spec.lease))
    assert again.ok and not again.changes, (again.error, again.changes)

    gone = await second.destroy(spec.namespace)
    assert gone.ok, gone.error
    assert list(await second.stacks()) == []
    assert not machines.notes.rows
    afresh = await first.refresh(spec.namespace)
    assert not afresh.ok and "there is no stack" in afresh.error
    assert (await first.destroy(spec.namespace)).ok, "nothing is left, which is what was asked for"


@pytest.mark.devnet
@pytest.mark.long  # tests/stacks/common has the reason that is given
async def test_a_machine_with_another_key_changes_nothing(machines: Machines, tmp_path: Path):
    spec = small()
    assert (await machines.engine("a").up(spec)).ok
    other = tmp_path / "other-key"
    other.write_text(secrets.token_urlsafe(32))
    refused = await machines.engine("b", key=other).up(small("nginx:2", lease=spec.lease))
    assert not refused.ok and "another key" in refused.error, refused
    assert (await machines.engine("c").destroy(spec.namespace)).ok


@pytest.mark.devnet
@pytest.mark.long
async def test_what_a_dead_machine_had_begun_is_found_and_its_lock_is_broken(
    machines: Machines, client: lightkube.Client, tmp_path: Path
):
    """The first machine died in an update to a version with a second service, which nobody wants any more."""
    spec = small()
    bigger, stack = with_cache(spec), spec.namespace
    first, second = machines.engine("a"), machines.engine("b")
    assert (await first.up(spec)).ok
    left = _service(bigger, "cache")
    client.create(left, namespace=stack)
    machines.notes.rows[stack] = replace(machines.notes.rows[stack], sound=False, begun=note_of((), bigger))
    lock = tmp_path / "state" / ".pulumi" / "locks" / "organization" / "lease" / stack / "a.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    owner = {"pid": 7, "username": "a", "hostname": "elsewhere", "timestamp": "2026-01-01T00:00:00Z"}
    lock.write_text(json.dumps(owner))

    waits = await second.up(small("nginx:2", lease=spec.lease))
    assert not waits.ok and waits.cause is FailureCause.LOCKED and lock.exists()
    served = await second.up(small("nginx:2", lease=spec.lease))
    assert served.ok, served.error
    assert not lock.exists()
    with pytest.raises(ApiError, match="not found"):
        client.get(Service, "cache", namespace=stack)
    assert machines.notes.rows[stack].sound and not machines.notes.rows[stack].begun
    assert client.get(Namespace, stack)
    assert (await second.destroy(stack)).ok


def _service(spec: LeaseSpec, name: str) -> Service:
    found = (item for item in lease_objects(spec) if item["kind"] == "Service" and item["metadata"]["name"] == name)
    made = codecs.from_dict(next(found))
    assert isinstance(made, Service)
    return made


async def test_a_missing_key_that_is_another_machines_too_is_not_made(config: EngineConfig, tmp_path: Path):
    engine = PulumiEngine(config.model_copy(update={"key": tmp_path / "absent"}))
    result = await engine.up(small())
    assert not result.ok and "does not exist" in result.error and not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    ("exclusive", "refusals", "abandoned"),
    [(True, [LOCK, LOCK], True), (False, [LOCK, LOCK], False), (True, [LOCK, LOCK.replace("pid 7", "pid 8")], False),
     (True, [LOCK], False), (True, ["error: refused"] * 2, False)],
    ids=["seen for long enough", "nobody is excluded", "a newer lock", "seen once", "no lock"],
)  # fmt: skip
def test_another_machines_lock_is_abandoned_when_this_one_has_seen_it(tmp_path, exclusive, refusals, abandoned):
    config = EngineConfig(
        data=tmp_path, kubeconfig=tmp_path, pulumi=tmp_path, exclusive=exclusive, foreign_lock_seconds=1e-9
    )
    config.folder("a").mkdir(parents=True)
    assert [is_abandoned(config, "a", refusal) for refusal in refusals][-1] is abandoned
