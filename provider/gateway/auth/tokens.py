"""Tokens: compact JWS signed by the account's secp256k1 key (gateway.md §2.4).

`ES256K` signs SHA-256 of `header.payload`; `ES256KADR36`, made by browser wallets, signs SHA-256 of the ADR-36 document
that holds it. Signatures are 64 bytes r‖s, and only the low-s half of them is accepted.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from jwt import PyJWS
from jwt.algorithms import Algorithm
from jwt.exceptions import PyJWTError

from provider.chain.signatures import verify_signature
from provider.errors import ChainError
from provider.gateway.auth.certificates import is_account
from provider.gateway.auth.claims import (
    ANONYMOUS,
    Claims,
    certificate_claims,
    check_claims,
    invalid_token,
    parse_claims,
)
from provider.gateway.auth.keys import AccountKeys
from provider.gateway.errors import AuthError
from provider.protocols import Clock

__all__ = ["ALGORITHMS", "Tokens", "adr36_document", "read_credentials"]

ALGORITHMS = ("ES256K", "ES256KADR36")
_MAX_TOKEN = 64 * 1024
_AMBIGUOUS = "auth: ambiguous authentication. may not use mTLS and JWT at the same time"
_KEPT, _KEPT_BYTES = 256, 1024
"""Tokens that are remembered, and the longest of them; a token of full access has 450 bytes."""


@dataclass(frozen=True, slots=True)
class _Signer:
    address: str
    key: bytes


def adr36_document(data: bytes, signer: str) -> bytes:
    """The canonical JSON that a wallet signs instead of `data`."""
    value = {"data": base64.b64encode(data).decode(), "signer": signer}
    document = {
        "account_number": "0",
        "chain_id": "",
        "fee": {"amount": [], "gas": "0"},
        "memo": "",
        "msgs": [{"type": "sign/MsgSignData", "value": value}],
        "sequence": "0",
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


class _AccountSignature(Algorithm):
    """How PyJWT checks either algorithm; `wrapped` puts the message into the ADR-36 document first."""

    def __init__(self, *, wrapped: bool) -> None:
        self._wrapped = wrapped

    def prepare_key(self, key: _Signer) -> _Signer:
        return key

    def sign(self, msg: bytes, key: Any) -> bytes:
        raise NotImplementedError("the provider signs no tokens")

    def verify(self, msg: bytes, key: _Signer, sig: bytes) -> bool:
        return verify_signature(adr36_document(msg, key.address) if self._wrapped else msg, key.key, sig)

    @staticmethod
    def to_jwk(key_obj: Any, as_dict: bool = False) -> Any:
        raise NotImplementedError

    @staticmethod
    def from_jwk(jwk: Any) -> Any:
        raise NotImplementedError


def _jws() -> PyJWS:
    jws = PyJWS(algorithms=[])
    for name in ALGORITHMS:
        jws.register_algorithm(name, _AccountSignature(wrapped=name != "ES256K"))
    return jws


class Tokens:
    """Reads tokens: checks their signature and their claims. A token may begin up to `leeway` seconds from now.

    The signature of a token is checked once, since the chain never replaces the key of an account; its dates are
    checked each time.
    """

    def __init__(self, keys: AccountKeys, clock: Clock, *, leeway: float = 0.0) -> None:
        self._keys = keys
        self._leeway = leeway
        self._clock = clock
        self._jws = _jws()
        self._verified: OrderedDict[bytes, Claims] = OrderedDict()

    async def read(self, token: str, *, peer: str = "") -> Claims:
        """The claims of a token with a valid signature and valid claims. Raises `AuthError` as in gateway.md §2.5, and
        429 when `peer`, or all together, named too many accounts that are not known.
        """
        if not token.isascii():
            raise invalid_token()
        digest = hashlib.sha256(token.encode()).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._unverified(token)
            self._verify(token, _Signer(claims.iss, await self._key_of(claims.iss, peer)))
        check_claims(claims, self._clock.now(), leeway=self._leeway)
        if len(token) <= _KEPT_BYTES:
            self._remember(digest, claims)
        return claims

    def _remember(self, digest: bytes, claims: Claims) -> None:
        self._verified[digest] = claims
        self._verified.move_to_end(digest)
        if len(self._verified) > _KEPT:
            self._verified.popitem(last=False)

    def _unverified(self, token: str) -> Claims:
        if len(token) > _MAX_TOKEN or "=" in token:
            raise invalid_token()
        try:
            parts = self._jws.decode_complete(token, options={"verify_signature": False})
        except (PyJWTError, ValueError, TypeError) as error:
            raise invalid_token() from error
        claims = parse_claims(parts["payload"])
        if parts["header"].get("alg") not in ALGORITHMS or not is_account(claims.iss):
            raise invalid_token()
        return claims

    async def _key_of(self, address: str, peer: str) -> bytes:
        try:
            key = await self._keys.get(address, peer=peer)
        except ChainError as error:
            raise AuthError(500, "unknown error while processing JWT") from error
        if key is None:
            raise invalid_token()
        return key

    def _verify(self, token: str, signer: _Signer) -> None:
        try:
            self._jws.decode_complete(token, signer, algorithms=ALGORITHMS)  # type: ignore[arg-type]
        except (PyJWTError, ValueError, TypeError) as error:
            raise invalid_token() from error


async def read_credentials(header: str | None, tokens: Tokens, *, peer: str = "", account: str = "") -> Claims:
    """The claims in an `Authorization` header, or of the client certificate of `account`; `ANONYMOUS` without either
    (gateway.md §2.5). Raises `AuthError`, 400 for both.
    """
    token = _bearer_token(header)
    if account:
        if token:
            raise AuthError(400, _AMBIGUOUS)
        return certificate_claims(account)
    return await tokens.read(token, peer=peer) if token else ANONYMOUS


def _bearer_token(header: str | None) -> str:
    """The token of the header, empty without a header; the scheme is case-insensitive."""
    if not header:
        return ""
    fields = header.split()
    if len(fields) != 2 or fields[0].lower() != "bearer":
        raise AuthError(400, "invalid authorization header")
    return fields[1]
