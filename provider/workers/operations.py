"""The operations that the leader asks for, one row a stack. The row says what a worker has to do and how it ended.

The task holds secrets of a tenant, and its result may quote them: both are sealed with the store's key.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from secrets import token_hex

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import delete, insert, select, update

from provider.errors import StoreError
from provider.store import Database
from provider.store.sealing import KeyRing
from provider.store.tables import stack_operations as rows
from stacks.common import Priority, StackResult, Task

__all__ = ["Asked", "Begun", "Operations"]

_ASKED, _BEGUN, _DONE = "asked", "begun", "done"


@cache
def _results() -> TypeAdapter[StackResult]:
    """Made when it is used: a start waits for none of it."""
    return TypeAdapter(StackResult)


@dataclass(frozen=True, slots=True)
class Asked:
    """An operation as a worker has it. `number` tells it from an earlier one on the stack."""

    number: str
    task: Task
    priority: Priority


@dataclass(frozen=True, slots=True)
class Begun:
    """How far an operation is. `worker`: who has begun it, empty for nobody. `result`: its end, None before it."""

    worker: str
    result: StackResult | None


class Operations:
    """The rows. Each method raises `StoreError`."""

    def __init__(self, database: Database, ring: KeyRing) -> None:
        self._database, self._ring = database, ring

    async def ask(self, task: Task, *, priority: Priority, term: int) -> str:
        """Ask for an operation and return its number. An earlier one on the stack is asked for no longer."""
        number = token_hex(16)
        row = {
            "stack": task.stack,
            "number": number,
            "term": term,
            "priority": priority.value,
            "state": _ASKED,
            "worker": "",
            "asked_at": time.time(),
            "key_id": self._ring.newest,
            "body": self._ring.seal(task.model_dump_json().encode()),
        }
        async with self._database.writing() as connection:
            await connection.execute(delete(rows).where(rows.c.stack == task.stack))
            await connection.execute(insert(rows).values(row))
        return number

    async def begin(self, stack: str, *, worker: str, term: int) -> Asked | None:
        """What is asked for the stack in this term and has not ended, noted as begun by `worker`; None for nothing."""
        open_now = (rows.c.stack == stack, rows.c.term == term, rows.c.state != _DONE)
        taken = update(rows).where(*open_now).values(state=_BEGUN, worker=worker)
        async with self._database.writing() as connection:
            found = (await connection.execute(taken.returning(rows))).mappings().one_or_none()
        if found is None:
            return None
        try:
            task = Task.model_validate_json(self._ring.open(bytes(found["body"])))
        except ValidationError:
            raise StoreError(f"the operation on {stack} was asked for by another version of Lessor") from None
        return Asked(str(found["number"]), task, Priority(found["priority"]))

    async def end(self, stack: str, number: str, result: StackResult) -> None:
        """Note the result, unless something else is asked for by now."""
        body = self._ring.seal(_results().dump_json(result))
        mine = (rows.c.stack == stack, rows.c.number == number)
        async with self._database.writing() as connection:
            await connection.execute(update(rows).where(*mine).values(state=_DONE, body=body, key_id=self._ring.newest))

    async def states(self, numbers: Mapping[str, str]) -> dict[str, Begun]:
        """Stack → how far its operation is, for the stacks and numbers given. A row that is gone is left out."""
        query = select(rows).where(rows.c.stack.in_(numbers))
        async with self._database.reading() as connection:
            found = (await connection.execute(query)).mappings().all()
        return {
            row["stack"]: Begun(str(row["worker"]), self._result(bytes(row["body"])) if row["state"] == _DONE else None)
            for row in found
            if row["number"] == numbers[row["stack"]]
        }

    async def forget(self, numbers: Collection[str]) -> None:
        """Remove operations whose result is known, or which nobody shall do."""
        async with self._database.writing() as connection:
            await connection.execute(delete(rows).where(rows.c.number.in_(numbers)))

    def _result(self, sealed: bytes) -> StackResult:
        try:
            return _results().validate_json(self._ring.open(sealed))
        except ValidationError:
            raise StoreError("a worker of another version of Lessor wrote a result that cannot be read") from None
