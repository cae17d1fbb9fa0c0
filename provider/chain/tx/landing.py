"""A transaction's end, told to everyone who is in it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from provider.chain.tx.flights import Flight
from provider.chain.tx.inclusion import Included
from provider.chain.tx.intents import Intent
from provider.chain.tx.journal import Fate
from provider.chain.tx.refusals import failing_message, out_of_gas, wrong_sequence
from provider.errors import NotSent, TxRefused
from provider.protocols.chain import TxResult

__all__ = ["land"]

_log = structlog.get_logger(__name__)
_MORE_GAS = 2.0
_PANIC = 111222
_MOST_RETURNS = 40
"""As often as a batch may have members that fail one after another."""

Again = Callable[[Intent], None]


def land(flight: Flight, included: Included | None, *, address: str, again: Again) -> Fate:
    """Finish its intents, or give them to `again` where the failure was not their own. A transaction whose sequence
    was used up before its turn did nothing and cost nothing, although it stands in the block.
    """
    if included is None:
        _log.warning("chain.transaction_lapsed", hash=flight.tx.hash, timeout_height=flight.tx.timeout_height)
        text = f"transaction {flight.tx.hash} is in no block up to its last height {flight.tx.timeout_height}"
        for intent in flight.intents:
            intent.finish(NotSent(address, f"{text}; it may be sent again"))
        return Fate.LAPSED
    if included.code == 0:
        _succeed(flight, included)
        return Fate.DONE
    refusal = TxRefused(address, codespace=included.codespace, code=included.code, log=included.log)
    if wrong_sequence(refusal):
        for intent in flight.intents:
            _return(intent, refusal, again)
        return Fate.LAPSED
    _log.warning("chain.transaction_failed", hash=flight.tx.hash, height=included.height, problem=included.log[:300])
    _fail(flight, refusal, again)
    return Fate.FAILED


def _return(intent: Intent, refusal: TxRefused, again: Again) -> None:
    """Nothing of it happened, through no fault of its own; not for ever, though."""
    intent.returns += 1
    if intent.returns > _MOST_RETURNS or not intent.messages:
        intent.finish(refusal)
    else:
        again(intent)


def _succeed(flight: Flight, included: Included) -> None:
    count = len(flight.intents)
    result = TxResult(
        hash=flight.tx.hash,
        height=included.height,
        gas_used=-(-included.gas_used // count),
        fee=f"{-(-flight.tx.fee // count)}{flight.tx.denom}",
    )
    for intent in flight.intents:
        intent.finish(result)


def _fail(flight: Flight, refusal: TxRefused, again: Again) -> None:
    """Out of gas: once more with twice the gas. A message is named: its owner alone. A panic in company: each alone."""
    culprit = failing_message(refusal)
    for index, intent in enumerate(flight.intents):
        if not intent.messages:
            intent.finish(refusal)  # of a process before us: nothing to send again
        elif out_of_gas(refusal) and intent.gas_factor < _MORE_GAS:
            intent.gas_factor = _MORE_GAS
            again(intent)
        elif len(flight.intents) > 1 and culprit is not None and culprit != index:
            _return(intent, refusal, again)
        elif len(flight.intents) > 1 and culprit is None and refusal.code == _PANIC:
            intent.alone = True
            again(intent)
        else:
            intent.finish(refusal)
