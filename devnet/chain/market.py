"""Orders, bids and leases: their records and the messages that create them (`akash.market.v1beta5`, chain.md §3 and
§4.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from akash.deployment.v1beta4.types_pb2 import Group
from akash.market.v1.event_pb2 import EventBidCreated, EventLeaseCreated, EventOrderCreated
from akash.market.v1.types_pb2 import Lease
from akash.market.v1beta5.types_pb2 import Bid, Order

from devnet.chain import deposits, escrow, ids, reclamation
from devnet.chain.context import Context
from devnet.chain.errors import Kind, panicked, undefined
from devnet.chain.matching import attributes_match, capabilities_match
from devnet.chain.specs import group_price
from devnet.chain.wire import Message, changed, fill

__all__ = [
    "ORDER_CLOSED",
    "ORDER_NOT_FOUND",
    "bids_of",
    "check_create_bid",
    "check_create_lease",
    "handle_create_bid",
    "handle_create_lease",
    "open_order",
    "orders_of",
    "put",
]

_ATTRIBUTES = Kind("market", 5, "attribute mismatch")
_BID_NOT_OPEN = Kind("market", 12, "bid not open")
_ORDER_NOT_OPEN = Kind("market", 13, "bid: order not open")
ORDER_NOT_FOUND = Kind("market", 15, "invalid order: order not found")
_BID_NOT_FOUND = Kind("market", 18, "invalid bid: bid not found")
_ZERO_PRICE = Kind("market", 19, "invalid bid: zero price")
_BID_EXISTS = Kind("market", 21, "invalid bid: bid exists from provider")
_PRICE = Kind("market", 22, "bid price is invalid")
_ORDER_ACTIVE = Kind("market", 23, "order active")
ORDER_CLOSED = Kind("market", 24, "order closed")
_UNKNOWN_PROVIDER = Kind("market", 30, "unknown provider")
_CAPABILITIES = Kind("market", 32, "capabilities mismatch")


def put(ctx: Context, table: str, row: Message) -> None:
    """Store an order, bid, lease, group or deployment under its id."""
    ctx.state.set(table, ids.key(row.id), row)


def orders_of(ctx: Context, group: Message) -> Iterator[Message]:
    return (row for _, row in ctx.state.items("order", ids.key(group)))


def bids_of(ctx: Context, order: Message) -> Iterator[Message]:
    """The bids on an order, by the providers' address text: the order in which the node visits them."""
    return (row for _, row in ctx.state.items("bid", ids.key(order)[:4]))


def open_order(ctx: Context, group: Message) -> None:
    """Create an open order for an open group, with the next oseq."""
    oseq = 1 + max((row.id.oseq for row in orders_of(ctx, group.id)), default=0)
    order = Order(id=ids.order_id(group.id, oseq), state=Order.State.open, created_at=ctx.height)
    order.spec.CopyFrom(group.group_spec)
    _carry_reclamation(ctx, group, order)
    put(ctx, "order", fill(order))
    ctx.emit(EventOrderCreated(id=order.id))


def _carry_reclamation(ctx: Context, group: Group, order: Order) -> None:
    deployment = ctx.get("deployment", group.id.owner, group.id.dseq)
    if deployment is not None and deployment.HasField("reclamation"):
        order.reclamation.CopyFrom(deployment.reclamation)


def check_create_bid(msg: Message) -> None:
    """Check `MsgCreateBid` before a block."""
    ids.check_bid(msg.id)
    if not msg.price.amount or not msg.price.amount.removeprefix("-").isdigit() or int(msg.price.amount) == 0:
        raise _ZERO_PRICE()
    deposits.check_deposit_sources(msg.deposit)
    reclamation.check_bid_window(msg)


def handle_create_bid(ctx: Context, msg: Message) -> None:
    """The checks in the node's order (chain.md §4.2); a closed bid also prevents a second one."""
    _check_bid_deposit(ctx, msg.deposit)
    most = ctx.genesis.market.order_max_bids
    count = sum(1 for bid in bids_of(ctx, msg.id) if bid.state != Bid.State.lost)
    if count > most:  # as the node compares: one more than the limit is accepted
        raise undefined(f"invalid bid: too many existing bids ({most})")
    order = _open_order(ctx, msg.id)
    _check_price(order, msg.price)
    _check_offer(order, msg.resources_offer)
    _check_bidder(ctx, order, msg.id.provider)
    found = deposits.authorize(ctx, msg.deposit, msg.id.provider)
    reclamation.check_offer(ctx, order, msg)
    if ctx.get("bid", *ids.key(msg.id)) is not None:
        raise _BID_EXISTS()
    _store_bid(ctx, msg)
    xid = ids.bid_xid(msg.id)
    escrow.open_account(ctx, escrow.BID, xid, owner=msg.id.provider, deposits=found)


def _check_bid_deposit(ctx: Context, deposit: Message) -> None:
    denom, amount = deposit.amount.denom, deposit.amount.amount
    least = ctx.genesis.market.bid_min_deposits.get(denom)
    if least is None:
        raise undefined(f"deposit invalid: unsupported denom {denom}")
    if not amount.isdigit() or int(amount) < least:
        sources = " ".join("balance" if source == 1 else "grant" for source in deposit.sources)
        raise undefined(f"deposit invalid: minimum:{least}{denom} received:{{{amount}{denom} [{sources}]}}")


def _open_order(ctx: Context, bid: Message) -> Message:
    order = ctx.get("order", *ids.key(bid)[:4])
    if order is None:
        raise ORDER_NOT_FOUND()
    if order.state == Order.State.active:
        raise _ORDER_ACTIVE()
    if order.state == Order.State.closed:
        raise ORDER_CLOSED()
    return order


def _check_price(order: Message, price: Message) -> None:
    denom, most = group_price(order.spec)
    if int(price.amount) < 0:
        raise _PRICE()
    if price.denom != denom:
        raise panicked(f"invalid coin denominations; {denom}, {price.denom}")
    if int(price.amount) > most:
        raise _PRICE()


def _check_offer(order: Message, offer: Message) -> None:
    """Check that each entry names a unit of the spec with its count, once. Amounts are not compared (chain.md §4.2)."""
    counts = {unit.resource.id: unit.count for unit in order.spec.resources}
    named = [entry.resources.id for entry in offer]
    if len(set(named)) < len(named):
        raise panicked("runtime error: invalid memory address or nil pointer dereference")
    if any(counts.get(entry.resources.id) != entry.count for entry in offer):
        raise _CAPABILITIES()


def _check_bidder(ctx: Context, order: Message, provider: str) -> None:
    record = ctx.get("provider", provider)
    if record is None:
        raise _UNKNOWN_PROVIDER()
    if not attributes_match(ctx, record, order.spec.requirements):
        raise _ATTRIBUTES()
    if not capabilities_match(record, order.spec):
        raise _CAPABILITIES()


def _store_bid(ctx: Context, msg: Message) -> None:
    bid = Bid(id=msg.id, state=Bid.State.open, price=msg.price, created_at=ctx.height)
    bid.resources_offer.extend(msg.resources_offer)
    if msg.HasField("reclamation_window"):
        bid.reclamation_window.CopyFrom(msg.reclamation_window)
    put(ctx, "bid", fill(bid))
    ctx.emit(EventBidCreated(id=bid.id, price=bid.price))


def check_create_lease(msg: Message) -> None:
    ids.check_bid(msg.bid_id)


def handle_create_lease(ctx: Context, msg: Message) -> None:
    """Create the lease of a bid and its payment. Of the other bids only the first becomes lost (chain.md §14 1)."""
    bid = ctx.get("bid", *ids.key(msg.bid_id))
    if bid is None:
        raise _BID_NOT_FOUND()
    if bid.state != Bid.State.open:
        raise _BID_NOT_OPEN()
    order = ctx.get("order", *ids.key(msg.bid_id)[:4])
    if order.state != Order.State.open:
        raise _ORDER_NOT_OPEN()
    escrow.open_payment(ctx, ids.deployment_xid(bid.id), ids.payment_xid(bid.id), owner=bid.id.provider, rate=bid.price)
    lease = Lease(id=ids.lease_id(bid.id), state=Lease.State.active, price=bid.price, created_at=ctx.height)
    reclamation.promise(lease, bid)
    put(ctx, "lease", fill(lease))
    ctx.emit(EventLeaseCreated(id=lease.id, price=lease.price))
    put(ctx, "order", changed(order, state=Order.State.active))
    put(ctx, "bid", changed(bid, state=Bid.State.active))
    _lose_first(ctx, order)


def _lose_first(ctx: Context, order: Message) -> None:
    loser = next((bid for bid in bids_of(ctx, order.id) if bid.state == Bid.State.open), None)
    if loser is not None:
        put(ctx, "bid", changed(loser, state=Bid.State.lost))
        escrow.close_account(ctx, escrow.BID, ids.bid_xid(loser.id))
