"""The most that a transaction may cost, whatever gas the node says that it needs: a node that lies must not be able to
spend the provider's account.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from provider.chain.tx.intents import Intent
from provider.errors import FeesHeldBack
from provider.metrics import FEES_REFUSED
from provider.protocols.chain import Message

__all__ = ["gas_limit", "limit_problem", "refuse_all"]

_log = structlog.get_logger(__name__)
_AGAIN_S = 60.0
_FACTOR = 10
_USUAL_GAS = {
    "MsgCloseBid": 400_000,
    "MsgCreateBid": 125_000,
    "MsgCreateCertificate": 150_000,
    "MsgLeaseStartReclaim": 150_000,
    "MsgWithdrawLease": 400_000,
}
"""Gas of one message alone in its transaction (recordings/chain README §9 and "Measured"). A withdrawal or a close that
ends a deployment takes up to 397,000.
"""
_OTHER_GAS = 200_000
_PLAIN_BYTES = 1024
_GAS_OF_BYTE = 200
"""Gas of each byte of a message beyond the plain ones. The chain takes 10 for a byte of a transaction, 30 for a byte
that it stores and 3 for one that it reads (defaults of the Cosmos SDK), about 70 with the adjustment. A bid on an order
of a hundred units offers 20 kB of resources and more.
"""


def gas_limit(messages: Sequence[Message]) -> int:
    """Ten times the gas that these messages usually take, and more for the bytes of large ones."""
    return sum(map(_most_gas, messages))


def _most_gas(message: Message) -> int:
    usual = _USUAL_GAS.get(message.DESCRIPTOR.name, _OTHER_GAS)
    return _FACTOR * usual + _GAS_OF_BYTE * max(0, message.ByteSize() - _PLAIN_BYTES)


def limit_problem(messages: Sequence[Message], *, gas: int, fee: int, denom: str, fee_limit: int) -> str:
    """Why a transaction with this gas and fee is not signed; empty when it may be. `fee_limit` 0: no limit of fees."""
    most = gas_limit(messages)
    if gas > most:
        kinds = ", ".join(sorted({message.DESCRIPTOR.name for message in messages}))
        return (
            f"the node asks {gas} gas for {len(messages)} messages ({kinds}), more than ten times what they usually"
            f" take ({most}): nothing is signed; use another node (AP_NODE)"
        )
    if fee_limit and fee > fee_limit:
        return (
            f"the transaction would cost {fee}{denom}, more than {fee_limit}{denom} (LESSOR_FEE_LIMIT): nothing is "
            "signed; lower AP_GAS_PRICES or AP_GAS_ADJUSTMENT, or raise the limit"
        )
    return ""


def refuse_all(intents: Sequence[Intent], problem: str, *, now: float) -> None:
    """Finish the intents with the problem; they may be tried again a minute later. `now` is Unix seconds."""
    _log.error("chain.fee_refused", count=len(intents), problem=problem)
    FEES_REFUSED.inc()
    for intent in intents:
        intent.finish(FeesHeldBack(problem, again_at=now + _AGAIN_S))
