"""Writes decisions and what becomes of their bids. Decisions of one moment share a commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from lease.ids import OrderId
from provider.market.decision import Decision, DecisionInputs
from provider.market.pricing.quote import Quote
from provider.market.record.capacity_log import CapacityLog
from provider.market.record.decisions import decision_row
from provider.market.record.input_store import InputStore
from provider.market.record.pruning import prune_decisions
from provider.market.terms import Rules
from provider.store.async_engine import AsyncConnection
from provider.store.database import Database
from provider.store.shared_commit import SharedCommit
from provider.store.tables import capacity_log, decisions

__all__ = ["DecisionLog", "OutcomeLog", "Recorded"]

_OUTCOME = 600
"""Characters of an outcome that are kept."""
_SEAL = object()


@dataclass(frozen=True, slots=True)
class Recorded:
    """A decision that the store holds under `number`. Only `DecisionLog` makes one, and a bid message needs one."""

    number: int
    order: OrderId
    decision: Decision
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only the log of decisions says what is recorded")


@dataclass(frozen=True, slots=True)
class _Pending:
    inputs: DecisionInputs
    decision: Decision
    now: float


class DecisionLog:
    """The writer of decisions; a process has one. Decisions that are made while others are being written share the next
    commit.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._inputs = InputStore()
        self._capacity = CapacityLog()
        self._next: tuple[int, int] | None = None
        self._given = (0, 0)
        self._generation: int | None = None
        self._base: tuple[Rules, Rules] | None = None
        self._shared = SharedCommit(self._write)

    async def record(self, inputs: DecisionInputs, decision: Decision, *, now: float) -> Recorded:
        """Store the decision. Raises `StoreError`, and then nothing is stored."""
        return await self._shared.add(_Pending(inputs, decision, now))

    async def _write(self, batch: Sequence[_Pending]) -> Sequence[Recorded]:
        """One transaction for the whole batch. After a failure the next entry of the capacity is a full one."""
        try:
            async with self._database.writing() as connection:
                self._notice_another_database()
                numbers = await self._insert(connection, batch)
        except BaseException:
            self._next = None
            self._forget()
            raise
        pairs = zip(numbers, batch, strict=True)
        return [Recorded(number, item.inputs.order.id, item.decision, seal=_SEAL) for number, item in pairs]

    async def _insert(self, connection: AsyncConnection, batch: Sequence[_Pending]) -> list[int]:
        """One statement a table for the whole batch, since the cost of a commit is its statements. No other process
        inserts into these tables, so the numbers are counted here.
        """
        number, entry = self._next or await self._next_numbers(connection)
        rows: list[dict[str, Any]] = []
        made: list[dict[str, Any]] = []
        for item in batch:
            row = await self._row(connection, item)
            free = self._capacity.entry(item.inputs.snapshot, now=item.now, rows=made, first=entry)
            rows.append({**row, "id": number + len(rows), "capacity": free})
        if made:
            await connection.execute(insert(capacity_log), made)
        await connection.execute(insert(decisions), rows)
        self._next = self._given = (number + len(rows), entry + len(made))
        return [row["id"] for row in rows]

    async def _row(self, connection: AsyncConnection, item: _Pending) -> dict[str, Any]:
        inputs, row = item.inputs, decision_row(item.inputs, item.decision, now=item.now)
        rules, quote = self._split(inputs.rules)
        keep = self._inputs.keep
        row["spec_input"] = await keep(connection, "spec", inputs.order.spec)
        row["record_input"] = await keep(connection, "record", inputs.record)
        row["rules_input"] = await keep(connection, "rules", rules)
        row["audits_input"] = await keep(connection, "audits", inputs.audits)
        row["quote_input"] = None if quote is None else await keep(connection, "quote", quote)
        return row

    def _split(self, rules: Rules) -> tuple[Rules, Quote | None]:
        """The quote for this order, apart from the rules that are the same for all orders."""
        if not isinstance(rules.prices, Quote):
            return rules, None
        base = replace(rules, prices=Quote(rules.prices.strategy))
        if self._base is None or self._base[0] != base:
            self._base = (base, base)
        return self._base[1], rules.prices

    async def prune(self, *, now: float, keep: int, age_s: float) -> int:
        """Remove decisions older than `age_s` and all but the newest `keep`, with the inputs and the capacity that no
        other decision refers to. Returns the number of decisions removed.
        """
        return await prune_decisions(
            self._database, turn=self._shared.turn, forget=self._forget, now=now, keep=keep, age_s=age_s
        )

    async def _next_numbers(self, connection: AsyncConnection) -> tuple[int, int]:
        """The numbers of the next decision and of the next entry of the capacity. None is given twice, not by an empty
        database either: open bids know theirs.
        """
        newest = [select(func.max(table.c.id)) for table in (decisions, capacity_log)]
        found = [(await connection.execute(query)).scalar_one_or_none() or 0 for query in newest]
        return max(found[0] + 1, self._given[0]), max(found[1] + 1, self._given[1])

    def _notice_another_database(self) -> None:
        """Another database has none of the rows that are remembered."""
        if self._generation != self._database.generation:
            self._generation, self._next = self._database.generation, None
            self._forget()

    def _forget(self) -> None:
        self._inputs.forget()
        self._capacity.forget()


class OutcomeLog:
    """Writes what became of a bid into the row of its decision: `sent <hash>`, `refused …`, `lease`, `lost`,
    `closed`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._shared = SharedCommit(self._write)

    async def record(self, decision: int, outcome: str) -> None:
        """Bids that end in the same block share a commit, since the orders of the next block are decided at that
        moment. Raises `StoreError`.
        """
        await self._shared.add({"number": decision, "text": outcome[:_OUTCOME]})

    async def _write(self, batch: Sequence[dict[str, Any]]) -> Sequence[None]:
        row = update(decisions).where(decisions.c.id == bindparam("number")).values(outcome=bindparam("text"))
        async with self._database.writing() as connection:
            await connection.execute(row, list(batch))
        return [None] * len(batch)
