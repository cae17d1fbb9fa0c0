"""The cache of public keys of accounts, read from the chain.

The chain never replaces the key of an account, so a key is kept for a day.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from provider.gateway.auth.lookups import Lookups
from provider.gateway.refusals import Refusals
from provider.protocols import Clock

__all__ = ["AccountKeys", "KeySource"]

_KNOWN_S = 24 * 3600.0
_REASON = "issuers of tokens that are not known"


class KeySource(Protocol):
    async def account_public_key(self, address: str) -> bytes | None: ...


class AccountKeys:
    """33-byte compressed secp256k1 keys by address; that an account has none is kept for seconds.

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
        async def ask(address: str, tenant: bool) -> bytes | None:
            return await (chain if tenant else strangers or chain).account_public_key(address)

        self._is_tenant = is_tenant
        self._lookups = Lookups(ask, clock, known_s=_KNOWN_S, reason=_REASON, refusals=refusals or Refusals())

    async def get(self, address: str, *, peer: str = "") -> bytes | None:
        """The key; None for an account that is unknown or never signed. Raises `ChainError`, and `AuthError` 429 when
        the budget for strangers, or that of `peer`, is used up.
        """
        return await self._lookups.get(address, tenant=self._is_tenant(address), peer=peer)
