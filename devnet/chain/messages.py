"""The messages of transactions: their signers, their checks before a block, and their handlers in a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from akash.audit.v1 import msg_pb2 as audit_pb
from akash.bme.v1 import msg_pb2 as bme_pb
from akash.cert.v1 import msg_pb2 as cert
from akash.deployment.v1beta4 import msg_pb2 as dm
from akash.escrow.v1 import msg_pb2 as em
from akash.market.v1beta5 import msg_pb2 as mm
from akash.oracle.v2 import msg_pb2 as oracle_pb
from akash.provider.v1beta4 import msg_pb2 as pm
from cosmos.bank.v1beta1.tx_pb2 import MsgSend
from cosmos.feegrant.v1beta1 import tx_pb2 as feegrant

from devnet.chain import (
    audit,
    bank,
    bme,
    certificates,
    deployment,
    deposits,
    endings,
    feegrants,
    market,
    oracle,
    provider,
)
from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.wire import Message

__all__ = ["MESSAGES", "Row", "signer_of"]

Handler: TypeAlias = Callable[[Context, Message], Message | None]
"""Handles a message; returns the response in the transaction's data, None for an empty one."""
_UNKNOWN = Kind("sdk", 6, "unknown request")


@dataclass(frozen=True, slots=True)
class Row:
    """`signer` is the path of the field that holds the signer's address."""

    kind: type[Message]
    signer: str
    check: Callable[[Message], None]
    handle: Handler


def _pass(msg: Message) -> None:
    """Accept every message before a block."""


def _not_served(ctx: Context, msg: Message) -> None:
    raise _UNKNOWN(f"no message handler found for {msg.DESCRIPTOR.full_name!r} in this simulation")


_ROWS = (
    Row(MsgSend, "from_address", _pass, bank.handle_send),
    Row(pm.MsgCreateProvider, "owner", provider.check_provider, provider.handle_create),
    Row(pm.MsgUpdateProvider, "owner", provider.check_provider, provider.handle_update),
    Row(pm.MsgDeleteProvider, "owner", _pass, provider.handle_delete),
    Row(dm.MsgCreateDeployment, "id.owner", deployment.check_create, deployment.handle_create),
    Row(dm.MsgUpdateDeployment, "id.owner", deployment.check_update, deployment.handle_update),
    Row(dm.MsgCloseDeployment, "id.owner", deployment.check_close, deployment.handle_close),
    Row(dm.MsgCloseGroup, "id.owner", deployment.check_group_id, deployment.handle_close_group),
    Row(dm.MsgPauseGroup, "id.owner", deployment.check_group_id, deployment.handle_pause_group),
    Row(dm.MsgStartGroup, "id.owner", deployment.check_group_id, deployment.handle_start_group),
    Row(em.MsgAccountDeposit, "signer", deposits.check_top_up, deposits.handle_top_up),
    Row(mm.MsgCreateBid, "id.provider", market.check_create_bid, market.handle_create_bid),
    Row(mm.MsgCloseBid, "id.provider", endings.check_close_bid, endings.handle_close_bid),
    Row(mm.MsgCreateLease, "bid_id.owner", market.check_create_lease, market.handle_create_lease),
    Row(mm.MsgCloseLease, "id.owner", endings.check_lease_id, endings.handle_close_lease),
    Row(mm.MsgWithdrawLease, "id.provider", endings.check_lease_id, endings.handle_withdraw),
    Row(mm.MsgLeaseStartReclaim, "id.provider", endings.check_close_bid, endings.handle_start_reclaim),
    Row(audit_pb.MsgSignProviderAttributes, "auditor", audit.check_signature, audit.handle_sign),
    Row(audit_pb.MsgDeleteProviderAttributes, "auditor", audit.check_signature, audit.handle_delete),
    Row(cert.MsgCreateCertificate, "owner", certificates.check_create, certificates.handle_create),
    Row(cert.MsgRevokeCertificate, "id.owner", certificates.check_revoke, certificates.handle_revoke),
    Row(feegrant.MsgGrantAllowance, "granter", feegrants.check_grant, feegrants.handle_grant),
    Row(feegrant.MsgRevokeAllowance, "granter", feegrants.check_revoke, feegrants.handle_revoke),
    Row(oracle_pb.MsgAddPriceEntry, "signer", _pass, oracle.handle_add_price),
    Row(bme_pb.MsgBurnACT, "owner", _pass, bme.handle_burn),
    Row(bme_pb.MsgMintACT, "owner", _pass, bme.handle_mint),
    # Not simulated: signature, sequence and fee are handled, then the message is refused.
    Row(bme_pb.MsgBurnMint, "owner", _pass, _not_served),
)

MESSAGES: dict[str, Row] = {f"/{row.kind.DESCRIPTOR.full_name}": row for row in _ROWS}
"""The messages by type URL."""


def signer_of(msg: Message) -> str:
    """The address that must sign a message."""
    value = msg
    for name in MESSAGES[f"/{msg.DESCRIPTOR.full_name}"].signer.split("."):
        value = getattr(value, name)
    return str(value)
