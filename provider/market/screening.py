"""Would we bid, and at what price? The market's own decision about an order that does not exist: nothing is promised,
recorded or sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from lease.groups import GroupSpec
from lease.ids import OrderId
from provider.errors import MarketError
from provider.market.book import Market
from provider.market.consideration import current_record, inputs_for, room_for_any_price
from provider.market.decision import Bid
from provider.market.explain import Explained, explain
from provider.market.pricing.quote import Asked
from provider.market.pricing.scale import maximum_price
from provider.market.record.decisions import DecisionInputs
from provider.protocols.chain import Order, OrderState

__all__ = ["Screening", "explained"]

_SEQUENCE = 1
_QUESTION_SECONDS = 30.0


class Screening:
    """Answers one question after another, so that whoever asks much takes no more than one of a script's slots."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._turn = asyncio.Lock()

    async def screen(
        self, spec: GroupSpec, *, owner: str = "", reclamation_ns: int | None = None
    ) -> tuple[DecisionInputs, Explained]:
        """As if `owner` had placed an order for it now. Raises `MarketError` when that cannot be told: we are not
        registered, or too many ask; and `ChainError`.
        """
        try:
            async with asyncio.timeout(_QUESTION_SECONDS), self._turn:
                return await self._screen(spec, owner, reclamation_ns)
        except TimeoutError:
            raise MarketError("no answer in time: too many ask; try again") from None

    async def _screen(
        self, spec: GroupSpec, owner: str, reclamation_ns: int | None
    ) -> tuple[DecisionInputs, Explained]:
        market = self._market
        record = await current_record(market)
        if record is None:
            raise MarketError("this provider is not registered on the chain")
        order_id = OrderId(owner, _SEQUENCE, _SEQUENCE, _SEQUENCE)
        order = Order(order_id, OrderState.OPEN, spec, 0, reclamation_ns)
        inputs, _ = await inputs_for(market, order, record)
        fits = room_for_any_price(inputs)
        if market.pricing is not None and isinstance(fits, Bid):
            quote = await market.pricing(Asked(order_id, spec, fits.offer, maximum_price(spec)))
            inputs = replace(inputs, rules=replace(inputs.rules, prices=quote))
        return inputs, explained(inputs)


def explained(inputs: DecisionInputs) -> Explained:
    """The same decision, with all of its reasons."""
    return explain(
        inputs.order,
        inputs.record,
        snapshot=inputs.snapshot,
        rules=inputs.rules,
        audits=inputs.audits,
        tenant=inputs.tenant,
    )
