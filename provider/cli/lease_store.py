"""The leases and runs that `lessor lease` reads from the store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from lease.ids import LeaseId, namespace_name
from provider.cli.home import settings_of_store
from provider.cli.lease_records import LeaseRecords, lease_records
from provider.errors import StoreError
from provider.lifecycle.directives import DirectiveKind
from provider.lifecycle.state import LeaseStatus
from provider.runs.log import StoredRun, runs_of
from provider.settings import Settings
from provider.store import Database, read_database
from provider.store.directives import stored_directives
from provider.store.leases import find_lease, known_leases
from provider.store.sealing import KeyRing, load_ring

__all__ = ["LeaseStory", "every_lease", "one_lease"]


@dataclass(frozen=True, slots=True)
class LeaseStory:
    """`runs` newest first. `key_problem`: why their changes cannot be read; empty when they can."""

    status: LeaseStatus
    runs: Sequence[StoredRun]
    key_problem: str = ""
    records: LeaseRecords = field(default_factory=LeaseRecords)


async def every_lease(*, closed: bool) -> tuple[Sequence[LeaseStatus], frozenset[LeaseId]]:
    """All leases, and those that the teardown brake holds. Raises `SettingsError` and `StoreError`."""
    async with _opened(settings_of_store()) as database:
        found = await known_leases(database, closed=closed)
        directives = await stored_directives(database)
    return found, frozenset(each.lease for each in directives if each.kind is DirectiveKind.HELD)


async def one_lease(name: str, *, limit: int) -> LeaseStory:
    settings = settings_of_store()
    async with _opened(settings) as database:
        status = await find_lease(database, name)
        ring, problem = _ring(settings)
        found = await runs_of(database, namespace_name(status.lease), limit=limit, ring=ring)
        records = await lease_records(database, namespace_name(status.lease), limit=limit)
    return LeaseStory(status, found, problem, records)


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database]:
    database = await read_database(settings.database_url)
    try:
        yield database
    finally:
        await database.close()


def _ring(settings: Settings) -> tuple[KeyRing | None, str]:
    """The key ring, or the reason why there is none. Without it a history lacks only the changes."""
    try:
        return load_ring(settings.store_key), ""
    except StoreError as error:
        return None, str(error)
