"""Reclamation windows: the notice that a provider gives before it ends a lease (chain.md §4.2, market codes 35–41)."""

from __future__ import annotations

from akash.market.v1.event_pb2 import EventLeaseReclaimStarted
from akash.market.v1.types_pb2 import Lease, LeaseClosedReason

from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.wire import Message, copied

__all__ = ["check_bid_window", "check_drop", "check_offer", "check_wish", "check_wish_bounds", "promise", "start"]

_NOT_CONFIGURED = Kind("market", 35, "lease does not have reclamation configured")
_NOT_STARTED = Kind("market", 37, "reclamation not started; call MsgLeaseStartReclaim first")
_NOT_ELAPSED = Kind("market", 38, "reclamation window has not elapsed")
_OUT_OF_BOUNDS = Kind("market", 39, "reclamation window outside governance bounds")
_REQUIRED = Kind("market", 40, "order requires reclamation but bid does not offer it")
_TOO_SHORT = Kind("market", 41, "reclamation window shorter than order minimum")
_INVALID = Kind("deployment", 26, "invalid reclamation configuration")
_BILLION = 10**9


def _ns(duration: Message) -> int:
    return int(duration.seconds) * _BILLION + int(duration.nanos)


def check_wish(msg: Message) -> None:
    """Check `MsgCreateDeployment` before a block."""
    if msg.HasField("reclamation") and _ns(msg.reclamation.min_window) < 0:
        raise _INVALID("min_window must be >= 0")


def check_wish_bounds(ctx: Context, msg: Message) -> None:
    """Check `MsgCreateDeployment` in a block."""
    if not msg.HasField("reclamation"):
        return
    wanted, market = _ns(msg.reclamation.min_window), ctx.genesis.market
    if wanted < market.min_reclamation_window * _BILLION:
        raise _INVALID("min_window below governance minimum")
    if wanted > market.max_reclamation_window * _BILLION:
        raise _INVALID("min_window above governance maximum")


def check_bid_window(msg: Message) -> None:
    """Check `MsgCreateBid` before a block."""
    if msg.HasField("reclamation_window") and _ns(msg.reclamation_window) < 0:
        raise _OUT_OF_BOUNDS()


def check_offer(ctx: Context, order: Message, msg: Message) -> None:
    """Check `MsgCreateBid` in a block."""
    if not msg.HasField("reclamation_window"):
        if order.HasField("reclamation"):
            raise _REQUIRED()
        return
    offered, market = _ns(msg.reclamation_window), ctx.genesis.market
    if not market.min_reclamation_window * _BILLION <= offered <= market.max_reclamation_window * _BILLION:
        raise _OUT_OF_BOUNDS()
    if order.HasField("reclamation") and offered < _ns(order.reclamation.min_window):
        raise _TOO_SHORT()


def promise(lease: Message, bid: Message) -> None:
    """Give the lease the window of its bid."""
    if bid.HasField("reclamation_window"):
        lease.reclamation.window.CopyFrom(bid.reclamation_window)


def start(ctx: Context, lease: Message, *, reason: int) -> Message:
    """The lease after its provider's notice, with a deadline in whole Unix seconds."""
    if not lease.HasField("reclamation"):
        raise _NOT_CONFIGURED()
    row = copied(lease)
    row.state = Lease.State.reclaiming
    row.reclamation.started_at = ctx.height
    row.reclamation.deadline = (ctx.time_ns + _ns(row.reclamation.window)) // _BILLION
    row.reclamation.reason = reason
    name = LeaseClosedReason.Name(reason)
    ctx.emit(EventLeaseReclaimStarted(id=row.id, reason=name, deadline=row.reclamation.deadline))
    return row


def check_drop(ctx: Context, lease: Message) -> None:
    """Check whether the provider may end a live lease now."""
    if not lease.HasField("reclamation"):
        return
    if lease.state != Lease.State.reclaiming:
        raise _NOT_STARTED()
    if ctx.time_ns // _BILLION < lease.reclamation.deadline:
        raise _NOT_ELAPSED()
