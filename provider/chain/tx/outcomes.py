"""The outcome of a transaction, delivered to every intent in it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from provider.chain.tx.inclusion import Included
from provider.chain.tx.intents import Intent
from provider.chain.tx.journal import Fate
from provider.chain.tx.pending_transactions import PendingTransaction
from provider.chain.tx.refusals import failing_message, out_of_gas, wrong_sequence
from provider.errors import NotSent, TxRefused
from provider.protocols.chain import TxResult

__all__ = ["deliver_outcome"]

_log = structlog.get_logger(__name__)
_MORE_GAS = 2.0
_PANIC = 111222
_MAX_RETURNS = 40
"""As many as a batch may have members that fail one after another."""

Requeue = Callable[[Intent], None]


def deliver_outcome(pending: PendingTransaction, included: Included | None, *, address: str, requeue: Requeue) -> Fate:
    """Finish the intents of a transaction that ended, or `requeue` those whose own fault the failure was not.

    `included` None: the transaction is in no block. A transaction whose sequence was used up before its turn did
    nothing and cost nothing, although it is in the block.
    """
    if included is None:
        _lapse(pending, address)
        return Fate.LAPSED
    if included.code == 0:
        _succeed(pending, included)
        return Fate.DONE
    refusal = TxRefused(address, codespace=included.codespace, code=included.code, log=included.log)
    if wrong_sequence(refusal):
        for intent in pending.intents:
            _return(intent, refusal, requeue)
        return Fate.LAPSED
    _log.warning("chain.transaction_failed", hash=pending.tx.hash, height=included.height, problem=included.log[:300])
    _fail(pending, refusal, requeue)
    return Fate.FAILED


def _lapse(pending: PendingTransaction, address: str) -> None:
    _log.warning("chain.transaction_lapsed", hash=pending.tx.hash, timeout_height=pending.tx.timeout_height)
    text = f"transaction {pending.tx.hash} is in no block up to its last height {pending.tx.timeout_height}"
    for intent in pending.intents:
        intent.finish(NotSent(address, f"{text}; it may be sent again"))


def _return(intent: Intent, refusal: TxRefused, requeue: Requeue) -> None:
    """Requeue an intent of which nothing took effect, through no fault of its own; a limited number of times."""
    intent.returns += 1
    if intent.returns > _MAX_RETURNS or not intent.messages:
        intent.finish(refusal)
    else:
        requeue(intent)


def _succeed(pending: PendingTransaction, included: Included) -> None:
    count = len(pending.intents)
    result = TxResult(
        hash=pending.tx.hash,
        height=included.height,
        gas_used=-(-included.gas_used // count),
        fee=f"{-(-pending.tx.fee // count)}{pending.tx.denom}",
    )
    for intent in pending.intents:
        intent.finish(result)


def _fail(pending: PendingTransaction, refusal: TxRefused, requeue: Requeue) -> None:
    """Out of gas: each intent is sent once more with twice the gas. The refusal names a message: its intent alone
    fails. A panic in a shared transaction: each intent gets a transaction of its own.
    """
    culprit = failing_message(refusal)
    for index, intent in enumerate(pending.intents):
        if not intent.messages:
            intent.finish(refusal)  # sent by an earlier process: there is nothing to send again
        elif out_of_gas(refusal) and intent.gas_factor < _MORE_GAS:
            intent.gas_factor = _MORE_GAS
            requeue(intent)
        elif len(pending.intents) > 1 and culprit is not None and culprit != index:
            _return(intent, refusal, requeue)
        elif len(pending.intents) > 1 and culprit is None and refusal.code == _PANIC:
            intent.alone = True
            requeue(intent)
        else:
            intent.finish(refusal)
