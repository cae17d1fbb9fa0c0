"""Keys, addresses and signatures: secp256k1, bech32 `akash`, m/44'/118'/0'/0/N (chain.md §2)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import bech32
from cosmpy.aerial.wallet import LocalWallet
from cosmpy.crypto.keypairs import PrivateKey
from cosmpy.mnemonic import derive_child_key_from_mnemonic
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = [
    "ROLES",
    "TEST_MNEMONIC",
    "TestKey",
    "address_of",
    "bech32_complaint",
    "derive_key",
    "module_address",
    "raw_address",
    "valid_address",
    "verify",
]

PREFIX = "akash"
TEST_MNEMONIC = " ".join(["abandon"] * 23 + ["art"])
"""Public test words (BIP-39's all-zero entropy): never send anything of value to keys made from them."""

ROLES = (
    "validator",
    "tenant",
    "provider",
    "auditor",
    "oracle",
    "tenant2",
    "provider2",
    "provider3",
    "poor",
    "granter",
    "absent",
    "broke",
    "provider4",
    "provider5",
)
"""The roles; the position of a role is its HD index."""

_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@dataclass(frozen=True, slots=True)
class TestKey:
    """A derived key. `public` is the 33-byte compressed form."""

    __test__ = False
    index: int
    private: PrivateKey

    @property
    def address(self) -> str:
        return address_of(self.public)

    @property
    def public(self) -> bytes:
        return bytes(self.private.public_key.public_key_bytes)

    @property
    def wallet(self) -> LocalWallet:
        """The key for cosmpy's clients."""
        return LocalWallet(self.private, prefix=PREFIX)


def derive_key(role: str | int, mnemonic: str = TEST_MNEMONIC) -> TestKey:
    """The key of a role (`tenant`, `provider`, …) or of an HD index."""
    index = ROLES.index(role) if isinstance(role, str) else role
    child = derive_child_key_from_mnemonic(mnemonic, path=f"m/44'/118'/0'/0/{index}")
    return TestKey(index, PrivateKey(child))


def address_of(public_key: bytes) -> str:
    """The bech32 address of a compressed public key: RIPEMD-160 of its SHA-256."""
    digest = hashlib.new("ripemd160", hashlib.sha256(public_key).digest()).digest()
    return _encode(digest)


def module_address(name: str) -> str:
    """The account of a module: the first 20 bytes of the SHA-256 of its name."""
    return _encode(hashlib.sha256(name.encode()).digest()[:20])


def _encode(data: bytes) -> str:
    return str(bech32.bech32_encode(PREFIX, bech32.convertbits(data, 8, 5) or []))


def raw_address(address: str) -> bytes | None:
    """The bytes of a bech32 address of this chain; None if it is not valid."""
    prefix, data = bech32.bech32_decode(address)
    if prefix != PREFIX or data is None:
        return None
    raw = bech32.convertbits(data, 5, 8, False)
    return bytes(raw) if raw else None


def valid_address(address: str) -> bool:
    return raw_address(address) is not None


def bech32_complaint(address: str) -> str:
    """The node's error for an invalid bech32 address."""
    position = address.rfind("1")
    if len(address) < 8:
        return f"invalid bech32 string length {len(address)}"
    if position < 1 or position + 7 > len(address):
        return f"invalid separator index {position}"
    return "invalid checksum"


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the 64-byte r‖s signature over SHA-256 of `message` is valid; one with a high s is not."""
    if len(signature) != 64:
        return False
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    if s > _ORDER // 2:
        return False
    try:
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), public_key)
        key.verify(encode_dss_signature(r, s), message, ec.ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        return False
    return True
