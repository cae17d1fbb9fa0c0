"""`python -m devnet.image.locked CHECKOUT`: prints the part of requirements.lock that Lessor needs to run.

requirements.lock has what tests and builds need too. Its comments say which package needs which. This module imports
the standard library only, since `Containerfile` runs it before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Locked", "needed", "runtime_lock"]

_NAME = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;]+)(?P<condition> ;)?")
_EXTRAS = ("postgresql", "redis", "worker")
"""Optional database, bus and queue of the provider: nothing can be installed in a pod."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of requirements.lock: its lines, and the packages that need it. `conditional`: other machines than
    this one may need it alone.
    """

    version: str
    text: str
    wanted_by: frozenset[str]
    conditional: bool


def runtime_lock(checkout: Path) -> str:
    """The lines of requirements.lock, with their hashes, for the packages of `needed`."""
    return "".join(each.text for each in needed(checkout).values())


def needed(checkout: Path) -> Mapping[str, Locked]:
    """The packages that Lessor needs to run, and those that they need, by name and sorted."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    optional = [text for extra in _EXTRAS for text in project["optional-dependencies"][extra]]
    asked = [*project["dependencies"], *optional]
    found = {_plain(re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0]) for text in asked}
    locked = _read(checkout)
    while more := {name for name, each in locked.items() if each.wanted_by & found} - found:
        found |= more
    return {name: locked[name] for name in sorted(found)}


def _read(checkout: Path) -> Mapping[str, Locked]:
    found: dict[str, Locked] = {}
    lines: list[str] = []
    for line in (checkout / "requirements.lock").read_text().splitlines(keepends=True):
        if _NAME.match(line) and lines:
            found |= [_package(lines)]
            lines = []
        lines.append(line)
    return found | dict([_package(lines)])


def _package(lines: list[str]) -> tuple[str, Locked]:
    """A package's name and its lines, of which the last ones are comments: `# via NAME`, or one name a line."""
    match = _NAME.match(lines[0])
    if match is None:
        raise ValueError(f"requirements.lock: {lines[0].strip()!r} names no version")
    comments = [line.strip().removeprefix("#").strip().removeprefix("via").strip() for line in lines if "#" in line]
    wanted_by = frozenset(_plain(text.split(" ")[0]) for text in comments if text)
    return _plain(match[1]), Locked(match[2], "".join(lines), wanted_by, match["condition"] is not None)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.stdout.write(runtime_lock(Path(sys.argv[1])))
