"""The operator's key: what tenants gave us lies in the store only encrypted (Fernet: AES-128-CBC with HMAC-SHA-256).

The key file has one key a line, mode 0600; the first encrypts, all of them decrypt. To change the key put a new first
line (`python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"`) and start again: what
is stored is encrypted anew at the start, after which the old line may go.
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
    """Keys, the newest first; `ids` are what the store remembers of them: 16 hex digits of SHA-256."""

    ids: tuple[str, ...]
    keys: MultiFernet

    @classmethod
    def of(cls, keys: Iterable[str]) -> KeyRing:
        """Raises ValueError for what is no Fernet key, without repeating it."""
        texts = tuple(keys)
        ids = tuple(hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts)
        return cls(ids, MultiFernet([Fernet(text) for text in texts]))

    @property
    def newest(self) -> str:
        return self.ids[0]

    def seal(self, plain: bytes) -> bytes:
        """Compressed and encrypted with the newest key."""
        return self.keys.encrypt(zlib.compress(plain))

    def open(self, sealed: bytes) -> bytes:
        """Raises `StoreError` when no key of the ring fits, or it was damaged."""
        try:
            return zlib.decompress(self.keys.decrypt(sealed))
        except (InvalidToken, zlib.error):
            raise StoreError("what is stored cannot be decrypted with this key, or it is damaged") from None


def load_ring(path: Path) -> KeyRing:
    """The keys in `path`. Raises `StoreError` naming the file, never its content."""
    try:
        lines = [line.strip() for line in path.read_text("ascii").splitlines()]
        return KeyRing.of(line for line in lines if line and not line.startswith("#"))
    except OSError as error:
        raise StoreError(f"the store's key {path}: {error.strerror}") from None
    except ValueError:
        problem = "has a line that is no key (44 characters of URL-safe base64), or has none"
        raise StoreError(f"the store's key {path} {problem}; restore the file") from None


def make_key(path: Path) -> None:
    """A fresh key in `path`, which appears whole or not at all. Raises `StoreError`."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, Fernet.generate_key().decode() + "\n")
    except OSError as error:
        raise StoreError(f"the store's key {path} cannot be written: {error.strerror}") from None
