"""Accounts of tests: keys, addresses and tokens signed as tenants sign them."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from cosmpy.crypto.address import Address
from ecdsa import SECP256k1, SigningKey
from ecdsa.util import sigencode_string_canonize

from provider.gateway.auth.tokens import adr36_document

NOW = 1_795_820_000


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def address_of(key: bytes) -> str:
    digest = hashlib.new("ripemd160", hashlib.sha256(key).digest()).digest()
    return str(Address(digest, "akash"))


@dataclass(frozen=True)
class Account:
    secret: SigningKey

    @classmethod
    def named(cls, name: str) -> Account:
        exponent = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") % SECP256k1.order
        return cls(SigningKey.from_secret_exponent(exponent, SECP256k1, hashlib.sha256))

    @property
    def public(self) -> bytes:
        return self.secret.verifying_key.to_string("compressed")

    @property
    def address(self) -> str:
        return address_of(self.public)

    def sign(self, message: bytes) -> bytes:
        return self.secret.sign_deterministic(message, hashlib.sha256, sigencode_string_canonize)

    def token(self, claims: dict[str, Any] | None = None, *, alg: str = "ES256K", **header: Any) -> str:
        payload = self.claims() if claims is None else claims
        return self.raw_token(json.dumps(payload).encode(), alg=alg, **header)

    def raw_token(self, payload: bytes, *, alg: str = "ES256K", **header: Any) -> str:
        text = f"{b64(json.dumps({'alg': alg, 'typ': 'JWT'} | header).encode())}.{b64(payload)}"
        message = adr36_document(text.encode(), self.address) if alg == "ES256KADR36" else text.encode()
        return f"{text}.{b64(self.sign(message))}"

    def claims(self, **changes: Any) -> dict[str, Any]:
        base = {"iss": self.address, "iat": NOW, "nbf": NOW, "exp": NOW + 900, "version": "v1"}
        return base | {"leases": {"access": "full"}} | changes
