"""Sends withdrawals. Each is one request to the chain client, which gathers the messages of many deployments into few
transactions and keeps those of one deployment a block apart (docs/architecture.md §9, `Chain.broadcast`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from lease.ids import LeaseId
from provider.bus import LEASE_CHANGED
from provider.chain.messages import withdraw_lease
from provider.errors import CannotPay, ChainError, FeesHeldBack, TxRefused
from provider.funds.ledger import FundsLedger
from provider.funds.plan import Why, Withdrawal
from provider.metrics import WITHDRAWALS
from provider.protocols import Bus, Chain, Clock

__all__ = ["WithdrawalSender"]

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class WithdrawalSender:
    """`ended` is called when no withdrawal is pending any more, so that the leases are checked again."""

    chain: Chain
    bus: Bus
    clock: Clock
    ledger: FundsLedger
    ended: Callable[[], None]
    under_way: set[LeaseId] = field(default_factory=set)

    async def withdraw(self, item: Withdrawal) -> None:
        """Send one withdrawal and remember its outcome. A failure is logged, not raised, so that the other withdrawals
        and the daemon go on. After a refusal the lease loop checks the lease: often it has ended.
        """
        self.under_way.add(item.lease)
        try:
            result = await self.chain.broadcast([withdraw_lease(item.lease)])
        except ChainError as problem:
            self._failed(item, problem)
        except Exception as problem:
            _log.exception("funds.withdrawal_failed", lease=str(item.lease))
            self._failed(item, ChainError("", f"a defect of this provider: {problem!r}"))
        else:
            _log.info("funds.withdrawn", lease=str(item.lease), why=item.why, unpaid=str(item.unpaid), tx=result.hash)
            self._succeeded(item)
        finally:
            self.under_way.discard(item.lease)
            if not self.under_way:
                self.ended()

    def _succeeded(self, item: Withdrawal) -> None:
        WITHDRAWALS.labels(item.why, "success").inc()
        now = self.clock.now()
        if item.why is Why.OUT_OF_FUNDS:
            self.ledger.settled(item.lease.deployment, now=now)
        elif item.lease in self.ledger.withdrawn:
            self.ledger.withdrawn[item.lease] = self.ledger.withdrawn[item.lease].collected(now)

    def _failed(self, item: Withdrawal, problem: ChainError) -> None:
        """The lease may have ended, and be forgotten, while its withdrawal was pending."""
        held = isinstance(problem, FeesHeldBack)
        WITHDRAWALS.labels(item.why, "held back" if held else "fail").inc()
        if not held:  # the chain client logs these, once for all
            _log.warning("funds.not_withdrawn", lease=str(item.lease), why=item.why, problem=str(problem))
        if item.lease in self.ledger.withdrawn:
            memory = self.ledger.withdrawn[item.lease]
            self.ledger.withdrawn[item.lease] = memory.failed(problem, self.clock.now())
        if isinstance(problem, TxRefused) and not isinstance(problem, CannotPay):
            self.bus.publish(LEASE_CHANGED, item.lease)
