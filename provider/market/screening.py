"""Whether this provider would bid on a group, and at what price: the market's own decision about an order that does not
exist. Nothing is reserved, recorded or sent. The decision is a pure function and is made in a thread: whoever asks pays
nothing, and must not keep the loops of the provider waiting.
"""

from __future__ import annotations

import asyncio

from lease.groups import GroupSpec
from lease.ids import OrderId
from provider.errors import MarketError
from provider.market.book import Market
from provider.market.decision import BidDecision, DecisionInputs
from provider.market.explanation import Explanation, explain
from provider.market.inputs import current_inputs, current_record
from provider.market.public_sources import PublicSources
from provider.market.quotation import decide_at_maximum, price_request, with_quote
from provider.protocols.chain import Order, OrderState

__all__ = ["Screening"]

_SEQUENCE = 1
_ANSWER_S = 30.0


class Screening:
    """Answers one question after another, so that many questions take only one slot of a price script. With `public`
    it answers for anybody, and queries no more than `public` allows.
    """

    def __init__(self, market: Market, *, public: PublicSources | None = None) -> None:
        self._market = market
        self._public = public
        self._turn = asyncio.Lock()

    async def screen(
        self, spec: GroupSpec, *, owner: str = "", reclamation_ns: int | None = None
    ) -> tuple[DecisionInputs, Explanation]:
        """The decision as if `owner` had created an order for `spec` now, with its inputs. Raises `MarketError` when
        this provider is not registered or there are too many requests, and `ChainError`.
        """
        try:
            async with asyncio.timeout(_ANSWER_S), self._turn:
                return await self._screen(spec, owner, reclamation_ns)
        except TimeoutError:
            raise MarketError("no answer in time: too many requests; try again") from None

    async def _screen(
        self, spec: GroupSpec, owner: str, reclamation_ns: int | None
    ) -> tuple[DecisionInputs, Explanation]:
        market = self._market
        record = await (self._public.record() if self._public is not None else current_record(market))
        if record is None:
            raise MarketError("this provider is not registered on the chain")
        order_id = OrderId(owner, _SEQUENCE, _SEQUENCE, _SEQUENCE)
        order = Order(order_id, OrderState.OPEN, spec, 0, reclamation_ns)
        signed_by = self._public.signed_by if self._public is not None else None
        inputs, _ = await current_inputs(market, order, record, signed_by=signed_by)
        fits = await asyncio.to_thread(decide_at_maximum, inputs)
        if market.pricing is not None and isinstance(fits, BidDecision):
            inputs = with_quote(inputs, await market.pricing(price_request(order, fits)))
        return inputs, await asyncio.to_thread(explain, inputs)
