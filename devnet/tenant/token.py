"""The tokens that a tenant signs for a provider's gateway (gateway.md §2.4): compact JWS, ES256K, raw r‖s, low s."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

from cosmpy.crypto.keypairs import PrivateKey

__all__ = ["full_access", "sign_token"]


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def full_access(issuer: str, *, seconds: int = 900, now: float | None = None) -> dict[str, Any]:
    """Claims that give access to all leases of the issuer for `seconds`."""
    issued = int(time.time() if now is None else now)
    return {
        "iss": issuer,
        "iat": issued,
        "nbf": issued,
        "exp": issued + seconds,
        "version": "v1",
        "leases": {"access": "full"},
    }


def sign_token(key: PrivateKey, claims: Mapping[str, Any]) -> str:
    """The token for `claims`, signed with the account's secp256k1 key."""
    header = {"alg": "ES256K", "typ": "JWT"}
    body = ".".join(_b64(json.dumps(part, separators=(",", ":")).encode()) for part in (header, dict(claims)))
    return f"{body}.{_b64(key.sign(body.encode(), deterministic=True, canonicalise=True))}"
