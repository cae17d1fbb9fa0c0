"""A family of a test tool, and a stand-in for `go` whose builds take as long as a test needs."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from devnet.tools.build import Builder
from devnet.tools.cache import Cache
from devnet.tools.progress import Progress
from devnet.tools.recipes import GoBuild, Recipe

RECIPE = Recipe("hello", "hello", (GoBuild(".", "hello", variables=("main.greeting=hello",)),), 1)

GO_MOD = "module lessor.example/tools/hello\n\ngo 1.26\n"
MAIN = """package main

import "os"

var greeting string

func main() {
	os.Stdout.WriteString(greeting + " 1.2.3\\n")
}
"""

BUILDS = """  for argument; do test "$previous" = -o && target=$argument; previous=$argument; done
  echo "half of it" >"$target"
  echo "$$" >>"{told}"
  echo "compiling and then: {word}"
  {then}
  printf '#!/bin/sh\\necho {says}\\n' >"$target"
  chmod +x "$target"
"""


def family(folder: Path) -> Path:
    """A folder like `tools/` with one tiny family in it."""
    hello = folder / "hello"
    hello.mkdir(parents=True)
    (hello / "go.mod").write_text(GO_MOD)
    (hello / "go.sum").write_text("")
    (hello / "main.go").write_text(MAIN)
    return folder


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_go(
    folder: Path, *, told: Path, then: str = "true", says: str = "hello 1.2.3", version: str = "1.26.8"
) -> None:
    """A `go` in `folder` that appends its pid to `told` for every build, does `then`, and builds something."""
    body = BUILDS.format(told=told, then=then, says=says, word="a last line")
    script(folder / "go", f'case "$1" in\nenv) echo go{version};;\nbuild)\n{body};;\nesac')


def first_on_path(monkeypatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")


def builder(tmp_path: Path, *, root: Path | None = None, throw_away: bool = False) -> tuple[Builder, list[str]]:
    """A builder with a cache of its own, and what it tells."""
    told: list[str] = []
    chosen = root or family(tmp_path / "tools")
    return Builder(chosen, Cache(tmp_path / "cache"), Progress(told.append, told.append), throw_away), told
