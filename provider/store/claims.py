"""Which lease had which hostname or address, and when: the provider is asked about those of last month too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from lease.ids import LeaseId, namespace_name
from provider.store.database import Database
from provider.store.tables import claims

__all__ = ["Claim", "ClaimKind", "StoredClaim", "claims_of", "claims_on", "held_claims", "note_claims", "open_claims"]

_AT_ONCE = 200
"""Rows of one transaction, so that other writers wait only for these."""
_SERVICE, _NAME = 256, 256


class ClaimKind(StrEnum):
    HOSTNAME = "hostname"
    ADDRESS = "address"


@dataclass(frozen=True, slots=True)
class Claim:
    """A hostname, or a port of an address, of one lease. `port`: such as `80/TCP`, empty for a hostname. `service`: the
    service and the port that it leads to; it does not tell two claims apart.
    """

    kind: ClaimKind
    name: str
    port: str
    lease: LeaseId
    service: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it apart from every other claim."""
        return self.kind.value, self.name[:_NAME], self.port, str(self.lease)


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """`released_at` is None while the lease has it. Times in Unix seconds."""

    claim: Claim
    given_at: float
    released_at: float | None


async def open_claims(database: Database) -> Mapping[tuple[str, str, str, str], int]:
    """The row of every claim that was not given back, by `Claim.key`. Raises `StoreError`."""
    columns = claims.c
    query = select(columns.id, columns.kind, columns.name, columns.port, columns.lease)
    async with database.reading() as connection:
        rows = (await connection.execute(query.where(columns.released_at.is_(None)))).all()
    return {(row.kind, row.name, row.port, row.lease): row.id for row in rows}


async def note_claims(
    database: Database, given: Iterable[tuple[Claim, float]], released: Iterable[tuple[int, float]]
) -> None:
    """Record claims that were given, and rows of claims that were given back, each with its time. Some rows share a
    transaction. Raises `StoreError`.
    """
    ended = [{"number": number, "at": at} for number, at in released]
    await _in_parts(database, ended, update(claims).where(claims.c.id == bindparam("number")).values(
        released_at=bindparam("at")
    ))  # fmt: skip
    await _in_parts(database, [_row(claim, at) for claim, at in given], insert(claims))


async def claims_of(database: Database, stack: str, *, limit: int = 100) -> Sequence[StoredClaim]:
    """The newest claims of a lease, newest first. Raises `StoreError`."""
    return await _found(database, claims.c.stack == stack, limit)


async def claims_on(database: Database, name: str, *, limit: int = 100) -> Sequence[StoredClaim]:
    """The newest claims on a hostname or an address, newest first. Raises `StoreError`."""
    return await _found(database, claims.c.name == name.lower(), limit)


async def held_claims(database: Database) -> Sequence[StoredClaim]:
    """Every claim that was not given back. Raises `StoreError`."""
    return await _found(database, claims.c.released_at.is_(None), None)


async def _in_parts(database: Database, rows: Sequence[dict[str, Any]], statement: Any) -> None:
    waiting = iter(rows)
    while some := list(islice(waiting, _AT_ONCE)):
        async with database.writing() as connection:
            await connection.execute(statement, some)


async def _found(database: Database, condition: Any, limit: int | None) -> Sequence[StoredClaim]:
    query = select(claims).where(condition).order_by(claims.c.id.desc()).limit(limit)
    async with database.reading() as connection:
        rows = (await connection.execute(query)).mappings().all()
    return [StoredClaim(_claim(row), row["given_at"], row["released_at"]) for row in rows]


def _row(claim: Claim, at: float) -> dict[str, Any]:
    kind, name, port, lease = claim.key
    own = {"kind": kind, "name": name, "port": port, "lease": lease, "stack": namespace_name(claim.lease)}
    return {**own, "service": claim.service[:_SERVICE], "given_at": at, "released_at": None}


def _claim(row: Any) -> Claim:
    owner, dseq, gseq, oseq, provider = str(row["lease"]).split("/")
    lease = LeaseId(owner, int(dseq), int(gseq), int(oseq), provider)
    return Claim(ClaimKind(row["kind"]), row["name"], row["port"], lease, row["service"])
