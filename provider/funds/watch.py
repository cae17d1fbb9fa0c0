"""The funds loop: one look over all leases settles what is empty, collects what is due, and notes what was earned.

A block whose height the first account does not survive, a lease of one of our deployments that begins or ends, and the
time all cause a look; events only say when, the chain's state says what (docs/architecture.md §2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from lease.ids import DeploymentId, LeaseId
from provider.bus import CHAIN_BLOCK, FUNDS_ESCROW, FUNDS_WALLET, Overflow
from provider.chain import events
from provider.errors import ChainError, StoreError
from provider.funds.collection import Collecting
from provider.funds.escrow import LeaseFunds, lease_funds
from provider.funds.ledger import Money
from provider.funds.plan import FundsRules, NextLook, Withdrawal, next_look, withdrawals
from provider.funds.wallet import Wallet, WalletLevel, WalletRules, judge_wallet
from provider.metrics import WALLET
from provider.protocols import Bus, Chain, Clock
from provider.protocols.chain import Block, LeaseState
from provider.store import Database
from provider.waits import wait_for_event

__all__ = ["Funds", "FundsWatch"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 60.0
_PAUSE_LOOKS = 4.0
"""After a look so many times its own length passes before the next, however many blocks ask for one."""
_LONGEST_PAUSE_SECONDS = 60.0
_EARNING = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
_LEASES = frozenset({events.LEASE_CREATED, events.LEASE_CLOSED})
_BIDS = frozenset({events.BID_CREATED, events.BID_CLOSED})


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
    _collecting: Collecting = field(init=False)
    _due: NextLook = field(init=False)
    _deployments: frozenset[DeploymentId] = frozenset()
    _again: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        funds = self.funds
        self._money = Money(funds.database)
        self._collecting = Collecting(funds.chain, funds.bus, funds.clock, self._money, self._again.set)
        self._due = NextLook(None, 0.0)

    async def run(self) -> None:
        clock = self.funds.clock
        async with self.funds.bus.subscribe(CHAIN_BLOCK) as blocks, asyncio.TaskGroup() as group:
            group.create_task(self._listen(blocks), name="funds blocks")
            while True:
                began = clock.monotonic()
                await self._look_or_wait(group.create_task)
                await clock.sleep(min(_PAUSE_LOOKS * (clock.monotonic() - began), _LONGEST_PAUSE_SECONDS))
                await self._until_due()

    @property
    def known(self) -> Collection[LeaseId]:
        """Leases that were seen and have not ended."""
        return self._money.withdrawn.keys()

    def paused(self) -> str:
        """Why no bid may be made now; empty when bids may, also before the first look."""
        return "" if self.wallet is None or self.wallet.bids else self.wallet.told

    async def look(self) -> Sequence[Withdrawal]:
        """Read all, remember, publish; what should be withdrawn now. Raises `ChainError`."""
        funds = self.funds
        seen = await self._read()
        await self._remember(seen)
        funds.bus.publish(FUNDS_ESCROW, {item.payment.lease: item for item in seen}, retain=True)
        await self._judge_wallet_or_not()
        now = funds.clock.now()
        self._due = next_look(seen, self._money.withdrawn, now=now, rules=funds.rules)
        due = withdrawals(seen, self._money.withdrawn, now=now, rules=funds.rules)
        return [item for item in due if item.lease not in self._collecting.under_way]

    async def _read(self) -> Sequence[LeaseFunds]:
        """The lists are read one after another, so a lease that changes its state meanwhile may be in both of them."""
        funds = self.funds
        head = await funds.chain.head()
        if head.catching_up:
            raise ChainError(head.chain_id, f"the node is catching up, at height {head.height}: its balances are old")
        listed = await funds.chain.lease_payments(provider=funds.provider, states=_EARNING)
        paid = {item.lease.id: item for item in listed}
        self._deployments = frozenset(lease.deployment for lease in paid)
        escrows = await funds.chain.escrows(self._deployments)
        return [
            lease_funds(item.payment, escrows.get(lease.deployment), height=head.height, began=item.lease.created_at)
            for lease, item in paid.items()
            if item.payment is not None
        ]

    async def _look_or_wait(self, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._again.clear()
        try:
            for item in await self.look():
                self._collecting.under_way.add(item.lease)
                spawn(self._collecting.withdraw(item))
        except ChainError as problem:
            _log.warning("funds.look_failed", problem=str(problem), again_in_seconds=_RETRY_SECONDS)
            self._due = NextLook(None, self.funds.clock.now() + _RETRY_SECONDS)
        except Exception:
            # a defect of ours in the figures must not end the daemon and with it every lease's care
            _log.exception("funds.look_failed", again_in_seconds=_RETRY_SECONDS)
            self._due = NextLook(None, self.funds.clock.now() + _RETRY_SECONDS)

    async def _until_due(self) -> None:
        clock = self.funds.clock
        await wait_for_event(self._again, clock=clock, seconds=max(self._due.at - clock.now(), 1.0))

    async def _listen(self, blocks: Any) -> None:
        async for value in blocks:
            if isinstance(value, Overflow) or (isinstance(value, Block) and self._concerns(value)):
                self._again.set()
            elif isinstance(value, Block) and any(lease.provider == self.funds.provider for lease in _of(value, _BIDS)):
                await self._judge_wallet_or_not()

    def _concerns(self, block: Block) -> bool:
        """Another provider's lease of the same deployment draws on the same money."""
        if block.missed_from or (self._due.height is not None and block.height >= self._due.height):
            return True
        ours, known = self.funds.provider, self._deployments
        return any(lease.provider == ours or lease.deployment in known for lease in _of(block, _LEASES))

    async def _remember(self, seen: Sequence[LeaseFunds]) -> None:
        """A store that fails costs figures, not money: the next look adds what this one could not."""
        now = self.funds.clock.now()
        try:
            await self._money.load()
            ended = [await self._last(lease) for lease in self._money.missing(seen, now=now)]
            await self._money.note(seen, ended=[item for item in ended if item is not None], now=now)
        except StoreError as problem:
            _log.warning("funds.not_kept", problem=str(problem))
        except Exception:
            _log.exception("funds.not_kept")  # a defect of ours, which must not keep money from being collected
        finally:
            self._money.begin(seen, now=now)

    async def _last(self, lease: LeaseId) -> LeaseFunds | None:
        """The final figures of a lease that is no longer listed; None when it still runs after all, or when the node
        does not tell: one lease must not keep all others from being collected.
        """
        try:
            found = await self.funds.chain.lease_payment(lease)
        except ChainError as problem:
            _log.warning("funds.last_figures_unknown", lease=str(lease), problem=str(problem))
            return None
        if found is None or found.payment is None or not found.lease.state.ended:
            return None
        return lease_funds(found.payment, None, height=found.lease.closed_on)

    async def _judge_wallet_or_not(self) -> None:
        """At each look, and between two of them as bids take their deposits. An address the node knows nothing of must
        not keep money from being collected.
        """
        try:
            await self._judge_wallet()
        except ChainError as problem:
            _log.warning("funds.wallet_unknown", problem=str(problem))

    async def _judge_wallet(self) -> None:
        """Of the denoms that matter alone: anybody may send us thousands of others."""
        funds, before, rules = self.funds, self.wallet, self.funds.wallet
        balances = await funds.chain.balances(funds.provider, denoms=rules.denoms)
        granted: Mapping[str, int] | None = None
        if rules.granter:
            granted = await funds.chain.balances(rules.granter, denoms={rules.gas_price.denom})
        self.wallet = judge_wallet(balances, engaged=funds.engaged(), rules=rules, granted=granted)
        for denom in rules.denoms:
            WALLET.labels(denom).set(balances.get(denom, 0))
        funds.bus.publish(FUNDS_WALLET, self.wallet, retain=True)
        if self.wallet.level is not (before.level if before else WalletLevel.ENOUGH):
            tell = _log.info if self.wallet.level is WalletLevel.ENOUGH else _log.warning
            tell("funds.wallet", level=self.wallet.level, problem=self.wallet.told)


def _of(block: Block, kinds: frozenset[str]) -> Sequence[LeaseId]:
    found = (events.lease_id(event) for event in block.events if event.type in kinds)
    return [lease for lease in found if lease is not None]
