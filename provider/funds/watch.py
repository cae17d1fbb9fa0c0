"""The funds loop: one look over all leases settles what is empty, collects what is due, and notes what was earned.

A block whose height the first account does not survive, a lease that begins or ends, and the time all cause a look;
events only say when, the chain's state says what (docs/architecture.md §2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from lease.ids import LeaseId
from provider.bus import CHAIN_BLOCK, FUNDS_ESCROW, FUNDS_WALLET, LEASE_CHANGED, Overflow
from provider.chain import events
from provider.chain.messages import withdraw_lease
from provider.chain.model import Block, LeaseState
from provider.errors import ChainError, StoreError, TxRefused
from provider.funds.escrow import LeaseFunds, lease_funds
from provider.funds.ledger import Money
from provider.funds.plan import FundsRules, NextLook, Why, Withdrawal, next_look, withdrawals
from provider.funds.wallet import Wallet, WalletLevel, WalletRules, judge_wallet
from provider.observe.metrics import WALLET, WITHDRAWALS
from provider.protocols import Bus, Chain, Clock
from provider.store import Database

__all__ = ["Funds", "FundsWatch"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 60.0
_EARNING = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
_OURS = frozenset({events.LEASE_CREATED, events.LEASE_CLOSED})


@dataclass(frozen=True, slots=True)
class Funds:
    """What the loop works with. `engaged`: how many leases and open bids we have, for the wallet's reserve."""

    provider: str
    chain: Chain
    bus: Bus
    clock: Clock
    database: Database
    rules: FundsRules
    wallet: WalletRules
    engaged: Callable[[], int]


@dataclass(slots=True)
class FundsWatch:
    """`run` for ever; `look` once. `wallet` is the last verdict, None before the first look."""

    funds: Funds
    wallet: Wallet | None = None
    _money: Money = field(init=False)
    _due: NextLook = field(init=False)
    _again: asyncio.Event = field(default_factory=asyncio.Event)
    _sending: set[LeaseId] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._money = Money(self.funds.database)
        self._due = NextLook(None, 0.0)

    async def run(self) -> None:
        async with self.funds.bus.subscribe(CHAIN_BLOCK) as blocks, asyncio.TaskGroup() as group:
            group.create_task(self._listen(blocks), name="funds blocks")
            while True:
                await self._look_or_wait(group.create_task)
                await self._until_due()

    def paused(self) -> str:
        """Why no bid may be made now; empty when bids may, also before the first look."""
        return "" if self.wallet is None or self.wallet.bids else self.wallet.told

    async def look(self) -> Sequence[Withdrawal]:
        """Read all, remember, publish; what should be withdrawn now. Raises `ChainError`."""
        funds = self.funds
        head = await funds.chain.head()
        if head.catching_up:
            raise ChainError(head.chain_id, f"the node is catching up, at height {head.height}: its balances are old")
        paid = await funds.chain.lease_payments(provider=funds.provider, states=_EARNING)
        escrows = await funds.chain.escrows({item.lease.id.deployment for item in paid})
        seen = [
            lease_funds(item.payment, escrows.get(item.lease.id.deployment), height=head.height)
            for item in paid
            if item.payment is not None
        ]
        await self._remember(seen)
        await self._judge_wallet()
        funds.bus.publish(FUNDS_ESCROW, {item.payment.lease: item for item in seen}, retain=True)
        now = funds.clock.now()
        self._due = next_look(seen, self._money.withdrawn, now=now, rules=funds.rules)
        due = withdrawals(seen, self._money.withdrawn, now=now, rules=funds.rules)
        return [item for item in due if item.lease not in self._sending]

    async def withdraw(self, item: Withdrawal) -> None:
        """Send one, and remember how it went. A refusal is for the lease loop to look into: often it has ended."""
        funds, lease = self.funds, item.lease
        self._sending.add(lease)
        try:
            result = await funds.chain.broadcast([withdraw_lease(lease)])
        except TxRefused as refusal:
            await self._tried(item, failed=str(refusal))
            funds.bus.publish(LEASE_CHANGED, lease)
        except ChainError as problem:
            await self._tried(item, failed=str(problem))
        else:
            _log.info("funds.withdrawn", lease=str(lease), why=item.why, unpaid=str(item.unpaid), tx=result.hash)
            await self._tried(item)
            self._again.set()
        finally:
            self._sending.discard(lease)

    async def _look_or_wait(self, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._again.clear()
        try:
            for item in await self.look():
                spawn(self.withdraw(item))
        except ChainError as problem:
            _log.warning("funds.look_failed", problem=str(problem), again_in_seconds=_RETRY_SECONDS)
            self._due = NextLook(None, self.funds.clock.now() + _RETRY_SECONDS)

    async def _until_due(self) -> None:
        clock = self.funds.clock
        timer = asyncio.ensure_future(clock.sleep(max(self._due.at - clock.now(), 1.0)))
        waiter = asyncio.ensure_future(self._again.wait())
        try:
            await asyncio.wait((timer, waiter), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            waiter.cancel()

    async def _listen(self, blocks: Any) -> None:
        async for value in blocks:
            if isinstance(value, Overflow) or (isinstance(value, Block) and self._concerns(value)):
                self._again.set()

    def _concerns(self, block: Block) -> bool:
        if block.missed_from or (self._due.height is not None and block.height >= self._due.height):
            return True
        found = (events.lease_id(event) for event in block.events if event.type in _OURS)
        return any(lease is not None and lease.provider == self.funds.provider for lease in found)

    async def _remember(self, seen: Sequence[LeaseFunds]) -> None:
        """A store that fails costs figures, not money: the next look adds what this one could not."""
        try:
            await self._money.load()
            ended = [await self._last(lease) for lease in self._money.missing(seen)]
            last = [item for item in ended if item is not None]
            await self._money.note(seen, ended=last, now=self.funds.clock.now())
        except StoreError as problem:
            _log.warning("funds.not_kept", problem=str(problem))
            self._money.begin(seen, now=self.funds.clock.now())

    async def _last(self, lease: LeaseId) -> LeaseFunds | None:
        """The final figures of a lease that is no longer listed; None when it still runs after all."""
        found = await self.funds.chain.lease_payment(lease)
        if found is None or found.payment is None or not found.lease.state.ended:
            return None
        return lease_funds(found.payment, None, height=found.lease.closed_on)

    async def _judge_wallet(self) -> None:
        funds, before = self.funds, self.wallet
        balances = await funds.chain.balances(funds.provider)
        self.wallet = judge_wallet(balances, engaged=funds.engaged(), rules=funds.wallet)
        for denom, amount in balances.items():
            WALLET.labels(denom).set(amount)
        funds.bus.publish(FUNDS_WALLET, self.wallet, retain=True)
        if self.wallet.level is not (before.level if before else WalletLevel.ENOUGH):
            tell = _log.info if self.wallet.level is WalletLevel.ENOUGH else _log.warning
            tell("funds.wallet", level=self.wallet.level, problem=self.wallet.told)

    async def _tried(self, item: Withdrawal, *, failed: str = "") -> None:
        now, lease = self.funds.clock.now(), item.lease
        WITHDRAWALS.labels(item.why, "fail" if failed else "success").inc()
        memory = self._money.withdrawn[lease]
        if failed:
            _log.warning("funds.not_withdrawn", lease=str(lease), why=item.why, problem=failed)
            self._money.withdrawn[lease] = replace(memory, tried=now, failures=memory.failures + 1)
        else:
            self._money.withdrawn[lease] = replace(memory, since=now, tried=now, failures=0)
        if item.why is Why.OUT_OF_FUNDS:
            self._due = NextLook(self._due.height, min(self._due.at, self._money.withdrawn[lease].rests_until()))
