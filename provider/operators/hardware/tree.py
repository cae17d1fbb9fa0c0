"""Reading /sys and /proc below a root folder: the machine's own (`/`), a mounted host (`/host`) or a recording."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Tree"]

_MAX_BYTES = 4 * 1024 * 1024
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Tree:
    """A root folder. Paths are relative to it; what cannot be read is as if it did not exist."""

    root: Path = Path("/")

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """The content without white space around it; empty if the file cannot be read."""
        return self.content(path).decode(errors="replace").strip()

    def content(self, path: str) -> bytes:
        """The first 4 MiB of the file; empty if it cannot be read."""
        try:
            with self.path(path).open("rb") as file:
                return file.read(_MAX_BYTES)
        except OSError:
            return b""

    def number(self, path: str, *, base: int = 10) -> int | None:
        """The content as a number; None for any other content."""
        try:
            return int(self.text(path), base)
        except ValueError:
            return None

    def names(self, path: str) -> list[str]:
        """The entries of a folder: `cpu2` before `cpu10`. Empty if the folder cannot be read."""
        try:
            return sorted((entry.name for entry in self.path(path).iterdir()), key=_natural)
        except OSError:
            return []

    def is_folder(self, path: str) -> bool:
        return self.path(path).is_dir()

    def target(self, path: str) -> str:
        """The target of a symbolic link as it is written; empty for anything else."""
        try:
            return str(self.path(path).readlink())
        except OSError:
            return ""

    def fields(self, path: str) -> Iterator[dict[str, str]]:
        """The blocks of a file of `name : value` lines, between empty lines; the first value of a name counts."""
        for block in self.content(path).decode(errors="replace").split("\n\n"):
            pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
            found: dict[str, str] = {}
            for name, _, value in pairs:
                found.setdefault(name.strip(), value.strip())
            if found:
                yield found


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name)]
