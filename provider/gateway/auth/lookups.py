"""Queries about what credentials name: kept for a time, shared by those who ask at once, and limited for strangers.

Credentials name an account before anything in them is proven, so anybody can cause a query. Queries about strangers
have a client and a budget of their own: a tenant with a lease never waits for them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from provider.budgets import Budget, PeerBudgets
from provider.gateway.errors import AuthError
from provider.gateway.refusals import Refusals
from provider.protocols import Clock

__all__ = ["Lookups"]

_UNKNOWN_S = 5.0
_CAPACITY = 10_000
_AT_ONCE = 8
_RATE, _BURST = 10.0, 100.0
_PEER_RATE, _PEER_BURST = 2.0, 30.0
"""Queries about strangers: a second in the long run, and at once; of all peers, and of one."""

_Key = TypeVar("_Key", bound=Hashable)
_Found = TypeVar("_Found")


class Lookups(Generic[_Key, _Found]):
    """What `ask` found, by key: kept for `known_s` seconds, and for five seconds that nothing was found. `ask` gets
    the key and whether it is a tenant's. `reason` names the refusals.
    """

    def __init__(
        self,
        ask: Callable[[_Key, bool], Awaitable[_Found | None]],
        clock: Clock,
        *,
        known_s: float,
        reason: str,
        refusals: Refusals,
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._known_s = known_s
        self._reason = reason
        self._refusals = refusals
        self._known: OrderedDict[_Key, tuple[float, _Found | None]] = OrderedDict()
        self._unknown: OrderedDict[_Key, tuple[float, _Found | None]] = OrderedDict()
        self._running: dict[_Key, asyncio.Future[_Found | None]] = {}
        self._turns = {tenant: asyncio.Semaphore(_AT_ONCE) for tenant in (True, False)}
        self._budget = Budget(rate=_RATE, burst=_BURST, now=clock.monotonic)
        self._of_peer = PeerBudgets(rate=_PEER_RATE, burst=_PEER_BURST, now=clock.monotonic)

    async def get(self, key: _Key, *, tenant: bool, peer: str = "") -> _Found | None:
        """What is found for `key`, None for nothing. Simultaneous calls for one key share a query. Raises what `ask`
        raises, and `AuthError` 429 when the budget for strangers, or that of `peer`, is used up.
        """
        for kept in (self._known.get(key), self._unknown.get(key)):
            if kept is not None and self._clock.monotonic() < kept[0]:
                return kept[1]
        if key not in self._running:
            if not tenant and not (self._of_peer.take(peer) and self._budget.take()):
                self._refusals.count(self._reason, peer=peer)
                raise AuthError(429, "too many unknown accounts at the moment; try again later")
            self._running[key] = asyncio.ensure_future(self._query(key, tenant=tenant))
            self._running[key].add_done_callback(lambda done: self._finished(key, done))
        return await asyncio.shield(self._running[key])

    async def _query(self, key: _Key, *, tenant: bool) -> _Found | None:
        async with self._turns[tenant]:
            found = await self._ask(key, tenant)
        self._keep(key, found)
        return found

    def _finished(self, key: _Key, done: asyncio.Future[_Found | None]) -> None:
        self._running.pop(key, None)
        if not done.cancelled():
            done.exception()  # retrieved here, since it may be that no caller waits any more

    def _keep(self, key: _Key, found: _Found | None) -> None:
        """What strangers name in vain pushes out such entries only."""
        memory, lifetime = (self._unknown, _UNKNOWN_S) if found is None else (self._known, self._known_s)
        memory[key] = (self._clock.monotonic() + lifetime, found)
        memory.move_to_end(key)
        while len(memory) > _CAPACITY:
            memory.popitem(last=False)
