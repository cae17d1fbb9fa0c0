"""The price of AKT in USD (module `oracle`, chain.md §4.6), as far as it was recorded: one source, one price.

The newest price that is not too old counts. The means and deviations of several sources, and what is said when a price
grows old, were not recorded and are not made up.
"""

from __future__ import annotations

from akash.oracle.v2 import event_pb2 as events
from akash.oracle.v2.types_pb2 import AggregatedPrice, DataID, PriceData, PriceDataState, PriceHealth
from google.protobuf.timestamp_pb2 import Timestamp

from devnet.chain.context import Context
from devnet.chain.errors import Kind
from devnet.chain.wire import Message, positive

__all__ = ["aggregated", "end_block", "handle_add_price", "price"]

_NS = 10**9
_PAIR = ("akt", "usd")
_UNAUTHORIZED = Kind("sdk", 4, "unauthorized")
_INVALID = Kind("sdk", 18, "invalid request")


def handle_add_price(ctx: Context, msg: Message) -> None:
    """`MsgAddPriceEntry` of a source that the genesis names."""
    if msg.signer not in ctx.genesis.oracle_sources:
        raise _UNAUTHORIZED(f"source {msg.signer} is not authorized oracle provider")
    if (msg.id.denom, msg.id.base_denom) != _PAIR or not positive(msg.price):
        raise _INVALID(f"price {msg.price[:60]!r} of {msg.id.denom}/{msg.id.base_denom}")
    row = PriceData(state=PriceDataState(price=msg.price))
    row.id.source, row.id.denom, row.id.base_denom = _source(ctx, msg.signer), *_PAIR
    row.id.timestamp.CopyFrom(msg.timestamp)
    ctx.put("oracle_price", _nanoseconds(msg.timestamp), row.id.source, value=row)
    ctx.emit(events.EventPriceData(source=msg.signer, id=msg.id, price=msg.price, timestamp=msg.timestamp))


def _source(ctx: Context, address: str) -> int:
    """The number of a source, given in the order of their first prices."""
    known = dict(ctx.state.items("oracle_source"))
    number: int = known.get((address,), len(known) + 1)
    ctx.put("oracle_source", address, value=number)
    return number


def end_block(ctx: Context) -> None:
    """Emit the price, and the event of its return."""
    rows = list(ctx.state.items("oracle_price"))
    if not rows:
        return
    (newest, _), row = rows[-1]
    fresh = ctx.time_ns - newest <= ctx.genesis.price_staleness_seconds * _NS
    if fresh and price(ctx) == 0:
        ctx.emit(events.EventPriceRecovered(id=DataID(denom=_PAIR[0], base_denom=_PAIR[1]), height=ctx.height))
    ctx.put("oracle_health", _PAIR[0], value=_health(fresh=fresh))
    if fresh:
        ctx.put("oracle_aggregate", _PAIR[0], value=_aggregate(ctx, row.state.price))
        ctx.emit(events.EventAggregatedPrice(price=ctx.get("oracle_aggregate", _PAIR[0])))


def _health(*, fresh: bool) -> Message:
    return PriceHealth(
        denom=_PAIR[0],
        is_healthy=fresh,
        has_min_sources=fresh,
        deviation_ok=True,
        total_sources=1,
        total_healthy_sources=int(fresh),
    )


def _aggregate(ctx: Context, amount: str) -> Message:
    time = Timestamp(seconds=ctx.time_ns // _NS, nanos=ctx.time_ns % _NS)
    return AggregatedPrice(
        denom=_PAIR[0],
        twap=amount,
        median_price=amount,
        min_price=amount,
        max_price=amount,
        timestamp=time,
        num_sources=1,
    )


def aggregated(ctx: Context) -> Message | None:
    """The price at the end of the last block; None if there is none or only an old one."""
    health = ctx.get("oracle_health", _PAIR[0])
    return ctx.get("oracle_aggregate", _PAIR[0]) if health is not None and health.is_healthy else None


def price(ctx: Context) -> int:
    """The price of one AKT in USD times 10^18 at the end of the last block; 0 while unknown."""
    found = aggregated(ctx)
    return int(found.twap) if found is not None else 0


def _nanoseconds(time: Message) -> int:
    return int(time.seconds * _NS + time.nanos)
