"""States in another backend than a folder a lease: locks of the dead are broken, those of others never."""

from __future__ import annotations

import json
import os
import socket

import pytest

from stacks.common.results import FailureCause
from stacks.engine import PulumiEngine
from stacks.worker.locks import is_stale
from tests.stacks.leases import small

HERE = socket.gethostname()
LOCKED = "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end\n"


@pytest.mark.parametrize(
    ("owner", "stale"),
    [
        (f"a@{HERE} (pid 999999999)", True),
        (f"a@{HERE} (pid {os.getpid()})", True),
        ("a@elsewhere.example (pid 999999999)", False),
        (f"a@{HERE} (pid x)", False),
        ("", False),
    ],
    ids=["dead", "no Pulumi any more", "another machine", "no number", "nobody named"],
)
def test_only_a_lock_of_the_dead_of_this_machine_is_stale(owner, stale):
    assert is_stale(f"{LOCKED}  file:///x.json: created by {owner} at 2026") is stale


def test_of_two_locks_one_that_lives_elsewhere_is_enough():
    both = [f"created by a@{host} (pid 999999999)" for host in (HERE, "elsewhere.example")]
    assert not is_stale("\n".join((LOCKED, *both)))
    assert not is_stale(both[0]), "not a refusal for a lock"


@pytest.mark.devnet
async def test_a_dead_runs_lock_in_another_backend_is_broken_and_anothers_respected(config, client, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    engine = PulumiEngine(config.model_copy(update={"backend": f"file://{elsewhere}"}))
    spec = small()
    assert (await engine.up(spec)).ok
    lock = elsewhere / ".pulumi" / "locks" / "organization" / "lease" / spec.namespace / "a.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    owner = {"pid": 999999999, "username": "a", "hostname": HERE, "timestamp": "2026-01-01T00:00:00Z"}

    lock.write_text(json.dumps(owner | {"hostname": "elsewhere.example"}))
    refused = await engine.up(small("nginx:2", lease=spec.lease))
    assert not refused.ok and refused.cause is FailureCause.LOCKED and lock.exists()

    lock.write_text(json.dumps(owner))
    updated = await engine.up(small("nginx:2", lease=spec.lease))
    assert updated.ok, updated.error
    assert not lock.exists()
    assert (await engine.destroy(spec.namespace)).ok
    await engine.close()
