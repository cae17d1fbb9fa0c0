"""Where built tools lie, by which key, and how two builders stay out of each other's way."""

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

from devnet.errors import NoCheckout
from devnet.tools.progress import Progress
from devnet.tools.recipes import Adopt, CopyFromCheckout, Recipe, recipe

__all__ = ["Cache", "exclusive", "recipe_hash", "sources"]

_CHECKOUT = Path(__file__).resolve().parents[2]
_SOURCES = ("go.mod", "go.sum", "*.go")


def sources(checkout: Path = _CHECKOUT) -> Path:
    """The folder `tools/` of the checkout. NoCheckout in an installed wheel."""
    folder = checkout / "tools"
    if not (folder / "kubernetes" / "go.mod").is_file():
        raise NoCheckout(folder)
    return folder


def family_files(family: Path) -> list[Path]:
    """What of a family goes into the build and the key: committed files only, never generated ones."""
    return sorted(path for pattern in _SOURCES for path in family.rglob(pattern))


def recipe_hash(chosen: Recipe, root: Path) -> str:
    """Twelve hexadecimal digits over everything that decides what is built: steps, sources, platform.

    `root` is the folder `tools/`. The folder's own place and the files' times do not count.
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
    """The folder outside the checkout: LESSOR_CACHE, else `$XDG_CACHE_HOME/lessor`, else `~/.cache/lessor`."""

    root: Path

    @staticmethod
    def default() -> Cache:
        """As the environment says."""
        if chosen := os.environ.get("LESSOR_CACHE"):
            return Cache(Path(chosen).expanduser().resolve())
        base = os.environ.get("XDG_CACHE_HOME")
        return Cache((Path(base) if base else Path.home() / ".cache") / "lessor")

    def entry(self, key: str) -> Path:
        """A finished build; the folder exists only when it is complete."""
        return self.root / "tools" / key

    def log(self, key: str) -> Path:
        """What the build wrote."""
        return self.root / "logs" / f"{key}.log"

    def lock(self, key: str) -> Path:
        """Held while this key is being built."""
        return self.root / "locks" / key


@contextmanager
def exclusive(lock: Path, *, what: str, progress: Progress) -> Iterator[None]:
    """Hold a file lock; whoever has to wait says so. The kernel frees it when its holder dies."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{what}: another process is at it; waiting for it to finish ({lock})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
