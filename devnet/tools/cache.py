"""The cache of built tools: its folders, its keys, and the locks that keep two builders apart."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devnet.errors import CacheUnusable, NoCheckout
from devnet.tools.progress import Line
from devnet.tools.recipes import Adopt, CopyFromCheckout, Recipe, recipe

__all__ = ["Cache", "cache_errors", "exclusive", "recipe_hash", "sources"]

_CHECKOUT = Path(__file__).resolve().parents[2]
_SOURCES = ("go.mod", "go.sum", "*.go")


def sources(checkout: Path = _CHECKOUT) -> Path:
    """The folder `tools/` of the checkout. Raises `NoCheckout` in an installed wheel."""
    folder = checkout / "tools"
    if not (folder / "kubernetes" / "go.mod").is_file():
        raise NoCheckout(folder)
    return folder


def family_files(family: Path) -> list[Path]:
    """The files of a family that are part of the build and of its key: Go sources, go.mod and go.sum."""
    return sorted(path for pattern in _SOURCES for path in family.rglob(pattern))


def recipe_hash(chosen: Recipe, root: Path) -> str:
    """A hash of everything that determines the result of a build: steps, sources, platform. Twelve hexadecimal digits.

    `root` is the folder `tools/`. Neither its path nor the times of files are part of the hash.
    """
    digest = hashlib.sha256(json.dumps([sys.platform, platform.machine(), repr(chosen.steps)]).encode())
    for path in _inputs(chosen, root):
        digest.update(f"\0{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    for step in chosen.steps:
        if isinstance(step, Adopt):
            digest.update(recipe_hash(recipe(step.recipe), root).encode())
    return digest.hexdigest()[:12]


def _inputs(chosen: Recipe, root: Path) -> Iterator[Path]:
    yield from family_files(root / chosen.family)
    yield from (root / step.source for step in chosen.steps if isinstance(step, CopyFromCheckout))


@dataclasses.dataclass(frozen=True)
class Cache:
    """The cache's folder: LESSOR_CACHE, else `$XDG_CACHE_HOME/lessor`, else `~/.cache/lessor`."""

    root: Path

    @staticmethod
    def default() -> Cache:
        """The cache that the environment selects."""
        if chosen := os.environ.get("LESSOR_CACHE"):
            return Cache(Path(chosen).expanduser().resolve())
        base = os.environ.get("XDG_CACHE_HOME")
        return Cache((Path(base) if base else Path.home() / ".cache") / "lessor")

    def entry(self, key: str) -> Path:
        """The folder of a finished build; it exists only once the build is complete."""
        return self.root / "tools" / key

    def log(self, key: str) -> Path:
        """The log of the build."""
        return self.root / "logs" / f"{key}.log"

    def lock(self, key: str) -> Path:
        """The lock file that a builder holds during the build."""
        return self.root / "locks" / key


@contextmanager
def cache_errors(cache: Cache) -> Iterator[None]:
    """Raise `CacheUnusable` for a full or read-only disk, or another error of the file system, in the block."""
    try:
        yield
    except OSError as error:
        raise CacheUnusable(cache.root, error) from None


@contextmanager
def exclusive(lock: Path, *, what: str, line: Line) -> Iterator[None]:
    """Hold a file lock; print a line before waiting for another holder. The kernel frees the lock of a dead process.
    Raises `CacheUnusable`.
    """
    with cache_errors(Cache(lock.parent.parent)):
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = lock.open("a")
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            line(f"{what}: waiting for another process that builds it ({lock})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
