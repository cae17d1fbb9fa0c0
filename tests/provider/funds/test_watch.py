"""The funds loop over a scripted chain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lease.ids import LeaseId
from lease.resources import Price
from provider.bus import CHAIN_BLOCK, LEASE_CHANGED
from provider.chain import events
from provider.errors import CannotPay, ChainError, FeesHeldBack, TxRefused
from provider.funds.plan import FundsRules
from provider.funds.wallet import Wallet, WalletLevel, WalletRules
from provider.funds.watch import FUNDS_ESCROW, FUNDS_WALLET, Funds, FundsWatch
from provider.metrics import exposition
from provider.protocols.chain import (
    Bid,
    BidState,
    Escrow,
    EscrowState,
    Lease,
    LeasePayment,
    LeaseState,
    Order,
    OrderState,
    Payment,
)
from provider.store.money import earned_between, known_money
from provider.units import Coin
from tests.provider.market.world import make_spec
from tests.world.bus import FakeBus
from tests.world.chain import FakeChain, event_of
from tests.world.database import MemoryDatabase
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time

US, OWNER, DAY = "akash1us", "akash1owner", 86400.0
L1, L2 = LeaseId(OWNER, 1, 1, 1, US), LeaseId(OWNER, 2, 1, 1, US)


class World:
    def __init__(self, database: MemoryDatabase) -> None:
        self.chain, self.clock, self.bus, self.database = FakeChain(height=100), VirtualClock(), FakeBus(), database
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

    def empty_lease(self, lease: LeaseId) -> None:
        """One that cannot pay its very first block."""
        self.lease(lease, funds=0)
        self.chain.height += 1

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
            self.bus.publish(CHAIN_BLOCK, self.chain.blocks[-1])
            await self.settle()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.settle()

    async def settle(self) -> None:
        await self.clock.settle()

    async def earned(self) -> dict[date, Decimal]:
        today = datetime.fromtimestamp(self.clock.now(), UTC).date()
        found: dict[date, Decimal] = {}
        for item in await earned_between(self.database, date(2023, 1, 1), today):
            found[item.day] = found.get(item.day, Decimal(0)) + item.amount
        return found


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = MemoryDatabase(tmp_path / "x.db")
    yield World(database)
    await database.close()


async def test_a_lease_whose_money_ends_is_settled_in_that_very_block_and_the_chain_closes_it(world: World) -> None:
    world.lease(L1, funds=50)
    async with world.running():
        await world.blocks(5)
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
    world.empty_lease(L1)
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
    world.empty_lease(L1)

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
    world.empty_lease(L1)
    broken = World(world.database)
    broken.chain = world.chain
    world.database.execute("DROP TABLE lease_money")
    async with broken.running():
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


async def test_a_lease_that_ends_and_is_forgotten_while_its_withdrawal_is_on_its_way_kills_nothing(
    world: World,
) -> None:
    world.empty_lease(L1)
    world.chain.gate = asyncio.Event()
    async with world.running() as watch:
        assert world.chain.lease_states[L1].state is LeaseState.CLOSED
        await world.blocks(1)
        assert not watch.known
        world.chain.gate.set()
        await world.settle()
        world.chain.gate = None
        world.empty_lease(L2)
        await world.advance(601)
        assert [message.id.dseq for message in world.chain.sent] == [1, 2]  # type: ignore[attr-defined]


async def test_a_defect_in_one_withdrawal_stops_neither_the_others_nor_the_loop(world: World) -> None:
    world.empty_lease(L1)
    world.lease(L2, funds=0)
    world.chain.height += 1
    broken = iter([True])

    def fail(name: str) -> None:
        if name == "broadcast" and next(broken, False):
            raise KeyError("a defect")

    world.chain.before = fail
    async with world.running():
        assert [message.id.dseq for message in world.chain.sent] == [2]  # type: ignore[attr-defined]
        await world.advance(61)
        assert [message.id.dseq for message in world.chain.sent] == [2, 1]  # type: ignore[attr-defined]


async def test_a_defect_in_a_look_ends_nothing_and_it_looks_again(world: World) -> None:
    world.empty_lease(L1)
    world.chain.before = lambda name: {}[name] if name == "escrows" else None  # type: ignore[index]
    async with world.running():
        assert not world.chain.sent
        world.chain.before = lambda name: None
        await world.advance(61)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


async def test_one_lease_of_which_the_node_cannot_tell_keeps_no_other_from_being_collected(world: World) -> None:
    world.lease(L1, funds=10**6)
    async with world.running():
        pass
    del world.chain.lease_states[L1]
    world.empty_lease(L2)

    def fail(name: str) -> None:
        if name == "lease_payment":
            raise ChainError("http://node", "a panic in the query")

    world.chain.before = fail
    async with world.running():
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]
        asked = world.chain.calls.count("lease_payment")
        await world.blocks(3)
        assert world.chain.calls.count("lease_payment") == asked


async def test_an_account_paid_from_other_coins_is_settled_ever_more_rarely_through_one_of_its_leases(
    world: World,
) -> None:
    second = LeaseId(OWNER, 1, 2, 1, US)
    world.empty_lease(L1)
    world.lease(second, funds=0)
    world.chain.height += 1
    account, payments, leases = world.chain.accounts[L1.deployment], dict(world.chain.payments), {}
    leases.update(world.chain.lease_states)

    def stays_open(name: str) -> None:
        if name == "lease_payments":
            world.chain.accounts[L1.deployment] = account
            world.chain.payments.update(payments)
            world.chain.lease_states.update(leases)

    world.chain.before = stays_open
    async with world.running():
        assert len(world.chain.sent) == 1
        for rest, count in ((61, 2), (121, 3), (241, 4), (481, 5), (300, 5)):
            await world.advance(rest)
            assert len(world.chain.sent) == count
        await world.advance(DAY)
        assert len(world.chain.sent) < 5 + 26


async def test_fees_held_back_are_waited_for_and_then_the_lease_is_collected_at_once(world: World) -> None:
    world.empty_lease(L1)
    frees_at = world.clock.now() + 900

    def held(name: str) -> None:
        if name == "broadcast" and world.clock.now() < frees_at:
            raise FeesHeldBack("the budget", again_at=frees_at)

    world.chain.before = held
    async with world.running():
        await world.advance(600)
        await world.advance(290)
        assert world.chain.calls.count("broadcast") == 1
        assert not world.bus.on(LEASE_CHANGED)
        await world.advance(10)
        await world.advance(1)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


async def test_a_node_that_lags_and_tells_of_an_ended_lease_counts_its_earnings_once(world: World) -> None:
    world.lease(L1, funds=10**6)
    before = world.chain.lease_states[L1]
    async with world.running():
        await world.blocks(10)
        await world.advance(601)
        world.chain.payments[L1] = Payment(L1, EscrowState.CLOSED, before.price, Decimal(0), Decimal(0), Decimal(150))
        world.chain.lease_states[L1] = Lease(L1, LeaseState.CLOSED, before.price, 1, 120)
        await world.advance(601)
        assert sum((await world.earned()).values()) == 150
    for _ in range(2):
        world.chain.lease_states[L1] = before
        async with world.running() as watch:
            assert sum((await world.earned()).values()) == 150
            world.chain.lease_states[L1] = Lease(L1, LeaseState.CLOSED, before.price, 1, 120)
            await world.advance(601)
            assert sum((await world.earned()).values()) == 150
            assert not watch.known


async def test_a_lease_listed_twice_while_its_state_changes_is_one_lease(world: World) -> None:
    world.lease(L1, funds=10**6)
    real = world.chain.lease_payments

    async def twice(**filters: Any) -> Sequence[LeasePayment]:
        return [*await real(**filters), *await real(**filters)]

    world.chain.lease_payments = twice  # type: ignore[method-assign]
    async with world.running():
        await world.blocks(10)
        await world.advance(601)
    assert sum((await world.earned()).values()) == 100


@pytest.mark.parametrize(("rate", "past"), [(25, "250"), (1, "10")], ids=["dearer", "cheaper"])
async def test_a_chain_that_pays_in_another_coin_from_a_block_on_is_followed_without_an_event(
    world: World, rate: int, past: str
) -> None:
    """Earlier earnings are reported in the new coin too, and do not count again (field problem F11)."""
    for lease in (L1, L2):
        world.lease(lease, funds=10**6)
    async with world.running():
        await world.blocks(10)
        await world.advance(601)
        assert await earned_in(world) == {"uact": 200}
        price = Price("ucoin", Decimal(rate))
        for lease in (L1, L2):
            world.chain.payments[lease] = Payment(lease, EscrowState.OPEN, price, Decimal(past), Decimal(0), Decimal(0))
            world.chain.accounts[lease.deployment] = Escrow(
                lease.deployment, EscrowState.OPEN, world.chain.height, {"ucoin": Decimal(10**6)}, (price,)
            )
        await world.advance(601)
        await world.blocks(10)
        await world.advance(601)
        assert await earned_in(world) == {"uact": 200, "ucoin": 2 * 10 * rate}
    async with world.running():
        await world.advance(601)
        assert await earned_in(world) == {"uact": 200, "ucoin": 2 * 10 * rate}


async def earned_in(world: World) -> dict[str, Decimal]:
    """All that was ever earned, by denom."""
    found: dict[str, Decimal] = {}
    for item in await earned_between(world.database, date(2023, 1, 1), date(2030, 1, 1)):
        found[item.denom] = found.get(item.denom, Decimal(0)) + item.amount
    return found


async def test_another_providers_lease_of_our_deployment_is_noticed_since_it_draws_on_the_same_money(
    world: World,
) -> None:
    world.lease(L1, funds=1000)
    async with world.running():
        account = world.chain.accounts[L1.deployment]
        theirs = LeaseId(OWNER, 1, 2, 1, "akash1them")
        world.chain.accounts[L1.deployment] = replace(account, rates=(*account.rates, Price("uact", Decimal(90))))
        await world.chain.push(event_of(events.LEASE_CREATED, theirs))
        world.bus.publish(CHAIN_BLOCK, world.chain.blocks[-1])
        await world.settle()
        await world.blocks(9)
        assert not world.chain.sent
        await world.blocks(1)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


async def test_a_wallet_that_is_filled_again_is_seen_at_the_next_block(world: World) -> None:
    world.chain.wallet = {"uakt": 0}
    async with world.running() as watch:
        assert watch.paused()
        await world.advance(5)
        await world.blocks(1)
        assert watch.paused()
        world.chain.wallet = {"uakt": 10**9}
        await world.advance(5)
        await world.blocks(1)
        assert not watch.paused()
        asked = world.chain.calls.count("balances")
        await world.advance(5)
        await world.blocks(1)
        assert world.chain.calls.count("balances") == asked, "a wallet that has enough is not asked at each block"


async def test_blocks_that_are_caught_up_with_ask_for_an_empty_wallet_once(world: World) -> None:
    world.chain.wallet = {"uakt": 0}
    async with world.running():
        asked = world.chain.calls.count("balances")
        await world.advance(5)
        for _ in range(200):
            await world.chain.push()
            world.bus.publish(CHAIN_BLOCK, world.chain.blocks[-1])
        await world.settle()
        assert world.chain.calls.count("balances") == asked + 1


async def test_withdrawals_that_the_wallet_could_not_pay_are_sent_when_it_is_filled_again(world: World) -> None:
    world.empty_lease(L1)
    world.chain.wallet = {"uakt": 0}
    refusal = CannotPay(TxRefused("fake", codespace="sdk", code=5, log="insufficient funds"), "send it uakt")
    world.chain.before = lambda name: refuse(refusal) if name == "broadcast" else None
    async with world.running():
        assert world.chain.calls.count("broadcast") == 1
        world.chain.before = lambda name: None
        await world.advance(20)
        await world.blocks(1)
        assert world.chain.calls.count("broadcast") == 1
        world.chain.wallet = {"uakt": 10**9}
        await world.advance(20)
        await world.blocks(1)
        await world.advance(2)
        assert world.chain.sent_kinds() == ["MsgWithdrawLease"]


@pytest.mark.parametrize(
    ("call", "text"),
    [("lease_payments", "the money of the leases cannot be checked: "), ("balances", "the wallet cannot be read: ")],
)
async def test_a_check_that_fails_is_a_problem_until_one_succeeds(world: World, call: str, text: str) -> None:
    away = ChainError("http://node", "connection refused")
    world.chain.before = lambda name: refuse(away) if name == call else None
    async with world.running() as watch:
        assert watch.problem() == f"{text}{away}"
        world.chain.before = lambda name: None
        await world.advance(700)
        assert watch.problem() == ""


def refuse(error: Exception) -> None:
    raise error


async def test_deposits_of_our_bids_are_noticed_between_two_looks(world: World) -> None:
    async with world.running() as watch:
        assert not watch.paused()
        world.chain.wallet = {"uakt": 600_000}
        await world.chain.push(event_of(events.BID_CREATED, L1))
        world.bus.publish(CHAIN_BLOCK, world.chain.blocks[-1])
        await world.settle()
        assert "600000uakt" in watch.paused()
        assert world.chain.calls.count("lease_payments") == 1


async def test_where_a_granter_pays_the_fees_an_empty_wallet_of_our_own_stops_no_bid(world: World) -> None:
    wallet = replace(world.watch().funds.wallet, granter="akash1granter", deposit=Coin("uact", Decimal(5)))
    world.chain.wallet = {"uact": 5, "uakt": 10**7}
    watch = FundsWatch(replace(world.watch().funds, wallet=wallet))
    await watch.check()
    assert watch.wallet is not None
    assert watch.wallet.level is WalletLevel.ENOUGH


async def test_dust_of_a_thousand_denoms_makes_no_metrics_and_what_is_spent_up_reads_zero(world: World) -> None:
    world.chain.wallet = {f"ibc/{number:064X}": 1 for number in range(1000)}
    watch = world.watch()
    await watch.check()
    assert watch.wallet is not None
    assert watch.wallet.balances == {"uakt": 0}
    shown = exposition().decode()
    assert "ibc/" not in shown
    assert 'lessor_wallet{denom="uakt"} 0.0' in shown


async def test_ended_leases_are_forgotten_after_a_week_and_their_earnings_stay(world: World) -> None:
    world.empty_lease(L1)
    world.lease(L2, funds=10**9)
    world.chain.accounts[L1.deployment] = replace(world.chain.accounts[L1.deployment], funds={"uact": Decimal(7)})
    async with world.running():
        await world.blocks(1)
        assert set(await known_money(world.database)) == {L1, L2}
        await world.advance(6 * DAY)
        assert set(await known_money(world.database)) == {L1, L2}
        for seconds in (2 * DAY, 61, 601):
            await world.advance(seconds)
        assert set(await known_money(world.database)) == {L2}
    found = await earned_between(world.database, date(2023, 1, 1), date(2099, 1, 1))
    assert sum(item.amount for item in found if item.lease == L1) == 7


async def test_a_row_of_the_store_that_cannot_be_read_costs_that_row_alone(world: World) -> None:
    world.lease(L1, funds=10**6)
    world.lease(L2, funds=10**6)
    async with world.running():
        await world.blocks(10)
        await world.advance(601)
    world.database.execute("UPDATE lease_money SET earned = 'much' WHERE lease LIKE '%/1/1/1/%'")
    world.database.execute("UPDATE lease_money SET lease = 'x' WHERE lease LIKE '%/1/1/1/%'")
    assert set(await known_money(world.database)) == {L2}


async def test_an_empty_store_gets_living_leases_and_their_earnings_from_the_chain_and_nothing_twice(
    world: World,
) -> None:
    world.lease(L1, funds=10**9)
    async with world.running() as watch:
        await world.blocks(10)
        await world.advance(DAY)
        before = await world.earned()
        world.database.empty()
        watch.begin_anew()
        await world.advance(DAY / 100)
        assert set(await known_money(world.database)) == {L1}
        assert sum((await world.earned()).values()) >= sum(before.values()) > 0
        again = sum((await world.earned()).values())
        await world.advance(DAY / 100)
        assert 0 <= sum((await world.earned()).values()) - again < sum(before.values()) / 10
