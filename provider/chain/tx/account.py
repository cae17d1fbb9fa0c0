"""The account that signs: its number, and the next sequence as we know it. Only the chain's word changes them."""

from __future__ import annotations

from typing import Any

import structlog
from cosmos.auth.v1beta1 import auth_pb2
from cosmos.auth.v1beta1 import query_pb2 as auth_query
from cosmos.bank.v1beta1 import query_pb2 as bank_query
from google.protobuf.message import DecodeError

from provider.chain.rpc import QueryError
from provider.chain.tx.node import Node
from provider.chain.tx.refusals import expected_sequence
from provider.errors import ChainError, TxRefused

__all__ = ["Account", "balance_of"]

_log = structlog.get_logger(__name__)
_NOT_FOUND = 22


class Account:
    """`careful`: somebody else sends with this key, so one transaction at a time until one of ours is in a block."""

    def __init__(self, node: Node, address: str, *, denom: str) -> None:
        self._node = node
        self.address = address
        self._denom = denom
        self.number = 0
        self.sequence: int | None = None
        self.careful = False
        self.shared = 0
        """How often another sender with this key was noticed."""
        self._ours = False
        """Whether `sequence` follows from a transaction of ours that the node took."""

    async def ready(self) -> int:
        """The next sequence; asked of the node when not known. Raises `ChainError` for an account that is not there."""
        if self.sequence is None:
            self.number, self.sequence = await self._read()
            self._ours = False
        return self.sequence

    def took(self) -> None:
        """The node took a transaction with this sequence."""
        self.sequence = (self.sequence or 0) + 1
        self._ours = True

    def forget(self) -> None:
        """It is not known whether the node has the last one; ask before the next."""
        self.sequence = None

    async def repair(self, refusal: TxRefused, *, unknown: bool) -> None:
        """The node names the sequence it expects, mempool included; the account's state knows only committed ones.

        `unknown`: something of ours may be in the mempool without our counting it.
        """
        expected, ours, followed = expected_sequence(refusal), self.sequence, self._ours
        self.forget()
        await self.ready()
        if expected is not None:
            self.sequence = expected
        _log.warning("chain.sequence_mismatch", ours=ours, node_expects=expected, node=self._node.address)
        if followed and not unknown and expected is not None and ours is not None and expected > ours:
            self._tell_shared(ours, expected)

    def _tell_shared(self, ours: int, expected: int) -> None:
        self.careful = True
        self.shared += 1
        _log.error(
            "chain.key_is_shared",
            account=self.address,
            problem=f"somebody else sent {expected - ours} transactions with the provider's key",
            remedy="run one provider a key; a second daemon or wallet that signs with it makes both lose turns",
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
        base = auth_pb2.BaseAccount()
        packed = _parsed(self._node, auth_query.QueryAccountResponse, answer.value).account
        if not packed.Unpack(base):
            text = f"account {self.address} is a {packed.type_url}; only a plain account can send"
            raise ChainError(self._node.address, text)
        return base.account_number, base.sequence


async def balance_of(node: Node, address: str, denom: str) -> int:
    """What the account can spend of `denom`. Raises `ChainError`."""
    request = bank_query.QueryBalanceRequest(address=address, denom=denom)
    answer = await node.query("/cosmos.bank.v1beta1.Query/Balance", request.SerializeToString())
    amount = _parsed(node, bank_query.QueryBalanceResponse, answer.value).balance.amount or "0"
    if not (amount.isascii() and amount.isdigit() and len(amount) <= 80):
        raise ChainError(node.address, f"balance of {address}: {amount[:60]!r} is not an amount")
    return int(amount)


def _parsed(node: Node, reply: type[Any], raw: bytes) -> Any:
    try:
        return reply.FromString(raw)
    except DecodeError as error:
        raise ChainError(node.address, f"{reply.DESCRIPTOR.name}: the answer cannot be read: {error}") from error
