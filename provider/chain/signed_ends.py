"""Which account ended a lease, or announced its end, with a transaction that it signed: what no node can make up.

The node gives the block; the signature, over the transaction and this chain's id, is checked here with the key whose
address is the lease's owner or provider. So the node can hide such a transaction and not invent one.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from akash.deployment.v1beta4 import msg_pb2 as deployment_msg
from akash.market.v1beta5 import msg_pb2 as market_msg
from cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmos.tx.signing.v1beta1.signing_pb2 import SIGN_MODE_DIRECT
from cosmos.tx.v1beta1.tx_pb2 import AuthInfo, SignDoc, TxBody, TxRaw
from google.protobuf.message import DecodeError

from lease.ids import LeaseId
from provider.chain import codec, queries
from provider.chain.rpc import RpcClient
from provider.chain.signatures import address_of, verify_signature
from provider.errors import ChainError
from provider.protocols.chain import Lease

__all__ = ["SignedEnds"]

_KEPT_BLOCKS = 4
"""Leases that end together end in one block, which is read once."""
_KEPT_ACCOUNTS = 1000
_AccountOf: TypeAlias = Callable[[Any, LeaseId], str]


class SignedEnds:
    """Reads the blocks in which leases ended, or in which their end was announced."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc
        self._blocks: dict[int, tuple[bytes, ...]] = {}
        self._numbers: dict[str, int] = {}
        self._turn = asyncio.Lock()

    async def signer(self, lease: Lease) -> str:
        """The owner or the provider of the lease, if that account signed a transaction in block `closed_on` that ends
        it; empty when there is none, also for signatures other than SIGN_MODE_DIRECT of one key. Raises `ChainError`.
        """
        return await self._signer(lease.id, lease.closed_on, _ends)

    async def notice_signed(self, lease: Lease) -> bool:
        """Whether the provider signed a transaction in block `reclaim_started` that announces the reclamation of the
        lease. Raises `ChainError`.
        """
        return bool(await self._signer(lease.id, lease.reclaim_started, _announces))

    async def _signer(self, lease: LeaseId, height: int, account_of: _AccountOf) -> str:
        if height <= 0:
            return ""
        if not self._rpc.chain_id:
            await self._rpc.head()
        for raw in await self._transactions(height):
            if lease.owner.encode() not in raw:  # every message about a lease names its owner
                continue
            for account in _accounts(raw, lease, account_of):
                if await self._is_signed_by(account, raw):
                    return account
        return ""

    async def _is_signed_by(self, account: str, raw: bytes) -> bool:
        """Whether `account` signed the transaction. Its number is kept once a signature proves it: a node that gives a
        wrong number does no harm to what other nodes answer later.
        """
        number = self._numbers.get(account) or await self._number(account)
        if not _is_signed(raw, account, chain_id=self._rpc.chain_id, number=number):
            return False
        if account not in self._numbers and len(self._numbers) >= _KEPT_ACCOUNTS:
            self._numbers.clear()
        self._numbers[account] = number
        return True

    async def _transactions(self, height: int) -> tuple[bytes, ...]:
        async with self._turn:
            if height not in self._blocks:
                found = await self._read(height)
                while len(self._blocks) >= _KEPT_BLOCKS:
                    del self._blocks[next(iter(self._blocks))]
                self._blocks[height] = found
            return self._blocks[height]

    async def _read(self, height: int) -> tuple[bytes, ...]:
        block = await self._rpc.on_any_node(lambda node: node.call("block", {"height": str(height)}))
        try:
            return tuple(base64.b64decode(tx, validate=True) for tx in block["block"]["data"]["txs"] or ())
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            text = f"block {height}: the answer cannot be read: {error!r}"
            raise ChainError(self._rpc.address, text) from error

    async def _number(self, address: str) -> int:
        account = await queries.account(self._rpc, address)
        return account.number if account is not None else 0


def _accounts(raw: bytes, lease: LeaseId, account_of: _AccountOf) -> Iterator[str]:
    """The accounts whose signature would make this transaction count for the lease."""
    try:
        body = TxBody.FromString(TxRaw.FromString(raw).body_bytes)
        found = {account for packed in body.messages if (account := account_of(packed, lease))}
    except DecodeError:
        return
    yield from sorted(found)


def _announces(packed: Any, lease: LeaseId) -> str:
    """The account that must sign the message, if it announces the reclamation of the lease; else empty."""
    notice: Any = market_msg.MsgLeaseStartReclaim()
    return lease.provider if packed.Unpack(notice) and notice.id == codec.lease_id_to_pb(lease) else ""


def _ends(packed: Any, item: LeaseId) -> str:
    """The account that must sign the message, if it ends the lease; else empty."""
    by_owner: list[tuple[Any, Any]] = [
        (market_msg.MsgCloseLease(), codec.lease_id_to_pb(item)),
        (deployment_msg.MsgCloseDeployment(), codec.deployment_id_to_pb(item.deployment)),
        (deployment_msg.MsgCloseGroup(), codec.group_id_to_pb(item.group)),
    ]
    if item.oseq == 1:  # a paused group may be started again, with the next oseq
        by_owner.append((deployment_msg.MsgPauseGroup(), codec.group_id_to_pb(item.group)))
    for message, wanted in by_owner:
        if packed.Unpack(message):
            return item.owner if message.id == wanted else ""
    close: Any = market_msg.MsgCloseBid()
    return item.provider if packed.Unpack(close) and close.id == codec.bid_id_to_pb(item) else ""


def _is_signed(raw: bytes, account: str, *, chain_id: str, number: int) -> bool:
    """Whether `account` signed the transaction for this chain."""
    try:
        tx = TxRaw.FromString(raw)
        auth = AuthInfo.FromString(tx.auth_info_bytes)
    except DecodeError:
        return False
    document = SignDoc(
        body_bytes=tx.body_bytes, auth_info_bytes=tx.auth_info_bytes, chain_id=chain_id, account_number=number
    ).SerializeToString()
    return any(
        _key(info) and address_of(_key(info)) == account and verify_signature(document, _key(info), signature)
        for info, signature in zip(auth.signer_infos, tx.signatures, strict=False)
    )


def _key(info: Any) -> bytes:
    """The public key of a signer that signed alone in SIGN_MODE_DIRECT, else empty."""
    key = PubKey()
    if info.mode_info.single.mode != SIGN_MODE_DIRECT:
        return b""
    try:
        return bytes(key.key) if info.public_key.Unpack(key) and len(key.key) == 33 else b""
    except DecodeError:
        return b""
