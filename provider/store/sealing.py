"""Sealing: data of tenants is stored encrypted with the operator's key (Fernet: AES-128-CBC with HMAC-SHA-256).

The key file, mode 0600, has one key a line; the first encrypts, all of them decrypt. To change the key, put a new first
line (`python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"`) and restart: the
start encrypts the store with the new key, and the old line may be removed.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from provider.errors import StoreError
from stacks.common import write_private

__all__ = ["KeyRing", "load_ring", "make_key"]


@dataclass(frozen=True, slots=True, repr=False)
class KeyRing:
    """Keys, the newest first. `ids`: how the store identifies them, 16 hex digits of SHA-256 each."""

    ids: tuple[str, ...]
    keys: MultiFernet

    @classmethod
    def of(cls, keys: Iterable[str]) -> KeyRing:
        """A ring of these keys. Raises ValueError for an invalid Fernet key, without its text."""
        texts = tuple(keys)
        ids = tuple(hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts)
        return cls(ids, MultiFernet([Fernet(text) for text in texts]))

    @property
    def newest(self) -> str:
        return self.ids[0]

    def seal(self, plain: bytes) -> bytes:
        """The text, compressed and encrypted with the newest key."""
        return self.keys.encrypt(zlib.compress(plain))

    def open(self, sealed: bytes) -> bytes:
        """The plain text. Raises `StoreError` when no key of the ring fits or the sealed text is damaged."""
        try:
            return zlib.decompress(self.keys.decrypt(sealed))
        except (InvalidToken, zlib.error):
            raise StoreError("the stored text cannot be decrypted with these keys, or it is damaged") from None


def load_ring(path: Path) -> KeyRing:
    """The keys in `path`. Raises `StoreError` naming the file, never its content."""
    try:
        lines = [line.strip() for line in path.read_text("ascii").splitlines()]
        return KeyRing.of(line for line in lines if line and not line.startswith("#"))
    except OSError as error:
        raise StoreError(f"the store's key {path}: {error.strerror}") from None
    except ValueError:
        problem = "has a line that is not a key (44 characters of URL-safe base64), or no line"
        raise StoreError(f"the store's key {path} {problem}; restore the file") from None


def make_key(path: Path) -> None:
    """Write a new key to `path`, completely or not at all. Raises `StoreError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, Fernet.generate_key().decode() + "\n")
    except OSError as error:
        raise StoreError(f"the store's key {path} cannot be written: {error.strerror}") from None
