"""The journal of sent transactions: `provider.chain.tx.journal.Journal` in the store."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import delete, insert, select, update

from provider.chain.tx.budget import DAY_S
from provider.chain.tx.journal import Fate, SentTx
from provider.store.database import Database
from provider.store.fees import PAID_FATES, keep_fees
from provider.store.tables import transactions

__all__ = ["StoredJournal"]

_KEEP_S = 7 * DAY_S
_FORGOTTEN_AT_ONCE = 100
"""Old rows that one new transaction removes: after a pause of weeks there are thousands, and a bid waits."""
_FEE = (transactions.c.sent_at, transactions.c.fee, transactions.c.denom, transactions.c.fate)


class StoredJournal:
    """Rows are kept for a week, and longer while their fate is unknown; their fees stay by day. Raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, tx: SentTx) -> None:
        old = (transactions.c.sent_at < tx.sent_at - _KEEP_S) & (transactions.c.fate != Fate.SENT.value)
        row = {
            "hash": tx.hash,
            "account": tx.account,
            "keys": json.dumps(tx.keys),
            "settles": json.dumps(tx.settles),
            "fee": str(tx.fee),
            "denom": tx.denom,
            "timeout_height": tx.timeout_height,
            "sent_at": tx.sent_at,
            "fate": tx.fate.value,
            "height": tx.height,
        }
        async with self._database.writing() as connection:
            some = select(transactions.c.hash).where(old).order_by(transactions.c.sent_at).limit(_FORGOTTEN_AT_ONCE)
            gone = await connection.execute(delete(transactions).where(transactions.c.hash.in_(some)).returning(*_FEE))
            await keep_fees(connection, gone.all())
            await connection.execute(insert(transactions).values(row))

    async def end(self, hash_: str, fate: Fate, *, height: int = 0) -> None:
        change = update(transactions).where(transactions.c.hash == hash_).values(fate=fate.value, height=height)
        async with self._database.writing() as connection:
            await connection.execute(change)

    async def unknown(self, account: str) -> Sequence[SentTx]:
        query = (
            select(transactions)
            .where(transactions.c.fate == Fate.SENT.value, transactions.c.account == account)
            .order_by(transactions.c.sent_at)
        )
        async with self._database.reading() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [
            SentTx(
                hash=row["hash"],
                account=row["account"],
                keys=tuple(json.loads(row["keys"])),
                settles=tuple(json.loads(row["settles"])),
                fee=int(row["fee"]),
                denom=row["denom"],
                timeout_height=row["timeout_height"],
                sent_at=row["sent_at"],
            )
            for row in rows
        ]

    async def fees(self, account: str, *, denom: str, since: float) -> Sequence[tuple[float, int]]:
        query = (
            select(transactions.c.sent_at, transactions.c.fee)
            .where(transactions.c.account == account, transactions.c.denom == denom)
            .where(transactions.c.sent_at > since, transactions.c.fate.in_(PAID_FATES))
            .order_by(transactions.c.sent_at)
        )
        async with self._database.reading() as connection:
            return [(at, int(fee)) for at, fee in (await connection.execute(query)).all()]
