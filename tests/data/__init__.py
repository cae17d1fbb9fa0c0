"""What tests compare with: SDL documents, recordings, published test vectors (README.md). Large files are gzipped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["DATA", "SDL", "document", "names", "read", "rows"]

DATA = Path(__file__).parent
SDL = DATA / "sdl"


def read(name: str) -> bytes:
    """A file by its path below this folder without `.gz`, e.g. `recordings/chain/blocks.jsonl`."""
    plain = DATA / name
    return plain.read_bytes() if plain.exists() else gzip.decompress(plain.with_name(f"{plain.name}.gz").read_bytes())


def document(name: str) -> Any:
    """The content of a JSON file."""
    return json.loads(read(name))


def rows(name: str) -> Iterator[dict[str, Any]]:
    """The lines of a file that has one JSON object a line."""
    yield from map(json.loads, read(name).splitlines())


def names(folder: str, *, ending: str) -> list[str]:
    """Files of a folder, sorted, without the folder, the ending and `.gz`."""
    found = (path.name.removesuffix(".gz") for path in (DATA / folder).iterdir())
    return sorted(name.removesuffix(ending) for name in found if name.endswith(ending))
