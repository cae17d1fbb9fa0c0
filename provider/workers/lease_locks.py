"""Locks of leases in PostgreSQL (advisory locks): who holds one works on the lease's stack.

They belong to one connection. A process that dies loses them at once; a machine that is cut off loses them when the
server's keepalives fail, which takes 25 seconds at most. The holder watches the connection, and ends when it is lost.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from provider.errors import StoreError
from provider.store import Database
from provider.store.async_engine import AsyncConnection

__all__ = ["LeaseLocks", "locked_stacks"]

_CLASS = 0x4C455353
"""The first half of the locks' numbers, so that nobody else's are meant."""
_WATCH_S, _ANSWER_S = 2.0, 10.0
_KEEPALIVES = ("tcp_keepalives_idle = 10", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")


def _number(stack: str) -> int:
    """The second half: 31 bits of the name. Two stacks with one number wait for each other, and nothing worse."""
    return int.from_bytes(hashlib.sha256(stack.encode()).digest()[:4], "big") >> 1


class LeaseLocks:
    """The locks of this process. Use `opened`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._turn = asyncio.Lock()
        self._held: set[int] = set()

    @classmethod
    @asynccontextmanager
    async def opened(cls, database: Database) -> AsyncIterator[LeaseLocks]:
        """Locks on a connection of their own. Raises `StoreError`."""
        async with database.reading() as borrowed:
            connection = await borrowed.execution_options(isolation_level="AUTOCOMMIT")
            for setting in _KEEPALIVES:
                await connection.execute(text(f"SET {setting}"))
            try:
                yield cls(connection)
            finally:
                with suppress(SQLAlchemyError, OSError):
                    await connection.invalidate()

    @asynccontextmanager
    async def hold(self, stack: str) -> AsyncIterator[bool]:
        """Whether this block has the lock; False, at once, when anybody else has it. Raises `StoreError`."""
        number = _number(stack)
        if number in self._held:  # the server would give it to the same connection twice
            yield False
            return
        self._held.add(number)
        try:
            held = bool(await self._ask("SELECT pg_try_advisory_lock(:class, :number)", number))
            try:
                yield held
            finally:
                if held:
                    await asyncio.shield(self._ask("SELECT pg_advisory_unlock(:class, :number)", number))
        finally:
            self._held.discard(number)

    async def watch(self) -> None:
        """Ask the server again and again. Raises `StoreError` when it does not answer: others may have the locks."""
        while True:
            await asyncio.sleep(_WATCH_S)
            await self._ask("SELECT CAST(:class AS int) + CAST(:number AS int)", 0)

    async def _ask(self, query: str, number: int) -> object:
        values = {"class": _CLASS, "number": number}
        try:
            async with self._turn, asyncio.timeout(_ANSWER_S):
                return (await self._connection.execute(text(query), values)).scalar()
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            raise StoreError(f"the locks of leases are lost: {type(error).__name__}") from None


async def locked_stacks(database: Database, stacks: Collection[str]) -> set[str]:
    """Those of `stacks` whose lock anybody holds. Raises `StoreError`."""
    query = text(
        "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = :class "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    async with database.reading() as connection:
        held = {int(number) for number in (await connection.execute(query, {"class": _CLASS})).scalars()}
    return {stack for stack in stacks if _number(stack) in held}
