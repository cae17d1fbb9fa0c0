"""Looking for a secret in every form it may have taken: text, base64, hex, compressed, and each inside another."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["Canary", "Watch"]

_DEPTH = 3
_LARGEST = 16 << 20
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{32,}={0,2}")
_HEX = re.compile(rb"(?:[0-9a-fA-F]{2}){24,}")
_STREAM = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")


class Canary:
    """`value` has what JSON, URLs, Go and shells escape; its `core` is letters and digits, which nothing escapes, so
    every textual form holds it.
    """

    def __init__(self) -> None:
        self.core = "kanari" + secrets.token_hex(9)
        self.value = f"\"{self.core}'\\<&>%$ {self.core[::-1]}"

    def found(self, content: bytes, *, depth: int = _DEPTH) -> bool:
        if any(form in content for form in self._forms()):
            return True
        return depth > 0 and any(self.found(inner, depth=depth - 1) for inner in _unpacked(content))

    def context(self, content: bytes) -> str:
        """What stands before a plain hit, without the canary: enough to see which property leaks."""
        before, hit, _ = content.partition(self.core.encode())
        return before[-300:].decode(errors="replace") if hit else "(encoded)"

    def in_files(self, roots: Iterable[Path]) -> list[str]:
        """Files below `roots` (SQLite ones also cell by cell) that hold it."""
        files = (path for root in roots for path in ([root] if root.is_file() else root.rglob("*")))
        return [str(path) for path in files if self._in_file(path)]

    def _in_file(self, path: Path) -> bool:
        try:
            if path.is_symlink() or not path.is_file():
                return self.found(path.name.encode())
            content = path.read_bytes()
        except OSError:  # gone meanwhile
            return False
        cells = _cells(path) if content.startswith(b"SQLite format 3") else ()
        return self.found(content) or any(self.found(cell) for cell in cells)

    def _forms(self) -> tuple[bytes, ...]:
        core = self.core.encode()
        shifted = (base64.b64encode(b"\0" * shift + core) for shift in range(3))
        return (core, core.hex().encode(), core.hex().upper().encode(), *(text[4:-4] for text in shifted))


def _unpacked(content: bytes) -> Iterator[bytes]:
    """What may be inside: decompressed streams, decoded base64 and hex."""
    for match in _STREAM.finditer(content):
        try:
            yield zlib.decompressobj(47).decompress(content[match.start() :], _LARGEST)
        except zlib.error:
            continue
    for match in _BASE64.finditer(content):
        text = match[0].rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        try:
            yield base64.b64decode(text[: len(text) // 4 * 4])
        except binascii.Error:
            continue
    yield from (bytes.fromhex(match[0].decode()) for match in _HEX.finditer(content))


def _cells(path: Path) -> Iterator[bytes]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                yield from (cell if isinstance(cell, bytes) else str(cell).encode() for cell in row)
    finally:
        connection.close()


class Watch:
    """While it is open a thread looks at every process of this user's and at folders whose files come and go.

    `seen`: names of the programs looked at, which shows that it did look; `leaks`: where the canary was.
    """

    def __init__(self, canary: Canary, folders: Iterable[Path]) -> None:
        self.seen: set[str] = set()
        self.leaks: set[str] = set()
        self.contexts: dict[str, str] = {}
        self._canary = canary
        self._folders = tuple(folders)
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._looked: dict[str, bytes] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _look(self) -> None:
        while not self._over.is_set():
            for folder in self._folders:
                self._files(folder)
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    self._process(entry)
            time.sleep(0.05)

    def _process(self, entry: Path) -> None:
        try:
            line = (entry / "cmdline").read_bytes()
            if not line or self._looked.get(entry.name) == line:
                return
            content = line + b"\0" + (entry / "environ").read_bytes()
            name = (entry / "comm").read_text().strip()
        except OSError:
            return
        self._looked[entry.name] = line
        self.seen.add(name)
        if self._canary.found(content, depth=0):
            self.leaks.add(f"process {name}")

    def _files(self, folder: Path) -> None:
        for path in _walk(folder):
            try:
                facts = path.stat()
            except OSError:
                continue
            version = (facts.st_size, facts.st_mtime_ns)
            if self._sizes.get(path) != version:
                self._sizes[path] = version
                if self._canary.in_files([path]):
                    self.leaks.add(str(path))
                    self.contexts.setdefault(path.suffix, self._context(path))

    def _context(self, path: Path) -> str:
        try:
            return self._canary.context(path.read_bytes())
        except OSError:
            return "(gone)"


def _walk(folder: Path) -> Iterator[Path]:
    try:
        yield from [path for path in folder.rglob("*") if path.is_file()]
    except OSError:  # a folder that went while it was read
        return
