"""`akash.deployment.v1beta4`: deployments and their groups (chain.md §4.3)."""

from __future__ import annotations

from akash.deployment.v1.event_pb2 import (
    EventDeploymentCreated,
    EventDeploymentUpdated,
    EventGroupClosed,
    EventGroupPaused,
    EventGroupStarted,
)
from akash.deployment.v1.types_pb2 import Deployment
from akash.deployment.v1beta4.types_pb2 import Group

from devnet.chain import deposits, endings, escrow, ids, market, reclamation
from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.specs import check_group_spec
from devnet.chain.wire import Message, changed, fill

__all__ = [
    "check_close",
    "check_create",
    "check_group_id",
    "check_update",
    "handle_close",
    "handle_close_group",
    "handle_create",
    "handle_pause_group",
    "handle_start_group",
    "handle_update",
]

_EXISTS = Kind("deployment", 3, "Deployment exists")
_NOT_FOUND = Kind("deployment", 4, "Deployment not found")
_CLOSED = Kind("deployment", 5, "Deployment closed")
_GROUPS = Kind("deployment", 7, "Invalid groups")
_EMPTY_HASH = Kind("deployment", 9, "Invalid: empty hash")
_HASH = Kind("deployment", 10, "Invalid: deployment hash")
_GROUP_NOT_FOUND = Kind("deployment", 14, "Group not found")
_GROUP_CLOSED = Kind("deployment", 15, "Group already closed")
_GROUP_OPEN = Kind("deployment", 16, "Group open")
_GROUP_PAUSED = Kind("deployment", 17, "Group paused")
_DEPOSIT = Kind("deployment", 20, "Deposit invalid")
_PAYABLE = "uact"
_HASH_BYTES = 32


def check_create(msg: Message) -> None:
    """Check `MsgCreateDeployment` before a block."""
    ids.check_deployment(msg.id)
    if not msg.groups:
        raise _GROUPS()
    _check_hash(msg.hash)
    reclamation.check_wish(msg)
    deposits.check_deposit_sources(msg.deposit)
    for group in msg.groups:
        check_group_spec(group)
        price = group.resources[0].price.denom
        if msg.deposit.amount.denom != price:
            raise _DEPOSIT(f"Mismatched denominations ({msg.deposit.amount.denom} != {price})")


def _check_hash(value: bytes) -> None:
    if not value:
        raise _EMPTY_HASH()
    if len(value) != _HASH_BYTES:
        raise _HASH()


def check_update(msg: Message) -> None:
    ids.check_deployment(msg.id)
    _check_hash(msg.hash)


def check_close(msg: Message) -> None:
    ids.check_deployment(msg.id)


def check_group_id(msg: Message) -> None:
    ids.check_group(msg.id)


def handle_create(ctx: Context, msg: Message) -> None:
    """Create the deployment with an open order for each group; the deposit goes to escrow last."""
    if ctx.get("deployment", *ids.key(msg.id)) is not None:
        raise _EXISTS()
    _check_deposit(ctx, msg.deposit)
    found = deposits.authorize(ctx, msg.deposit, msg.id.owner)
    _check_group_names(msg)
    reclamation.check_wish_bounds(ctx, msg)
    deployment = Deployment(id=msg.id, state=Deployment.State.active, hash=msg.hash, created_at=ctx.height)
    if msg.HasField("reclamation"):
        deployment.reclamation.CopyFrom(msg.reclamation)
    market.put(ctx, "deployment", fill(deployment))
    ctx.emit(EventDeploymentCreated(id=msg.id, hash=msg.hash))
    for gseq, spec in enumerate(msg.groups, start=1):
        _open_group(ctx, ids.group_id(msg.id, gseq), spec)
    xid = ids.deployment_xid(msg.id)
    escrow.open_account(ctx, escrow.DEPLOYMENT, xid, owner=msg.id.owner, deposits=found)


def _open_group(ctx: Context, group_id: Message, spec: Message) -> None:
    group = fill(Group(id=group_id, state=Group.State.open, group_spec=spec, created_at=ctx.height))
    market.put(ctx, "group", group)
    market.open_order(ctx, group)


def _check_deposit(ctx: Context, deposit: Message) -> None:
    """Check the deposit: it must be in uact; uakt can only be added later (chain.md §4.3)."""
    denom, amount = deposit.amount.denom, deposit.amount.amount
    least = ctx.genesis.min_deposits.get(denom)
    if denom != _PAYABLE or least is None:
        raise _DEPOSIT()
    if not amount.isdigit() or int(amount) < least:
        raise _DEPOSIT(f"Deposit too low - {amount} < {least}{denom}")


def _check_group_names(msg: Message) -> None:
    seen: set[str] = set()
    for group in msg.groups:
        if group.name in seen:
            raise _GROUPS(f"duplicate deployment group name {group.name}: duplicate group name")
        seen.add(group.name)


def _active(ctx: Context, deployment_id: Message) -> Message:
    row = ctx.get("deployment", *ids.key(deployment_id))
    if row is None:
        raise _NOT_FOUND()
    if row.state != Deployment.State.active:
        raise _CLOSED()
    return row


def handle_update(ctx: Context, msg: Message) -> None:
    """Store a new manifest hash; the groups never change."""
    row = _active(ctx, msg.id)
    if row.hash == msg.hash:
        raise _HASH()
    market.put(ctx, "deployment", changed(row, hash=msg.hash))
    ctx.emit(EventDeploymentUpdated(id=msg.id, hash=msg.hash))


def handle_close(ctx: Context, msg: Message) -> None:
    row = _active(ctx, msg.id)
    overdrawn = escrow.close_account(ctx, escrow.DEPLOYMENT, ids.deployment_xid(row.id))
    endings.close_deployment(ctx, row.id, overdrawn=overdrawn)


def _group(ctx: Context, group_id: Message) -> Message:
    row = ctx.get("group", *ids.key(group_id))
    if row is None:
        raise _GROUP_NOT_FOUND()
    if row.state == Group.State.closed:
        raise _GROUP_CLOSED()
    return row


def handle_close_group(ctx: Context, msg: Message) -> None:
    row = _group(ctx, msg.id)
    market.put(ctx, "group", changed(row, state=Group.State.closed))
    ctx.emit(EventGroupClosed(id=row.id))
    endings.end_group_orders(ctx, row)


def handle_pause_group(ctx: Context, msg: Message) -> None:
    row = _group(ctx, msg.id)
    if row.state == Group.State.paused:
        raise _GROUP_PAUSED()
    market.put(ctx, "group", changed(row, state=Group.State.paused))
    ctx.emit(EventGroupPaused(id=row.id))
    endings.end_group_orders(ctx, row)


def handle_start_group(ctx: Context, msg: Message) -> None:
    """Start the group, even if its deployment ran out of funds (recorded correction 11)."""
    row = _group(ctx, msg.id)
    if row.state == Group.State.open:
        raise _GROUP_OPEN()
    started = changed(row, state=Group.State.open)
    market.put(ctx, "group", started)
    ctx.emit(EventGroupStarted(id=row.id))
    market.open_order(ctx, started)
