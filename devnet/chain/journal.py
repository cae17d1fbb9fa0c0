"""The journal: blocks on disk, a line each, which run again at the next start. The state is not written."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from devnet.chain.genesis import Genesis

__all__ = ["Journal"]

_FILE = "blocks.jsonl"


class Journal:
    """Append-only list of (height, time, transactions) in a folder, bound to one genesis."""

    def __init__(self, folder: Path, genesis: Genesis) -> None:
        """Raises `ValueError` if the folder belongs to another genesis."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / _FILE
        digest = hashlib.sha256(repr(genesis).encode()).hexdigest()
        if self._path.exists() and self._head() != digest:
            raise ValueError(f"{self._path} was written by another genesis; use an empty folder")
        if not self._path.exists():
            self._path.write_text(json.dumps({"genesis": digest}) + "\n")
        self._drop_cut_line()
        self._file: TextIO = self._path.open("a")

    def _head(self) -> str:
        with self._path.open() as lines:
            return str(json.loads(lines.readline() or "{}").get("genesis", ""))

    def _drop_cut_line(self) -> None:
        """Remove an incomplete last line, which a crash can leave, so that the next line starts a new one."""
        whole = self._path.read_bytes().rfind(b"\n") + 1
        with self._path.open("r+b") as file:
            file.truncate(whole)

    def blocks(self) -> Iterator[tuple[int, int, list[bytes]]]:
        """The appended blocks."""
        with self._path.open() as lines:
            next(lines)
            for line in lines:
                height, time_ns, txs = json.loads(line)
                yield height, time_ns, [base64.b64decode(tx) for tx in txs]

    def append(self, height: int, time_ns: int, txs: Sequence[bytes]) -> None:
        """Append a block and flush it to the operating system."""
        self._file.write(json.dumps([height, time_ns, [base64.b64encode(tx).decode() for tx in txs]]) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()
