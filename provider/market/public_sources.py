"""What a screening for a caller who is not known may query: through a client of its own, within a budget, and only what
neither the market nor an earlier screening knows. Bids wait for none of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import bech32

from lease.resources import Attribute
from provider.budgets import Budget
from provider.errors import MarketError
from provider.market.audits import AuditCache
from provider.market.book import Market
from provider.protocols.chain import ProviderRecord

__all__ = ["PublicChain", "PublicSources"]

_RATE, _BURST = 1.0, 64.0
"""Queries a second in the long run, and at once: two orders with as many auditors as are allowed."""
_MAX_ADDRESS = 90


class PublicChain(Protocol):
    """The queries of `protocols.Chain` that a screening needs."""

    async def provider(self, address: str) -> ProviderRecord | None: ...

    async def audited_attributes(self, *, provider: str, auditor: str) -> Sequence[Attribute]: ...


class PublicSources:
    """`chain` is the client of its own."""

    def __init__(self, market: Market, chain: PublicChain) -> None:
        self._market = market
        self._chain = chain
        self._budget = Budget(rate=_RATE, burst=_BURST, now=market.clock.monotonic)
        self._audits = AuditCache(self._ask, market.clock.now, market.attributes_age)
        self._changes = market.audits.changes

    async def record(self) -> ProviderRecord | None:
        """The provider's own record, as the market has it; queried only before the market has one."""
        if self._market.book.record is not None:
            return self._market.book.record
        self._take("the provider's record is not known yet")
        return await self._chain.provider(self._market.provider)

    async def signed_by(self, auditor: str) -> tuple[Attribute, ...]:
        """The attributes that `auditor` has signed; none for a text that is no address. Raises `ChainError`, and
        `MarketError` when the budget is used up.
        """
        known = self._market.audits.known(auditor)
        if known is not None:
            return known
        if not _is_address(auditor):
            return ()
        if self._changes != self._market.audits.changes:
            self._changes = self._market.audits.changes
            self._audits.forget()
        return await self._audits.signed_by(auditor)

    async def _ask(self, auditor: str) -> Iterable[Attribute]:
        self._take("too many auditors that are not known")
        return await self._chain.audited_attributes(provider=self._market.provider, auditor=auditor)

    def _take(self, problem: str) -> None:
        if not self._budget.take():
            raise MarketError(f"{problem}; try again")


def _is_address(text: str) -> bool:
    return len(text) <= _MAX_ADDRESS and text == text.lower() and bech32.bech32_decode(text)[0] == "akash"
