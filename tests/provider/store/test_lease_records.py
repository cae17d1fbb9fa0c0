"""What is kept of a lease beside its runs: states, accepted manifests, hostnames and addresses; on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from lease.ids import LeaseId, namespace_name
from provider.lifecycle.state import LeaseStatus, Phase
from provider.records.accepted import AcceptedManifest
from provider.store import Database, open_database
from provider.store.claims import Claim, ClaimKind, claims_of, claims_on, note_claims, open_claims
from provider.store.leases import known_leases, save_status, states_of
from provider.store.manifests import manifests_of, save_manifest

LEASE = LeaseId("akash1tenant", 2**64 - 1, 1, 1, "akash1provider")
OTHER = replace(LEASE, dseq=7)
STACK = namespace_name(LEASE)
MANIFEST = AcceptedManifest(LEASE, 10.0, version="a" * 64, manifest_hash="b" * 64, size=2**33, services=3)
HOST = Claim(ClaimKind.HOSTNAME, "app.example.com", "", LEASE, "web:80")
ADDRESS = Claim(ClaimKind.ADDRESS, "203.0.113.7", "53/UDP", LEASE, "dns:53")


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    opened = await open_database(store_url)
    yield opened
    await opened.close()


async def test_an_accepted_manifest_is_kept_by_its_hashes_and_the_same_again_only_counts(database: Database) -> None:
    await save_manifest(database, MANIFEST)
    await save_manifest(database, replace(MANIFEST, at=20.0))
    await save_manifest(database, replace(MANIFEST, at=30.0, version="c" * 64))
    await save_manifest(database, replace(MANIFEST, at=40.0))
    await save_manifest(database, replace(MANIFEST, lease=OTHER, at=50.0))
    found = await manifests_of(database, STACK)
    assert [(one.accepted_at, one.last_at, one.times, one.version[0]) for one in found] == [
        (40.0, 40.0, 1, "a"), (30.0, 30.0, 1, "c"), (10.0, 20.0, 2, "a")
    ]  # fmt: skip
    assert (found[0].owner, found[0].manifest_hash, found[0].size, found[0].services) == (
        "akash1tenant", "b" * 64, 2**33, 3
    )  # fmt: skip
    assert len(await manifests_of(database, STACK, limit=2)) == 2


async def test_manifests_of_one_moment_are_kept_as_if_they_had_come_one_by_one(database: Database) -> None:
    await save_manifest(database, MANIFEST, replace(MANIFEST, lease=OTHER))
    again, other = replace(MANIFEST, at=20.0), replace(MANIFEST, at=30.0, version="c" * 64)
    await save_manifest(database, again, other, replace(other, at=40.0), replace(MANIFEST, lease=OTHER, at=50.0))
    found = await manifests_of(database, STACK)
    assert [(one.accepted_at, one.last_at, one.times) for one in found] == [(30.0, 40.0, 2), (10.0, 20.0, 2)]
    assert [(one.last_at, one.times) for one in await manifests_of(database, namespace_name(OTHER))] == [(50.0, 2)]


async def test_a_tenant_that_sends_other_manifests_all_day_fills_no_disk(database: Database) -> None:
    for number in range(130):
        await save_manifest(database, replace(MANIFEST, at=float(number), version=f"{number:064x}"))
    found = await manifests_of(database, STACK, limit=1000)
    assert (len(found), found[0].accepted_at, found[-1].accepted_at) == (100, 129.0, 30.0)


async def test_each_state_of_a_lease_is_kept_once_and_the_oldest_go(database: Database) -> None:
    for at, reason in enumerate(("a", "a", "b", "a")):
        await save_status(database, LeaseStatus(LEASE, Phase.DEGRADED, reason, float(at)))
    assert [(one.at, one.reason) for one in await states_of(database, STACK)] == [(3.0, "a"), (2.0, "b"), (0.0, "a")]
    for at in range(10, 250):
        await save_status(database, LeaseStatus(LEASE, Phase.DEGRADED, str(at), float(at)))
    found = await states_of(database, STACK, limit=1000)
    assert (len(found), found[-1].reason) == (200, "50")
    assert await states_of(database, namespace_name(OTHER)) == []


async def test_states_of_one_moment_are_kept_as_if_they_had_come_one_by_one(database: Database) -> None:
    await save_status(database, LeaseStatus(LEASE, Phase.APPLYING, "", 1.0))
    one, two = LeaseStatus(LEASE, Phase.DEGRADED, "a", 2.0), LeaseStatus(OTHER, Phase.RUNNING, "", 3.0)
    await save_status(database, one, two, replace(one, since=4.0), replace(one, reason="b", since=5.0, attempts=2))
    assert [(each.at, each.reason) for each in await states_of(database, STACK)] == [(5.0, "b"), (2.0, "a"), (1.0, "")]
    assert [(each.since, each.attempts) for each in await known_leases(database)] == [(3.0, 0), (5.0, 2)]


async def test_hundreds_of_states_need_few_transactions(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, count = Database.writing, 0

    def counted(self: Database) -> Any:
        nonlocal count
        count += 1
        return writing(self)

    monkeypatch.setattr(Database, "writing", counted)
    await save_status(
        database, *(LeaseStatus(replace(LEASE, dseq=number), Phase.RUNNING, "", 1.0) for number in range(250))
    )
    assert (count, len(await known_leases(database))) == (3, 250)


async def test_who_had_a_name_or_an_address_and_when_is_found_by_lease_and_by_name(database: Database) -> None:
    await note_claims(database, [(HOST, 1.0), (ADDRESS, 2.0)], [])
    rows = await open_claims(database)
    assert set(rows) == {HOST.key, ADDRESS.key}
    moved = replace(HOST, lease=OTHER)
    await note_claims(database, [(moved, 5.0)], [(rows[HOST.key], 5.0)])
    assert set(await open_claims(database)) == {moved.key, ADDRESS.key}
    by_name = await claims_on(database, "App.Example.com")
    assert [(one.claim, one.given_at, one.released_at) for one in by_name] == [(moved, 5.0, None), (HOST, 1.0, 5.0)]
    assert [one.claim for one in await claims_of(database, STACK)] == [ADDRESS, HOST]
    assert [one.claim.lease for one in await claims_on(database, "203.0.113.7")] == [LEASE]


async def test_a_thousand_claims_are_written_in_small_transactions(database: Database) -> None:
    many = [(replace(HOST, name=f"h{number}.example.com"), 1.0) for number in range(1000)]
    await note_claims(database, many, [])
    rows = await open_claims(database)
    assert len(rows) == 1000
    await note_claims(database, [], [(number, 2.0) for number in rows.values()])
    assert await open_claims(database) == {}
