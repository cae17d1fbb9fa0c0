"""What the rest of the store does, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from lease.ids import LeaseId
from provider.chain.tx.journal import Fate, SentTx
from provider.inventory.snapshot import Snapshot
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.market.decision import DecisionInputs, decide
from provider.market.record.decisions import orders_decided
from provider.market.record.log import DecisionLog
from provider.store import Database, open_database
from provider.store.cursors import last_chain, save_cursor
from provider.store.directives import StoredDirectives
from provider.store.fees import fees_between
from provider.store.money import Earned, LeaseMoney, earned_between, forget_ended, known_money, save_money
from provider.store.transactions import StoredJournal
from tests.provider.market.world import RECORD, RULES, make_order

LEASE = LeaseId("akash1tenant", 2**64 - 1, 1, 1, "akash1provider")
OTHER = replace(LEASE, dseq=7)
HUGE = Decimal("123456789012345678901234567890.123456789012345678")
DAY = date(2026, 11, 29)
SENT = SentTx(
    hash="A" * 64, account="chain/akash1provider", keys=("bid/1",), settles=("akash1tenant/7",), fee=2**70,
    denom="uakt", timeout_height=2**40, sent_at=1_795_000_000.0,
)  # fmt: skip


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    opened = await open_database(store_url)
    yield opened
    await opened.close()


async def test_a_sent_transaction_is_found_until_its_fate_is_known_and_its_fee_stays(database: Database) -> None:
    journal = StoredJournal(database)
    await journal.begin(SENT)
    assert await journal.unknown(SENT.account) == [SENT]
    assert await journal.unknown("chain/another") == []
    await journal.end(SENT.hash, Fate.DONE, height=9)
    assert await journal.unknown(SENT.account) == []
    assert await journal.fees(SENT.account, denom="uakt", since=0.0) == [(SENT.sent_at, 2**70)]
    later = replace(SENT, hash="B" * 64, sent_at=SENT.sent_at + 8 * 86400)
    await journal.begin(later)
    assert await journal.fees(SENT.account, denom="uakt", since=0.0) == [(later.sent_at, 2**70)]
    assert sum(each.amount for each in await fees_between(database, date(2026, 11, 1), date(2026, 12, 31))) == 2**71


async def test_amounts_of_any_length_are_added_to_their_days(database: Database) -> None:
    money = LeaseMoney(LEASE, "uakt", HUGE, seen_at=2.0, since=1.0, rate=Decimal("0.1"), unpaid=None)
    for _ in range(2):
        shares = [Earned(DAY, LEASE, "uakt", HUGE), Earned(DAY, OTHER, "uakt", Decimal(1))]
        await save_money(database, [money, replace(money, lease=OTHER, ended=True)], shares)
    assert await known_money(database) == {LEASE: money, OTHER: replace(money, lease=OTHER, ended=True)}
    found = {each.lease: each.amount for each in await earned_between(database, DAY, DAY)}
    assert found == {LEASE: HUGE + HUGE, OTHER: Decimal(2)}
    await forget_ended(database, before=3.0)
    assert set(await known_money(database)) == {LEASE}


async def test_directives_are_replaced_as_a_whole(database: Database) -> None:
    store = StoredDirectives(database)
    kinds = list(DirectiveKind)
    assert await store.save([Directive(LEASE, kind, 5.0) for kind in kinds])
    assert await store.load() == sorted(Directive(LEASE, kind, 5.0) for kind in kinds)
    assert await store.save([])
    assert await store.load() == []


async def test_decisions_made_at_once_are_numbered_and_their_common_inputs_are_kept_once(database: Database) -> None:
    log = DecisionLog(database)
    orders = [make_order(dseq) for dseq in range(1, 21)]
    inputs = [DecisionInputs(order, RECORD, Snapshot(), RULES, {}) for order in orders]
    found = await asyncio.gather(*(log.record(each, decide(each), now=1.0) for each in inputs))
    assert len({each.number for each in found}) == 20
    for order, each in zip(orders, found, strict=True):
        assert [row.id for row in await orders_decided(database, order.id)] == [each.number]


async def test_the_chain_that_was_followed_last_is_known(database: Database) -> None:
    assert await last_chain(database) == ""
    await save_cursor(database, "a", height=1, now=1.0)
    await save_cursor(database, "b", height=1, now=2.0)
    assert await last_chain(database) == "b"
