"""A key in a keyring folder of the Cosmos SDK, as the Go provider keeps it: `<home>/keyring-file/<name>.info` or
`<home>/keyring-test/<name>.info`.

The file is a JWE in compact form (RFC 7516): PBES2-HS256+A128KW wraps a key for A256GCM. Inside is a JSON item, and in
it the record of the key as protobuf. The keyring `test` has a password that everybody knows.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from cosmpy.protos.cosmos.crypto.keyring.v1.record_pb2 import Record
from cosmpy.protos.cosmos.crypto.secp256k1.keys_pb2 import PrivKey
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap
from google.protobuf.message import DecodeError

__all__ = ["known_password", "ring_key"]

_WRAPPED, _SEALED = "PBES2-HS256+A128KW", "A256GCM"
_MAX_CHARACTERS = 65_536
_MAX_ITERATIONS = 1_000_000
"""The SDK takes 8192. A file that asks for more than this would occupy the start."""
_SECP256K1 = "/cosmos.crypto.secp256k1.PrivKey"
_TEST_FOLDER, _TEST_PASSWORD = "keyring-test", "test"
_WRONG = "the passphrase does not open this key, or the file is damaged"


def known_password(path: Path) -> str | None:
    """The password of a file in a keyring `test`; None for any other file."""
    return _TEST_PASSWORD if path.parent.name == _TEST_FOLDER else None


def ring_key(text: str, passphrase: str) -> bytes:
    """The 32 bytes of a secp256k1 key. Raises ValueError without a character of `text` or `passphrase`."""
    item = _document(_opened(text[:_MAX_CHARACTERS].strip(), passphrase))
    try:
        record = Record.FromString(base64.b64decode(str(item.get("Data")), validate=True))
    except (binascii.Error, DecodeError):
        raise ValueError("the item holds no key record: export the key with `keys export`") from None
    if not record.HasField("local"):
        kinds = "the key is on a device, offline or of several signers"
        raise ValueError(f"the record {record.name[:64]!r} holds no private key: {kinds}")
    kind = record.local.priv_key.type_url
    if kind != _SECP256K1:
        raise ValueError(f"a key of type {kind[:60]!r} cannot sign for an account; secp256k1 is needed")
    try:
        return bytes(PrivKey.FromString(record.local.priv_key.value).key)
    except DecodeError:
        raise ValueError(_WRONG) from None


def _opened(text: str, passphrase: str) -> bytes:
    parts = text.split(".")
    if len(parts) != 5:
        raise ValueError("not a file of a keyring: five parts with dots between them are expected")
    try:
        header_bytes, wrapped, nonce, sealed, tag = map(_decoded, parts)
    except (binascii.Error, ValueError):
        raise ValueError("not a file of a keyring: a part is not base64") from None
    header = _document(header_bytes)
    if (header.get("alg"), header.get("enc")) != (_WRAPPED, _SEALED):
        raise ValueError(f"the file is not encrypted with {_WRAPPED} and {_SEALED}")
    try:
        key = aes_key_unwrap(_wrapping_key(header, passphrase), wrapped)
        return AESGCM(key).decrypt(nonce, sealed + tag, parts[0].encode())
    except (InvalidUnwrap, InvalidTag, ValueError):
        raise ValueError(_WRONG) from None


def _wrapping_key(header: dict[str, Any], passphrase: str) -> bytes:
    """The key of RFC 7518 §4.8: the salt begins with the name of the algorithm."""
    count = header.get("p2c")
    if not isinstance(count, int) or not 0 < count <= _MAX_ITERATIONS:
        raise ValueError(_WRONG)
    salt = _WRAPPED.encode() + b"\0" + _decoded(str(header.get("p2s", "")))
    return PBKDF2HMAC(SHA256(), length=16, salt=salt, iterations=count).derive(passphrase.encode())


def _decoded(part: str) -> bytes:
    return base64.b64decode(part.encode() + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)


def _document(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(_WRONG) from None
    if not isinstance(document, dict):
        raise ValueError(_WRONG)
    return document
