"""The price of AKT in USD as the chain's oracle module has it (chain.md §4.6)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from akash.oracle.v2 import query_pb2

from provider.chain import codec
from provider.chain.connection import QueryClient
from provider.chain.queries import ask, convert
from provider.errors import ChainError

__all__ = ["akt_price"]

_PRICE = "/akash.oracle.v2.Query/AggregatedPrice"
_DENOM = "akt"
_LARGEST = Decimal(10) ** 6
"""USD for one AKT; the limit of a price file too."""


async def akt_price(rpc: QueryClient) -> tuple[Decimal, float]:
    """USD for one AKT, averaged over the module's window, and when that was (Unix seconds).

    Raises `ChainError` when the node does not answer, when the chain has no such module or price, and when the module
    itself calls the price stale or its sources too few or too different.
    """
    request = query_pb2.QueryAggregatedPriceRequest(denom=_DENOM)
    reply, _ = await ask(rpc, _PRICE, request, query_pb2.QueryAggregatedPriceResponse)
    if reply is None:
        raise ChainError(rpc.address, "the oracle has no price of AKT")
    if not reply.price_health.is_healthy:
        reasons = ", ".join(reply.price_health.failure_reason)[:200] or "stale, or too few sources"
        raise ChainError(rpc.address, f"the oracle's price of AKT is not healthy: {reasons}")
    usd, at = convert(rpc, _read, reply.aggregated_price)
    if not 0 < usd <= _LARGEST:
        raise ChainError(rpc.address, f"the oracle's price of AKT is {usd} USD, which is not believed")
    return usd, at


def _read(price: Any) -> tuple[Decimal, float]:
    return codec.dec_from_wire(price.twap), price.timestamp.seconds + price.timestamp.nanos / 1e9
