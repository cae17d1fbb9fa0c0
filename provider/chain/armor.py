"""Armored private keys, as `akash keys export` writes them: ASCII armor around bytes that a passphrase encrypts.

Older clients derive the encryption key with bcrypt and use XSalsa20-Poly1305, newer ones Argon2id and
ChaCha20-Poly1305. The plain text is the private key in amino: four bytes of its type, its length, 32 bytes.
"""

from __future__ import annotations

import base64
import binascii
import io
import re

from cosmpy.crypto.keypairs import PrivateKey
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

__all__ = ["unarmored_key"]

_BEGIN, _END = "-----BEGIN TENDERMINT PRIVATE KEY-----", "-----END TENDERMINT PRIVATE KEY-----"
_SECP256K1 = bytes.fromhex("e1b0f79b20")
_SALT = re.compile(r"[0-9a-fA-F]{32}")
_MAX_CHARACTERS = 16_384
_BCRYPT_READS = 72
"""bcrypt ignores the bytes of a passphrase after these."""
_WRONG = "the passphrase does not open this key, or the file is damaged"


def unarmored_key(text: str, passphrase: str) -> bytes:
    """The 32 bytes of a secp256k1 key. Raises ValueError without a character of `text` or `passphrase`."""
    headers, body = _opened(text)
    kind = headers.get("type", "secp256k1")
    if kind != "secp256k1":
        raise ValueError(f"a key of type {kind[:20]!r} cannot sign for an account; secp256k1 is needed")
    if not _SALT.fullmatch(headers.get("salt", "")):
        raise ValueError("the armor has no salt of 32 hex digits")
    match headers.get("kdf"):
        case "argon2":
            return _by_argon2(bytes.fromhex(headers["salt"]), body, passphrase)
        case "bcrypt":
            return _by_bcrypt(text, passphrase)
        case other:
            raise ValueError(f"the armor's kdf is {str(other)[:20]!r}; argon2 and bcrypt can be read")


def _opened(text: str) -> tuple[dict[str, str], bytes]:
    lines = [line.strip() for line in text[:_MAX_CHARACTERS].strip().splitlines()]
    if len(lines) < 4 or lines[0] != _BEGIN or lines[-1] != _END:
        raise ValueError(f"not an exported key: it must start with {_BEGIN} and end with {_END}")
    start = next((index for index, line in enumerate(lines) if index and ":" not in line), len(lines))
    pairs = (line.partition(":") for line in lines[1:start])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    body = [line for line in lines[start:-1] if not line.startswith("=")]
    try:
        return headers, base64.b64decode("".join(body), validate=True)
    except binascii.Error:
        raise ValueError("the armor's body is not base64") from None


def _by_argon2(salt: bytes, body: bytes, passphrase: str) -> bytes:
    """Decrypt with Argon2id and ChaCha20-Poly1305. The nonce is fixed, since every export has a salt of its own."""
    derived = Argon2id(salt=salt, length=32, iterations=1, lanes=4, memory_cost=64 * 1024).derive(passphrase.encode())
    try:
        plain = ChaCha20Poly1305(derived).decrypt(bytes(12), body, None)
    except InvalidTag:
        raise ValueError(_WRONG) from None
    return _amino(plain)


def _by_bcrypt(text: str, passphrase: str) -> bytes:
    short = passphrase.encode()[:_BCRYPT_READS].decode(errors="strict")
    try:
        private = PrivateKey.from_bcrypt_key(io.BytesIO(text.strip().encode()), short)
    except Exception:
        raise ValueError(_WRONG) from None
    return bytes(private.private_key_bytes)


def _amino(plain: bytes) -> bytes:
    if len(plain) != len(_SECP256K1) + 32 or not plain.startswith(_SECP256K1):
        raise ValueError("the file does not hold a secp256k1 key")
    return plain[len(_SECP256K1) :]
