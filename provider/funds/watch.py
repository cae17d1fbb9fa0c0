"""The funds loop: a check of all leases settles empty accounts, withdraws what is due, and stores what was earned.

A check is caused by the height at which the first account is empty, by a lease that begins or ends in one of the
provider's deployments, and by time. Events only say when to check; the chain's state says what to do
(docs/architecture.md §2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from lease.ids import DeploymentId, LeaseId
from provider.bus import CHAIN_BLOCK, Overflow
from provider.chain import events
from provider.errors import ChainError, StoreError
from provider.funds.collection import WithdrawalSender
from provider.funds.escrow import LeaseFunds, lease_funds
from provider.funds.exhaustion import Exhaustion
from provider.funds.ledger import FundsLedger
from provider.funds.plan import FundsRules, NextCheck, Withdrawal, next_check, withdrawals
from provider.funds.wallet import Wallet, WalletLevel, WalletRules, judge_wallet
from provider.metrics import WALLET
from provider.protocols import Bus, Chain, Clock
from provider.protocols.bus import Topic
from provider.protocols.chain import Block, LeaseState
from provider.store import Database
from provider.waits import wait_for_event

__all__ = ["FUNDS_ESCROW", "FUNDS_WALLET", "Funds", "FundsWatch"]

FUNDS_WALLET: Topic[Wallet | None] = Topic("funds.wallet")
"""The last verdict on the wallet, retained."""
FUNDS_ESCROW: Topic[Mapping[LeaseId, LeaseFunds]] = Topic("funds.escrow")
"""The money of every lease, retained."""

_log = structlog.get_logger(__name__)
_RETRY_S = 60.0
_PAUSE_CHECKS = 4.0
"""The pause after a check is at least so many times its duration, however many blocks cause one."""
_LONGEST_PAUSE_S = 60.0
_SHORT_AGAIN_S = 1.0
_EARNING = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
_LEASES = frozenset({events.LEASE_CREATED, events.LEASE_CLOSED})
_BIDS = frozenset({events.BID_CREATED, events.BID_CLOSED})


@dataclass(frozen=True, slots=True)
class Funds:
    """What the loop works with. `engaged`: returns the number of leases and open bids, for the wallet's reserve."""

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
    """`run` runs for ever, `check` once. `wallet` is the last verdict, None before the first check."""

    funds: Funds
    wallet: Wallet | None = None
    _ledger: FundsLedger = field(init=False)
    _sender: WithdrawalSender = field(init=False)
    _due: NextCheck = field(init=False)
    _judged_at: float = 0.0
    _problem: str = ""
    _wallet_problem: str = ""
    _deployments: frozenset[DeploymentId] = frozenset()
    _exhaustion: Exhaustion = field(default_factory=Exhaustion)
    _again: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        funds = self.funds
        self._ledger = FundsLedger(funds.database)
        self._sender = WithdrawalSender(funds.chain, funds.bus, funds.clock, self._ledger, self._again.set)
        self._due = NextCheck(None, 0.0)

    async def run(self) -> None:
        clock = self.funds.clock
        async with self.funds.bus.subscribe(CHAIN_BLOCK) as blocks, asyncio.TaskGroup() as group:
            group.create_task(self._listen(blocks), name="funds blocks")
            while True:
                began = clock.monotonic()
                await self._check_or_retry(group.create_task)
                await clock.sleep(min(_PAUSE_CHECKS * (clock.monotonic() - began), _LONGEST_PAUSE_S))
                await self._until_due()

    @property
    def known(self) -> Collection[LeaseId]:
        """The leases that were seen and have not ended."""
        return self._ledger.withdrawn.keys()

    def ran_out(self, lease: LeaseId, height: int) -> bool:
        """Whether the escrow of `lease` had run out by `height`, as far as this process has followed it."""
        return self._exhaustion.ran_out(lease, height, now=self.funds.clock.monotonic())

    def begin_anew(self) -> None:
        """The store is an empty one: check now, and write all of it."""
        self._ledger.begin_anew()
        self._again.set()

    def problem(self) -> str:
        """Why the last check, or the last reading of the wallet, failed; empty when both succeeded."""
        return self._problem or self._wallet_problem

    def paused(self) -> str:
        """Why no bids are made now; empty while bids are made, also before the first check."""
        return "" if self.wallet is None or self.wallet.bids else self.wallet.problem

    async def check(self) -> Sequence[Withdrawal]:
        """Read all leases, store and publish their money. Returns what is to be withdrawn now. Raises `ChainError`."""
        funds = self.funds
        seen = await self._read()
        self._exhaustion.observe(seen, now=funds.clock.monotonic())
        await self._remember(seen)
        funds.bus.publish(FUNDS_ESCROW, {item.payment.lease: item for item in seen}, retain=True)
        await self._judge_wallet_or_not()
        now = funds.clock.now()
        self._due = next_check(seen, self._ledger.withdrawn, now=now, rules=funds.rules)
        due = withdrawals(seen, self._ledger.withdrawn, now=now, rules=funds.rules)
        return [item for item in due if item.lease not in self._sender.under_way]

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

    async def _check_or_retry(self, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._again.clear()
        try:
            for item in await self.check():
                self._sender.under_way.add(item.lease)
                spawn(self._sender.withdraw(item))
        except ChainError as problem:
            self._check_failed(str(problem))
            _log.warning("funds.check_failed", problem=str(problem), again_in_seconds=_RETRY_S)
        except Exception:
            # a defect in the arithmetic must not end the daemon, which cares for every lease
            self._check_failed("a defect of this provider, see the log")
            _log.exception("funds.check_failed", again_in_seconds=_RETRY_S)
        else:
            self._problem = ""

    def _check_failed(self, problem: str) -> None:
        self._problem = f"the money of the leases cannot be checked: {problem}"
        self._due = NextCheck(None, self.funds.clock.now() + _RETRY_S)

    async def _until_due(self) -> None:
        clock = self.funds.clock
        await wait_for_event(self._again, clock=clock, seconds=max(self._due.at - clock.now(), 1.0))

    async def _listen(self, blocks: Any) -> None:
        async for value in blocks:
            if isinstance(value, Overflow) or (isinstance(value, Block) and self._concerns(value)):
                self._again.set()
            elif isinstance(value, Block) and self._moves_the_wallet(value):
                await self._judge_wallet_or_not()

    def _moves_the_wallet(self, block: Block) -> bool:
        """Own bids take and give back deposits. A wallet that is short may be filled at any block, but blocks that are
        caught up with come faster than that.
        """
        if any(lease.provider == self.funds.provider for lease in _of(block, _BIDS)):
            return True
        short = self.wallet is not None and self.wallet.level is not WalletLevel.ENOUGH
        return short and self.funds.clock.monotonic() - self._judged_at >= _SHORT_AGAIN_S

    def _concerns(self, block: Block) -> bool:
        """Another provider's lease of the same deployment is paid from the same money."""
        if block.missed_from or (self._due.height is not None and block.height >= self._due.height):
            return True
        provider, known = self.funds.provider, self._deployments
        return any(lease.provider == provider or lease.deployment in known for lease in _of(block, _LEASES))

    async def _remember(self, seen: Sequence[LeaseFunds]) -> None:
        """A store that fails costs no money: the next check adds what this one could not store."""
        now = self.funds.clock.now()
        try:
            await self._ledger.load()
            ended = [await self._last(lease) for lease in self._ledger.missing(seen, now=now)]
            await self._ledger.note(seen, ended=[item for item in ended if item is not None], now=now)
        except StoreError as problem:
            _log.warning("funds.not_kept", problem=str(problem))
        except Exception:
            _log.exception("funds.not_kept")  # a defect must not keep money from being withdrawn
        finally:
            self._ledger.begin(seen, now=now)

    async def _last(self, lease: LeaseId) -> LeaseFunds | None:
        """The final amounts of a lease that is no longer listed; None when it still runs, or when the node gives no
        answer: one lease must not keep the money of all others from being withdrawn.
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
        """At each check, and between two checks, as bids take deposits. An address that the node does not know must not
        keep money from being withdrawn.
        """
        try:
            await self._judge_wallet()
        except ChainError as problem:
            self._wallet_problem = f"the wallet cannot be read: {problem}"
            _log.warning("funds.wallet_unknown", problem=str(problem))
        else:
            self._wallet_problem = ""

    async def _judge_wallet(self) -> None:
        """Only the denoms that matter are queried: anybody can send thousands of others to the account."""
        funds, before, rules = self.funds, self.wallet, self.funds.wallet
        balances = await funds.chain.balances(funds.provider, denoms=rules.denoms)
        granted: Mapping[str, int] | None = None
        if rules.granter:
            granted = await funds.chain.balances(rules.granter, denoms={rules.gas_price.denom})
        self.wallet = judge_wallet(balances, engaged=funds.engaged(), rules=rules, granted=granted)
        self._judged_at = funds.clock.monotonic()
        for denom in rules.denoms:
            WALLET.labels(denom).set(balances.get(denom, 0))
        funds.bus.publish(FUNDS_WALLET, self.wallet, retain=True)
        if self.wallet.level is not (before.level if before else WalletLevel.ENOUGH):
            log = _log.info if self.wallet.level is WalletLevel.ENOUGH else _log.warning
            log("funds.wallet", level=self.wallet.level, problem=self.wallet.problem)
            if self.wallet.bids and self._ledger.payable():
                self._again.set()


def _of(block: Block, kinds: frozenset[str]) -> Sequence[LeaseId]:
    found = (events.lease_id(event) for event in block.events if event.type in kinds)
    return [lease for lease in found if lease is not None]
