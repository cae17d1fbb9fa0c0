"""The cache of public keys of accounts, read from the chain.

A token names its issuer before anything in it is proven, so anybody can cause a query. Queries about strangers have a
client and a budget of their own: a tenant with a lease never waits for them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from provider.budgets import Budget, PeerBudgets
from provider.gateway.errors import AuthError
from provider.gateway.refusals import Refusals
from provider.protocols import Clock

__all__ = ["AccountKeys", "KeySource"]

_KNOWN_S = 24 * 3600.0
"""The chain never replaces the key of an account."""
_UNKNOWN_S = 5.0
_CAPACITY = 10_000
_LOOKUPS = 8
_RATE, _BURST = 10.0, 100.0
_PEER_RATE, _PEER_BURST = 2.0, 30.0
"""Queries about strangers: a second in the long run, and at once; of all peers, and of one."""


class KeySource(Protocol):
    async def account_public_key(self, address: str) -> bytes | None: ...


class AccountKeys:
    """33-byte compressed secp256k1 keys by address, kept for a day; that an account has none is kept for seconds.

    `chain` answers for accounts that `is_tenant` knows, `strangers` for all others.
    """

    def __init__(
        self,
        chain: KeySource,
        clock: Clock,
        *,
        strangers: KeySource | None = None,
        is_tenant: Callable[[str], bool] = lambda _: False,
        refusals: Refusals | None = None,
    ) -> None:
        self._chain = chain
        self._strangers = strangers or chain
        self._is_tenant = is_tenant
        self._clock = clock
        self._refusals = refusals or Refusals()
        self._known: OrderedDict[str, tuple[float, bytes | None]] = OrderedDict()
        self._unknown: OrderedDict[str, tuple[float, bytes | None]] = OrderedDict()
        self._running: dict[str, asyncio.Future[bytes | None]] = {}
        self._lookups = {source: asyncio.Semaphore(_LOOKUPS) for source in (True, False)}
        self._budget = Budget(rate=_RATE, burst=_BURST, now=clock.monotonic)
        self._of_peer = PeerBudgets(rate=_PEER_RATE, burst=_PEER_BURST, now=clock.monotonic)

    async def get(self, address: str, *, peer: str = "") -> bytes | None:
        """The key; None for an account that is unknown or never signed. Simultaneous calls for one account share a
        query. Raises `ChainError`, and `AuthError` 429 when the budget for strangers, or that of `peer`, is used up.
        """
        for kept in (self._known.get(address), self._unknown.get(address)):
            if kept is not None and self._clock.monotonic() < kept[0]:
                return kept[1]
        if address not in self._running:
            tenant = self._is_tenant(address)
            if not tenant and not (self._of_peer.take(peer) and self._budget.take()):
                self._refusals.count("issuers of tokens that are not known", peer=peer)
                raise AuthError(429, "too many unknown accounts at the moment; try again later")
            self._running[address] = asyncio.ensure_future(self._query(address, tenant=tenant))
            self._running[address].add_done_callback(lambda done: self._finished(address, done))
        return await asyncio.shield(self._running[address])

    async def _query(self, address: str, *, tenant: bool) -> bytes | None:
        async with self._lookups[tenant]:
            key = await (self._chain if tenant else self._strangers).account_public_key(address)
        self._keep(address, key)
        return key

    def _finished(self, address: str, done: asyncio.Future[bytes | None]) -> None:
        self._running.pop(address, None)
        if not done.cancelled():
            done.exception()  # retrieved here, since it may be that no caller waits any more

    def _keep(self, address: str, key: bytes | None) -> None:
        """Strangers without a key push out other strangers only."""
        memory, lifetime = (self._unknown, _UNKNOWN_S) if key is None else (self._known, _KNOWN_S)
        memory[address] = (self._clock.monotonic() + lifetime, key)
        memory.move_to_end(address)
        while len(memory) > _CAPACITY:
            memory.popitem(last=False)
