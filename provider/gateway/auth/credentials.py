"""From a request's credentials to claims (gateway.md §2.5). Client certificates will join here."""

from __future__ import annotations

from provider.gateway.auth.claims import ANONYMOUS, Claims
from provider.gateway.auth.tokens import Tokens
from provider.gateway.errors import AuthError

__all__ = ["bearer_token", "read_credentials"]


def bearer_token(header: str | None) -> str:
    """The token of an `Authorization` header, empty when there is none; the scheme may be written in any case."""
    if not header:
        return ""
    fields = header.split()
    if len(fields) != 2 or fields[0].lower() != "bearer":
        raise AuthError(400, "invalid authorization header")
    return fields[1]


async def read_credentials(header: str | None, tokens: Tokens) -> Claims:
    """Claims of the caller, `ANONYMOUS` when there are no credentials; raises `AuthError`."""
    token = bearer_token(header)
    return await tokens.read(token) if token else ANONYMOUS
