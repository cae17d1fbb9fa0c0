"""The ends of bids, leases, orders, groups and deployments, with the records that end together (chain.md §3).

Events have the order in which the node emits them, with the returns of deposits and payments in between.
"""

from __future__ import annotations

from akash.deployment.v1.event_pb2 import EventDeploymentClosed, EventGroupClosed, EventGroupPaused
from akash.deployment.v1.types_pb2 import Deployment
from akash.deployment.v1beta4.types_pb2 import Group
from akash.market.v1.event_pb2 import EventBidClosed, EventLeaseClosed, EventOrderClosed
from akash.market.v1.types_pb2 import Lease, LeaseClosedReason
from akash.market.v1beta5.types_pb2 import Bid, Order

from devnet.chain import escrow, ids, market, reclamation
from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.wire import Message, changed

__all__ = [
    "check_close_bid",
    "check_lease_id",
    "close_deployment",
    "end_group_orders",
    "handle_close_bid",
    "handle_close_lease",
    "handle_start_reclaim",
    "handle_withdraw",
]

_UNKNOWN_BID = Kind("market", 6, "unknown bid")
_UNKNOWN_LEASE = Kind("market", 7, "unknown lease")
_NO_LEASE_FOR_BID = Kind("market", 8, "unknown lease for bid")
_LEASE_NOT_ACTIVE = Kind("market", 10, "lease not active")
_BAD_REASON = Kind("market", 33, "invalid lease closed reason")
_BY_OWNER = LeaseClosedReason.lease_closed_owner
_NO_FUNDS = LeaseClosedReason.lease_closed_reason_insufficient_funds
_LIVE = (Lease.State.active, Lease.State.reclaiming)
_PROVIDER_REASONS = range(10_000, 20_000)


def check_lease_id(msg: Message) -> None:
    """Check `MsgWithdrawLease` or `MsgCloseLease` before a block."""
    ids.check_bid(msg.id, "LeaseID: ")


def check_close_bid(msg: Message) -> None:
    ids.check_bid(msg.id)
    if msg.reason not in _PROVIDER_REASONS:
        raise _BAD_REASON(f'value "{msg.reason}" range 10000..19999')


def handle_withdraw(ctx: Context, msg: Message) -> None:
    """Pay the provider. If the funds are used up, it succeeds and ends the deployment (chain.md §6)."""
    if ctx.get("lease", *ids.key(msg.id)) is None:
        raise _UNKNOWN_LEASE()
    if escrow.withdraw(ctx, ids.deployment_xid(msg.id), ids.payment_xid(msg.id)):
        close_deployment(ctx, msg.id, overdrawn=True)


def handle_close_bid(ctx: Context, msg: Message) -> None:
    """Close a bid; the close of an active bid ends its lease and pauses the group."""
    bid = ctx.get("bid", *ids.key(msg.id))
    if bid is None:
        raise _UNKNOWN_BID()
    if bid.state == Bid.State.open:
        _close_bid(ctx, bid)
        return
    lease = ctx.get("lease", *ids.key(msg.id))
    if lease is None:
        raise _NO_LEASE_FOR_BID()
    if lease.state not in _LIVE:
        raise _LEASE_NOT_ACTIVE()
    reclamation.check_drop(ctx, lease)
    group = ctx.get("group", *ids.key(msg.id)[:3])
    market.put(ctx, "group", changed(group, state=Group.State.paused))
    ctx.emit(EventGroupPaused(id=group.id))
    _end_lease(ctx, lease, reason=msg.reason)


def handle_start_reclaim(ctx: Context, msg: Message) -> None:
    """Give notice before the end of a lease, once."""
    lease = ctx.get("lease", *ids.key(msg.id))
    if lease is None:
        raise _UNKNOWN_LEASE()
    if lease.state != Lease.State.active:
        raise _LEASE_NOT_ACTIVE()
    market.put(ctx, "lease", reclamation.start(ctx, lease, reason=msg.reason))


def handle_close_lease(ctx: Context, msg: Message) -> None:
    """Close a lease for the tenant, whose reason is ignored. A group that is still open gets a new order at once."""
    order = ctx.get("order", *ids.key(msg.id)[:4])
    if order is None:
        raise market.ORDER_NOT_FOUND()
    lease = ctx.get("lease", *ids.key(msg.id))
    if order.state != Order.State.active or lease is None:
        raise market.ORDER_CLOSED()
    if lease.state not in _LIVE:
        raise _LEASE_NOT_ACTIVE()
    _end_lease(ctx, lease, reason=_BY_OWNER)
    group = ctx.get("group", *ids.key(msg.id)[:3])
    if group.state == Group.State.open:
        market.open_order(ctx, group)


def _end_lease(ctx: Context, lease: Message, *, reason: int) -> None:
    """End the lease, the bid, the order, then the payment. If the funds are used up, the deployment ends too."""
    _close_lease(ctx, lease, reason=reason)
    _close_bid(ctx, ctx.get("bid", *ids.key(lease.id)))
    _close_order(ctx, ctx.get("order", *ids.key(lease.id)[:4]))
    if escrow.close_payment(ctx, ids.deployment_xid(lease.id), ids.payment_xid(lease.id)):
        close_deployment(ctx, lease.id, overdrawn=True)


def _close_lease(ctx: Context, lease: Message, *, reason: int) -> None:
    state = Lease.State.insufficient_funds if reason == _NO_FUNDS else Lease.State.closed
    market.put(ctx, "lease", changed(lease, state=state, closed_on=ctx.height, reason=reason))
    ctx.emit(EventLeaseClosed(id=lease.id, reason=LeaseClosedReason.Name(reason)))


def _close_bid(ctx: Context, bid: Message) -> None:
    market.put(ctx, "bid", changed(bid, state=Bid.State.closed))
    escrow.close_account(ctx, escrow.BID, ids.bid_xid(bid.id))
    ctx.emit(EventBidClosed(id=bid.id))


def _close_order(ctx: Context, order: Message) -> None:
    market.put(ctx, "order", changed(order, state=Order.State.closed))
    ctx.emit(EventOrderClosed(id=order.id))


def end_group_orders(ctx: Context, group: Message, *, reason: int = _BY_OWNER) -> None:
    """Close the orders of a closed or paused group, with their bids and leases."""
    for order in [row for row in market.orders_of(ctx, group.id) if row.state != Order.State.closed]:
        _close_order(ctx, order)
        for bid in [row for row in market.bids_of(ctx, order.id) if row.state in (Bid.State.open, Bid.State.active)]:
            _end_bid(ctx, bid, reason=reason)


def _end_bid(ctx: Context, bid: Message, *, reason: int) -> None:
    _close_bid(ctx, bid)
    lease = ctx.get("lease", *ids.key(bid.id))
    if lease is None or lease.state not in _LIVE:
        return
    _close_lease(ctx, lease, reason=reason)
    if escrow.close_payment(ctx, ids.deployment_xid(lease.id), ids.payment_xid(lease.id)):
        close_deployment(ctx, lease.id, overdrawn=True)


def close_deployment(ctx: Context, member: Message, *, overdrawn: bool) -> None:
    """End the deployment after its escrow account; `member` is any id with owner and dseq."""
    deployment = ctx.get("deployment", member.owner, member.dseq)
    if deployment is None or deployment.state != Deployment.State.active:
        return
    market.put(ctx, "deployment", changed(deployment, state=Deployment.State.closed))
    ctx.emit(EventDeploymentClosed(id=deployment.id))
    state = Group.State.insufficient_funds if overdrawn else Group.State.closed
    for _, group in list(ctx.state.items("group", (member.owner, member.dseq))):
        if group.state != Group.State.closed:
            market.put(ctx, "group", changed(group, state=state))
            ctx.emit(EventGroupClosed(id=group.id))
            end_group_orders(ctx, group, reason=_NO_FUNDS if overdrawn else _BY_OWNER)
