"""The cache of public keys of accounts, read from the chain."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from provider.protocols import Chain, Clock

__all__ = ["AccountKeys"]

_KNOWN_S = 60.0
_UNKNOWN_S = 5.0
_CAPACITY = 10_000
_LOOKUPS = 8
"""The most lookups at once: a flood of invented issuers must not become a flood of queries."""


class AccountKeys:
    """33-byte compressed secp256k1 keys by address, kept for a minute; that an account has none is kept for seconds."""

    def __init__(self, chain: Chain, clock: Clock) -> None:
        self._chain = chain
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, bytes | None]] = OrderedDict()
        self._lookups = asyncio.Semaphore(_LOOKUPS)

    async def get(self, address: str) -> bytes | None:
        """The key; None for an account that is unknown or never signed. Raises `ChainError`."""
        kept = self._kept.get(address)
        if kept is not None and self._clock.monotonic() < kept[0]:
            return kept[1]
        async with self._lookups:
            key = await self._chain.account_public_key(address)
        self._keep(address, key)
        return key

    def _keep(self, address: str, key: bytes | None) -> None:
        lifetime = _UNKNOWN_S if key is None else _KNOWN_S
        self._kept[address] = (self._clock.monotonic() + lifetime, key)
        self._kept.move_to_end(address)
        while len(self._kept) > _CAPACITY:
            self._kept.popitem(last=False)
