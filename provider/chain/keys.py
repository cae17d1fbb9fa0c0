"""The provider's key: read once, never printed. Addresses are bech32 `akash` over secp256k1, HD path m/44'/118'/0'/0/N
(chain.md §2).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from cosmpy.crypto.address import Address
from cosmpy.crypto.keypairs import PrivateKey
from cosmpy.mnemonic import (
    ENGLISH_MNEMONIC_WORDS_LIST,
    derive_child_key_from_mnemonic,
    validate_mnemonic_and_normalise,
)

from provider.chain.armor import unarmored_key
from provider.chain.keyring import known_password, ring_key
from provider.errors import SettingsError
from provider.settings import Settings

__all__ = ["SigningKey", "key_from_mnemonic", "key_source", "load_key", "open_to_others"]

_PREFIX = "akash"


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key and its address; `private` appears in no text."""

    address: str
    private: PrivateKey = field(repr=False, compare=False)

    @property
    def private_bytes(self) -> bytes:
        """32 bytes, for the TLS certificate of the account and for signing tokens."""
        return bytes(self.private.private_key_bytes)

    @property
    def certificate_passwords(self) -> tuple[bytes, bytes]:
        """The passwords of the account certificate's key (gateway.md §2.1): the signature of the address as text, and
        that of its 20 bytes, with which older Go providers wrote it.
        """
        raw = bytes(Address(self.address))
        return self._signed(self.address.encode()), self._signed(raw)

    def _signed(self, message: bytes) -> bytes:
        return bytes(self.private.sign(message, deterministic=True))

    @property
    def public_bytes(self) -> bytes:
        """33-byte compressed public key."""
        return bytes(self.private.public_key.public_key_bytes)


@lru_cache(maxsize=1)  # a start needs the key twice, and its curve is computed in Python
def key_from_mnemonic(words: str, *, index: int = 0) -> SigningKey:
    """The key at m/44'/118'/0'/0/`index`. Raises ValueError without a word of the mnemonic."""
    try:
        normal = validate_mnemonic_and_normalise(words)
        if not _checksum_holds(normal.split()):
            raise ValueError
    except Exception:
        raise ValueError(
            "not a valid BIP-39 mnemonic: check the number of words, their spelling and their order"
        ) from None
    return _key(derive_child_key_from_mnemonic(normal, path=f"m/44'/118'/0'/0/{index}"))


def _checksum_holds(words: list[str]) -> bool:
    """Whether the last bits equal a hash of the others, which detects a wrong word (BIP-39)."""
    bits = "".join(f"{ENGLISH_MNEMONIC_WORDS_LIST.index(word):011b}" for word in words)
    size = len(words) * 32 // 3
    entropy = int(bits[:size], 2).to_bytes(size // 8, "big")
    digest = int.from_bytes(hashlib.sha256(entropy).digest(), "big")
    return bits[size:] == f"{digest:0256b}"[: len(bits) - size]


def key_source(settings: Settings) -> str:
    """The variable that names the key. Raises `SettingsError` when none or several are set."""
    given = [name for name, value in _sources(settings).items() if value is not None]
    if len(given) != 1:
        found = "none is set" if not given else f"{' and '.join(given)} are set"
        raise SettingsError(
            f"exactly one of {', '.join(_sources(settings))} must be set to the provider's key; {found}"
        )
    return given[0]


def load_key(settings: Settings) -> SigningKey:
    """The provider's key from the one source that is set. Raises `SettingsError` naming the variable, never its
    content.
    """
    key = _from_sources(settings)
    if settings.provider_address and settings.provider_address != key.address:
        raise SettingsError(
            f"AP_FROM={settings.provider_address}: the given key has address {key.address}; correct one of the two"
        )
    return key


def _sources(settings: Settings) -> dict[str, object]:
    return {
        "LESSOR_MNEMONIC_FILE": settings.mnemonic_file,
        "LESSOR_MNEMONIC": settings.mnemonic,
        "LESSOR_PRIVATE_KEY_FILE": settings.private_key_file,
        "LESSOR_ARMORED_KEY_FILE": settings.armored_key_file,
        "LESSOR_KEYRING_FILE": settings.keyring_file,
    }


def _from_sources(settings: Settings) -> SigningKey:
    source = key_source(settings)
    try:
        return _read(source, settings)
    except (ValueError, OSError) as error:
        raise SettingsError(f"{source}: {_reason(error)}") from None


def _read(name: str, settings: Settings) -> SigningKey:
    if name == "LESSOR_PRIVATE_KEY_FILE" and settings.private_key_file is not None:
        return _key(_hex_key(_secret_text(settings.private_key_file)))
    if name == "LESSOR_ARMORED_KEY_FILE" and settings.armored_key_file is not None:
        return _key(unarmored_key(_secret_text(settings.armored_key_file), _passphrase(settings)))
    if name == "LESSOR_KEYRING_FILE" and (ring := settings.keyring_file) is not None:
        return _key(ring_key(_secret_text(ring), known_password(ring) or _passphrase(settings)))
    if settings.mnemonic_file is not None:
        words = _secret_text(settings.mnemonic_file)
    else:
        words = settings.mnemonic.get_secret_value() if settings.mnemonic else ""
    return key_from_mnemonic(words, index=settings.key_index)


def _passphrase(settings: Settings) -> str:
    if settings.passphrase_file is None:
        raise ValueError("LESSOR_PASSPHRASE_FILE is not set: an exported key needs the passphrase of its export")
    return _secret_text(settings.passphrase_file)


def _reason(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _secret_text(path: Path) -> str:
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if open_to_others(mode, found.st_uid, found.st_gid, user=os.geteuid(), group=os.getegid()):
        raise ValueError(f"{path} has mode {mode:04o}, others may read it; run: chmod 600 {path}")
    try:
        return path.read_text(encoding="utf-8-sig").strip()  # some editors begin a file with a byte order mark
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text") from None


def open_to_others(mode: int, owner: int, owning_group: int, *, user: int, group: int) -> bool:
    """Whether another user than `user` may use a file. One that a kubelet mounts is root's, and only the pod's own
    group may read it.
    """
    if owner == 0 != user and owning_group == group:
        return mode & 0o037 != 0
    return mode & 0o077 != 0


def _hex_key(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise ValueError("the file must hold 64 hex digits and nothing else")
    return bytes.fromhex(text)


def _key(secret: bytes) -> SigningKey:
    try:
        private = PrivateKey(secret)
    except Exception:
        raise ValueError("not a valid secp256k1 key") from None
    return SigningKey(address=str(Address(private.public_key, _PREFIX)), private=private)
