"""Signatures of accounts: secp256k1 over SHA-256, 64 bytes r‖s of which only the low-s half is accepted."""

from __future__ import annotations

import hashlib

from cosmpy.crypto.address import Address
from cosmpy.crypto.hashfuncs import ripemd160
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["address_of", "verify_signature"]

_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def verify_signature(message: bytes, key: bytes, signature: bytes) -> bool:
    """Whether `signature` (r‖s) over SHA-256 of `message` is by `key` (33 bytes compressed) and has a low s."""
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if len(signature) != 64 or s > _HALF_ORDER:
        return False
    try:
        public = EllipticCurvePublicKey.from_encoded_point(SECP256K1(), key)
        public.verify(encode_dss_signature(r, s), message, ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True


def address_of(key: bytes) -> str:
    """The account address of a compressed public key (chain.md §2)."""
    return str(Address(ripemd160(hashlib.sha256(key).digest()), "akash"))
