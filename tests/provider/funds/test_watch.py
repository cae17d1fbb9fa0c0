"""The funds loop over a scripted chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from lease.ids import LeaseId
from lease.resources import Price
from provider.bus import FUNDS_ESCROW, FUNDS_WALLET, LEASE_CHANGED
from provider.chain.model import Bid, BidState, Lease, LeaseState, Order, OrderState
from provider.chain.money import Escrow, EscrowState, Payment
from provider.errors import ChainError
from provider.funds.plan import FundsRules
from provider.funds.wallet import Wallet, WalletLevel, WalletRules
from provider.funds.watch import Funds, FundsWatch
from provider.store import Database, open_database
from provider.store.money import earned_between
from provider.units import Coin
from tests.fakes.bus import FakeBus
from tests.fakes.chain import FakeChain
from tests.fakes.clock import FakeClock
from tests.provider.market.world import make_spec

US, OWNER, DAY = "akash1us", "akash1owner", 86400.0
L1, L2 = LeaseId(OWNER, 1, 1, 1, US), LeaseId(OWNER, 2, 1, 1, US)


class World:
    def __init__(self, database: Database) -> None:
        self.chain, self.clock, self.bus, self.database = FakeChain(height=100), FakeClock(), FakeBus(), database
        self.rules = FundsRules(interval_s=600, period_s=DAY, threshold=Decimal(0))
        self.engaged = 0

    def lease(self, lease: LeaseId, *, funds: int, rate: int = 10) -> None:
        price = Price("uact", Decimal(rate))
        self.chain.orders[lease.order] = Order(lease.order, OrderState.ACTIVE, make_spec(), 1)
        self.chain.bid_states[lease] = Bid(lease, BidState.ACTIVE, price, 1)
        self.chain.lease_states[lease] = Lease(lease, LeaseState.ACTIVE, price, 1)
        self.chain.payments[lease] = Payment(lease, EscrowState.OPEN, price, Decimal(0), Decimal(0), Decimal(0))
        self.chain.accounts[lease.deployment] = Escrow(
            lease.deployment, EscrowState.OPEN, self.chain.height, {"uact": Decimal(funds)}, (price,)
        )

    def watch(self) -> FundsWatch:
        wallet = WalletRules(Coin("uakt", Decimal("0.025")), 1.5, Coin("uakt", Decimal(500_000)), 1_000_000)
        parts = Funds(
            provider=US,
            chain=self.chain,
            bus=self.bus,
            clock=self.clock,
            database=self.database,
            rules=self.rules,
            wallet=wallet,
            engaged=lambda: self.engaged,
        )
        return FundsWatch(parts)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[FundsWatch]:
        watch = self.watch()
        task = asyncio.create_task(watch.run())
        await self.settle()
        try:
            yield watch
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def blocks(self, count: int) -> None:
        for _ in range(count):
            await self.chain.push()
            self.bus.publish("chain.block", self.chain.blocks[-1])
            await self.settle()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.settle()

    async def settle(self) -> None:
        """Until the loop has waited for its time for a while: the store works in threads of its own."""
        quiet = 0
        async with asyncio.timeout(20):
            while quiet < 5:
                await self.clock.settle()
                await asyncio.sleep(0.003)
                quiet = quiet + 1 if self.clock.sleepers else 0

    async def earned(self) -> dict[date, Decimal]:
        today = datetime.fromtimestamp(self.clock.now(), UTC).date()
        found: dict[date, Decimal] = {}
        for item in await earned_between(self.database, date(2023, 1, 1), today):
            found[item.day] = found.get(item.day, Decimal(0)) + item.amount
        return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    yield World(database)
    await database.close()


async def test_a_lease_whose_money_ends_is_settled_in_that_very_block_and_the_chain_closes_it(world: World) -> None:
    world.lease(L1, funds=50)
    async with world.running():
        await world.blocks(4)
        assert world.chain.sent_kinds() == []
        await world.blocks(1)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]
        assert world.chain.lease_states[L1].state is LeaseState.CLOSED
        await world.blocks(3)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]
    assert sum((await world.earned()).values()) == 50


async def test_every_lease_is_collected_once_a_period_and_a_restart_does_not_begin_it_anew(world: World) -> None:
    world.lease(L1, funds=10**9)
    async with world.running():
        await world.blocks(10)
        await world.advance(DAY - 10)
        assert not world.chain.sent
    async with world.running():
        assert not world.chain.sent
        await world.advance(20)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]
        await world.advance(DAY / 2)
    async with world.running():
        await world.advance(DAY / 2 - 100)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


async def test_a_threshold_collects_as_soon_as_it_is_reached_at_a_look(world: World) -> None:
    world.rules = FundsRules(600, 0, Decimal(500))
    world.lease(L1, funds=10**9)
    world.lease(L2, funds=10**9, rate=1)
    async with world.running():
        await world.blocks(50)
        await world.advance(601)
    assert [message.id.dseq for message in world.chain.sent] == [1]  # type: ignore[attr-defined]


async def test_a_refused_withdrawal_is_looked_into_and_not_repeated_at_once(world: World) -> None:
    world.lease(L1, funds=0)
    real = world.chain.lease_states[L1]

    def refuse(name: str) -> None:
        if name == "broadcast":
            world.chain.lease_states[L1] = Lease(L1, LeaseState.CLOSED, real.price, 1, 100)

    world.chain.before = refuse
    async with world.running():
        assert world.bus.on(LEASE_CHANGED) == [L1]
        await world.blocks(5)
        await world.advance(3000)
        assert world.chain.calls.count("broadcast") == 1


async def test_a_node_that_is_gone_or_catching_up_is_asked_again_and_nothing_is_sent(world: World) -> None:
    world.lease(L1, funds=0)

    def gone(name: str) -> None:
        raise ChainError("http://node", "connection refused")

    world.chain.before = gone
    async with world.running():
        world.chain.before = lambda name: None
        world.chain.catching_up = True
        await world.advance(61)
        assert not world.chain.sent
        world.chain.catching_up = False
        await world.advance(61)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


async def test_what_a_lease_earned_is_known_by_day_also_when_it_ended_while_we_were_down(world: World) -> None:
    world.lease(L1, funds=10**6)
    async with world.running():
        await world.blocks(10)
        await world.advance(601)
    assert sum((await world.earned()).values()) == 100
    world.chain.payments[L1] = Payment(
        L1, EscrowState.CLOSED, Price("uact", Decimal(10)), Decimal(0), Decimal(0), Decimal(260)
    )
    world.chain.lease_states[L1] = Lease(L1, LeaseState.CLOSED, Price("uact", Decimal(10)), 1, 120)
    await world.clock.advance(2 * DAY)
    async with world.running():
        pass
    days = await world.earned()
    assert sum(days.values()) == 260
    assert len(days) == 3
    async with world.running():
        assert sum((await world.earned()).values()) == 260


async def test_wallet_and_escrow_are_there_for_whoever_asks_later(world: World) -> None:
    world.lease(L1, funds=1000)
    world.chain.wallet = {"uakt": 400_000}
    async with world.running(), world.bus.subscribe(FUNDS_WALLET, FUNDS_ESCROW) as retained:
        values = [await asyncio.wait_for(anext(aiter(retained)), 1) for _ in range(2)]
    wallet = next(value for value in values if isinstance(value, Wallet))
    assert wallet.level is WalletLevel.STOP
    assert not wallet.bids
    assert any(isinstance(value, dict) and L1 in value for value in values)


async def test_a_store_that_fails_keeps_no_money_from_being_collected(world: World) -> None:
    world.lease(L1, funds=0)
    await world.database.close()
    broken = World(Database(world.database.engine))
    broken.chain = world.chain
    async with world.database.engine.begin() as connection:
        await connection.exec_driver_sql("DROP TABLE lease_money")
    async with broken.running():
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]
