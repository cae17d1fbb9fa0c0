"""Refusals that an operator can put right, in words that say how."""

from __future__ import annotations

from collections.abc import Iterator

from provider.chain.tx.account import balance_of
from provider.chain.tx.intents import Intent
from provider.chain.tx.node import Node
from provider.chain.tx.policy import Policy
from provider.chain.tx.refusals import failing_message, lacks_funds, too_low_fee
from provider.errors import CannotPay, ChainError, TxRefused

__all__ = ["clear_refusal"]


async def clear_refusal(node: Node, refusal: TxRefused, intent: Intent, *, policy: Policy, signer: str) -> TxRefused:
    """The refusal, with the balance and the remedy where money is what is missing."""
    if too_low_fee(refusal):
        remedy = f"the node asks more than AP_GAS_PRICES={policy.fees.price} for gas; raise it or use another node"
        return CannotPay(refusal, remedy)
    if "fee-grant" in refusal.log or "fee allowance" in refusal.log or "fee limit exceeded" in refusal.log:
        text = f"AP_FEE_GRANTER={policy.granter} does not (or no longer) pay fees for {signer}"
        return CannotPay(refusal, f"{text}; have it grant an allowance, or unset it")
    if not lacks_funds(refusal):
        return refusal
    fee_is_short = failing_message(refusal) is None
    payer = policy.granter or signer if fee_is_short else signer
    denoms = {policy.fees.price.denom} if fee_is_short else {policy.fees.price.denom, *_deposits(intent)}
    has = await _balances(node, payer, sorted(denoms))
    what = "the fee" if fee_is_short else "the deposit"
    return CannotPay(refusal, f"account {payer} has {has} and cannot pay {what}; send it {' or '.join(sorted(denoms))}")


def _deposits(intent: Intent) -> Iterator[str]:
    for message in intent.messages:
        if "deposit" in message.DESCRIPTOR.fields_by_name:
            yield message.deposit.amount.denom  # type: ignore[attr-defined]


async def _balances(node: Node, address: str, denoms: list[str]) -> str:
    try:
        return " and ".join([f"{await balance_of(node, address, denom)}{denom}" for denom in denoms])
    except ChainError:
        return "an amount that the node does not tell"
