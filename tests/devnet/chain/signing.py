"""Signed transactions, made from test keys without a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
from akash.base.attributes.v1.types_pb2 import Attribute
from akash.base.deposit.v1.types_pb2 import Deposit, Source
from akash.deployment.v1beta4 import msg_pb2 as dm
from akash.market.v1beta5 import msg_pb2 as mm
from akash.provider.v1beta4 import msg_pb2 as pm
from cosmos.bank.v1beta1.tx_pb2 import MsgSend
from cosmos.base.v1beta1.coin_pb2 import Coin
from cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmos.tx.signing.v1beta1.signing_pb2 import SIGN_MODE_DIRECT
from cosmos.tx.v1beta1.tx_pb2 import AuthInfo, Fee, ModeInfo, SignDoc, SignerInfo, TxBody, TxRaw
from google.protobuf.any_pb2 import Any as Packed

from devnet.chain import derive_key
from devnet.chain.bank import account
from devnet.chain.node import Node
from devnet.chain.wire import dec_wire

TENANT, PROVIDER = derive_key("tenant"), derive_key("provider")


def signed(node: Node, messages: Sequence[Any], *, role: str, gas: int = 2_000_000, ahead: int = 0) -> bytes:
    """A transaction that the node takes now; `ahead` counts transactions of the same key that wait already."""
    key = derive_key(role)
    row = account(node.query().state, key.address)
    assert row is not None
    body = TxBody(
        messages=[Packed(type_url=f"/{m.DESCRIPTOR.full_name}", value=m.SerializeToString()) for m in messages]
    )
    public = Packed(type_url="/cosmos.crypto.secp256k1.PubKey", value=PubKey(key=key.public).SerializeToString())
    mode = ModeInfo(single=ModeInfo.Single(mode=SIGN_MODE_DIRECT))
    signer = SignerInfo(public_key=public, mode_info=mode, sequence=row.sequence + ahead)
    fee = Fee(amount=[Coin(denom="uakt", amount=str(gas * 25 // 1000))], gas_limit=gas)
    info = AuthInfo(signer_infos=[signer], fee=fee)
    document = SignDoc(
        body_bytes=body.SerializeToString(),
        auth_info_bytes=info.SerializeToString(),
        chain_id=node.genesis.chain_id,
        account_number=row.number,
    )
    signature = key.private.sign(document.SerializeToString(), deterministic=True)
    raw = TxRaw(body_bytes=document.body_bytes, auth_info_bytes=document.auth_info_bytes, signatures=[signature])
    return bytes(raw.SerializeToString())


def create_provider() -> Any:
    attributes = [Attribute(key="region", value="us-west")]
    return pm.MsgCreateProvider(owner=PROVIDER.address, host_uri="https://p.example:8443", attributes=attributes)


def create_deployment(dseq: int, *, price: int = 100, deposit: int = 5_000_000) -> Any:
    msg = dm.MsgCreateDeployment(hash=bytes(32))
    msg.id.owner, msg.id.dseq = TENANT.address, dseq
    unit = msg.groups.add(name="west").resources.add(count=1)
    unit.price.denom, unit.price.amount = "uact", dec_wire(price)
    unit.resource.id = 1
    unit.resource.cpu.units.val = b"100"
    unit.resource.memory.quantity.val = str(128 << 20).encode()
    unit.resource.storage.add(name="default").quantity.val = str(512 << 20).encode()
    unit.resource.gpu.units.val = b"0"
    unit.resource.endpoints.add()
    msg.deposit.CopyFrom(_deposit("uact", deposit))
    return msg


def _deposit(denom: str, amount: int) -> Any:
    return Deposit(amount=Coin(denom=denom, amount=str(amount)), sources=[Source.balance])


def create_bid(dseq: int, *, price: int = 50, oseq: int = 1) -> Any:
    msg = mm.MsgCreateBid(deposit=_deposit("uakt", 500_000))
    _identify(msg.id, dseq, oseq)
    msg.price.denom, msg.price.amount = "uact", dec_wire(price)
    return msg


def create_lease(dseq: int, *, oseq: int = 1) -> Any:
    msg = mm.MsgCreateLease()
    _identify(msg.bid_id, dseq, oseq)
    return msg


def withdraw(dseq: int) -> Any:
    msg = mm.MsgWithdrawLease()
    _identify(msg.id, dseq, 1)
    return msg


def close_lease(dseq: int) -> Any:
    msg = mm.MsgCloseLease()
    _identify(msg.id, dseq, 1)
    return msg


def close_bid(dseq: int, *, oseq: int = 1) -> Any:
    msg = mm.MsgCloseBid(reason="lease_closed_reason_unspecified")
    _identify(msg.id, dseq, oseq)
    return msg


def close_deployment(dseq: int) -> Any:
    msg = dm.MsgCloseDeployment()
    msg.id.owner, msg.id.dseq = TENANT.address, dseq
    return msg


def _identify(message: Any, dseq: int, oseq: int) -> None:
    message.owner, message.dseq, message.gseq, message.oseq = TENANT.address, dseq, 1, oseq
    message.provider = PROVIDER.address


def send(amount: int, *, role: str = "tenant", to: str = "provider") -> Any:
    coins = [Coin(denom="uakt", amount=str(amount))]
    return MsgSend(from_address=derive_key(role).address, to_address=derive_key(to).address, amount=coins)
