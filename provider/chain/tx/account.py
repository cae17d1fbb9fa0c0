"""The account that signs: its number, its next sequence, and what the operator can do when it cannot pay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import structlog
from cosmos.auth.v1beta1 import query_pb2 as auth_query
from cosmos.bank.v1beta1 import query_pb2 as bank_query
from google.protobuf.message import DecodeError

from provider.chain.accounts import base_account
from provider.chain.connection import NodeClient
from provider.chain.rpc import QueryError
from provider.chain.tx.intents import Intent
from provider.chain.tx.policy import Policy
from provider.chain.tx.refusals import expected_sequence, failing_message, lacks_funds, too_low_fee
from provider.errors import CannotPay, ChainError, TxRefused

__all__ = ["SigningAccount", "with_remedy"]

_log = structlog.get_logger(__name__)
_NOT_FOUND = 22


class SigningAccount:
    """Number and next sequence of the account; only answers of the chain change them.

    `careful`: another sender uses this key, so one transaction is sent at a time until one of them is in a block.
    `shared`: how often another sender with this key was noticed.
    """

    def __init__(self, node: NodeClient, address: str, *, denom: str) -> None:
        self._node = node
        self.address = address
        self._denom = denom
        self.number = 0
        self.sequence: int | None = None
        self.careful = False
        self.shared = 0
        self._counted = False
        """Whether `sequence` follows from a transaction that this process sent and the node accepted."""

    async def ready(self) -> int:
        """The next sequence; read from the node when it is not known. Raises `ChainError` when there is no account."""
        if self.sequence is None:
            self.number, self.sequence = await self._read()
            self._counted = False
        return self.sequence

    def advance(self) -> None:
        """Count the sequence of a transaction that the node accepted."""
        self.sequence = (self.sequence or 0) + 1
        self._counted = True

    def forget(self) -> None:
        """Make the next `ready` read the sequence: it is not known whether the node has the last transaction."""
        self.sequence = None

    async def repair(self, refusal: TxRefused, *, unsure: bool) -> None:
        """Take over the sequence that the node expects; it counts the mempool, the account's state does not.

        `unsure`: the mempool may hold a transaction of this process that `sequence` does not count.
        """
        expected, own, counted = expected_sequence(refusal), self.sequence, self._counted
        self.forget()
        await self.ready()
        if expected is not None:
            self.sequence = expected
        _log.warning("chain.sequence_mismatch", own=own, node_expects=expected, node=self._node.address)
        if counted and not unsure and expected is not None and own is not None and expected > own:
            self._report_shared(own, expected)

    def _report_shared(self, own: int, expected: int) -> None:
        self.careful = True
        self.shared += 1
        _log.error(
            "chain.key_is_shared",
            account=self.address,
            problem=f"another program sent {expected - own} transactions with the provider's key",
            remedy="run one provider per key; a second daemon or wallet that signs with it makes both lose sequences",
        )

    async def _read(self) -> tuple[int, int]:
        request = auth_query.QueryAccountRequest(address=self.address)
        try:
            answer = await self._node.query("/cosmos.auth.v1beta1.Query/Account", request.SerializeToString())
        except QueryError as refusal:
            if refusal.code != _NOT_FOUND:
                raise
            text = f"account {self.address} does not exist; send it some {self._denom} first"
            raise ChainError(self._node.address, text) from refusal
        packed = _parsed(self._node, auth_query.QueryAccountResponse, answer.value).account
        base = base_account(packed)
        if base is None:
            text = f"account {self.address} is a {packed.type_url}, which holds no base account"
            raise ChainError(self._node.address, text)
        return base.account_number, base.sequence


async def with_remedy(
    refusal: TxRefused, intent: Intent, *, node: NodeClient, policy: Policy, signer: str
) -> TxRefused:
    """The refusal; as `CannotPay`, with the balance and what the operator can do, when money is what is missing."""
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
    """The denoms of the deposits that the messages make."""
    for message in intent.messages:
        if "deposit" in message.DESCRIPTOR.fields_by_name:
            yield message.deposit.amount.denom  # type: ignore[attr-defined]


async def _balances(node: NodeClient, address: str, denoms: list[str]) -> str:
    try:
        return " and ".join([f"{await _balance(node, address, denom)}{denom}" for denom in denoms])
    except ChainError:
        return "an unknown amount"


async def _balance(node: NodeClient, address: str, denom: str) -> int:
    """What the account can spend of `denom`. Raises `ChainError`."""
    request = bank_query.QueryBalanceRequest(address=address, denom=denom)
    answer = await node.query("/cosmos.bank.v1beta1.Query/Balance", request.SerializeToString())
    amount = _parsed(node, bank_query.QueryBalanceResponse, answer.value).balance.amount or "0"
    if not (amount.isascii() and amount.isdigit() and len(amount) <= 80):
        raise ChainError(node.address, f"balance of {address}: {amount[:60]!r} is not an amount")
    return int(amount)


def _parsed(node: NodeClient, reply: type[Any], raw: bytes) -> Any:
    try:
        return reply.FromString(raw)
    except DecodeError as error:
        raise ChainError(node.address, f"{reply.DESCRIPTOR.name}: the answer cannot be read: {error}") from error
