"""Find every tool (PATH, then cache), build what is missing, and hand out paths and an environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from devnet.errors import ToolsMissing
from devnet.tools.build import Builder
from devnet.tools.cache import Cache, sources
from devnet.tools.plugin import installed_home
from devnet.tools.progress import Voice, once_a_minute
from devnet.tools.recipes import TOOLS, Tool, recipe, tool
from devnet.tools.versions import new_enough, probe, shown

__all__ = ["CONTROL_PLANE", "ENGINE", "NODE", "Found", "Toolbox", "ensure_tools", "survey"]

CONTROL_PLANE = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "metallb-controller",
)
ENGINE = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes")
NODE = (
    "kubelet",
    "kube-proxy",
    "kube-network-policies",
    "edge",
    "containerd",
    "containerd-shim-runc-v2",
    "runc",
    "coredns",
    "metallb-speaker",
    "standin",
)
"""What the real node needs beside CONTROL_PLANE."""
_PLUGIN = "pulumi-resource-kubernetes"


@dataclass(frozen=True)
class Found:
    """Where one tool is. `note` says what to know or do; `path` is None when it is missing."""

    name: str
    where: Literal["PATH", "cache", "missing"]
    path: Path | None = None
    version: str = ""
    note: str = ""


@dataclass(frozen=True)
class Toolbox:
    """The tools that were asked for, all present."""

    programs: Mapping[str, Path]
    pulumi_home: Path | None = None
    """PULUMI_HOME with the Kubernetes plugin installed; None when the engine's tools were not asked for."""
    _cached: tuple[Path, ...] = field(default=(), repr=False)

    def program(self, name: str) -> Path:
        """Absolute path of a program; KeyError if it was not asked for."""
        return self.programs[name]

    def with_program(self, name: str, path: Path) -> Toolbox:
        """The same tools, but another program under this name."""
        return replace(self, programs={**self.programs, name: path})

    def share(self, name: str) -> Path:
        """Folder of the data files that came with a built tool (`metallb-controller`: `crds/*.yaml`)."""
        return self.programs[name].parent.parent / "share"

    def env(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """`base` (the process's own environment) with PATH, PULUMI_HOME and LESSOR_PYTHON set for these tools.

        The plugin is *not* put on PATH: Pulumi warns about plugins it finds there.
        """
        inherited = dict(os.environ if base is None else base)
        folders = [*map(str, self._cached), *filter(None, [inherited.get("PATH", os.defpath)])]
        own = {"PATH": os.pathsep.join(folders), "LESSOR_PYTHON": sys.executable}
        if self.pulumi_home is not None:
            own |= {
                "PULUMI_HOME": str(self.pulumi_home),
                "PULUMI_SKIP_UPDATE_CHECK": "true",
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            }
        return inherited | own


def survey(names: Iterable[str] | None = None, *, cache: Cache | None = None) -> list[Found]:
    """What there is, building nothing. One row a tool, in the order of the table of tools."""
    builder = _builder(cache, Voice(_nothing, _nothing), throw_away=False)
    return [_find(chosen, builder) for chosen in _chosen(names)]


def ensure_tools(
    names: Sequence[str] = (*CONTROL_PLANE, *ENGINE),
    *,
    voice: Voice | None = None,
    build: bool = True,
    throw_away: bool | None = None,
    cache: Cache | None = None,
) -> Toolbox:
    """These tools, built where missing. Blocks; a first build takes many minutes.

    `voice`: who is told how it goes (default: lines on stderr, one a minute while a tool is being built).
    `build=False` raises ToolsMissing instead. `throw_away` (default: LESSOR_GO_CACHE=throw-away) see Builder.
    Raises NoCheckout, GoMissing, BuildFailed.
    """
    if throw_away is None:
        throw_away = os.environ.get("LESSOR_GO_CACHE") == "throw-away"
    builder = _builder(cache, voice or Voice(_on_stderr, once_a_minute(_on_stderr)), throw_away=throw_away)
    found = [_find(chosen, builder) for chosen in _chosen(names)]
    missing = [row.name for row in found if row.path is None]
    if missing and not build:
        raise ToolsMissing(missing)
    builder.ensure_all([recipe(name) for name in dict.fromkeys(tool(row).recipe for row in missing)])
    return _toolbox([row if row.path else _find(tool(row.name), builder) for row in found], builder)


def _nothing(line: str) -> None:
    """Told, and not said."""


def _on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _builder(cache: Cache | None, voice: Voice, *, throw_away: bool) -> Builder:
    return Builder(sources(), cache or Cache.default(), voice, throw_away)


def _chosen(names: Iterable[str] | None) -> list[Tool]:
    return list(TOOLS) if names is None else [tool(name) for name in names]


def _find(chosen: Tool, builder: Builder) -> Found:
    on_path, note = _on_path(chosen)
    if on_path is not None:
        return on_path
    made = recipe(chosen.recipe)
    program = builder.folder(made) / "bin" / chosen.name
    if program.exists():
        return Found(chosen.name, "cache", program, builder.versions(made).get(chosen.name, ""), note)
    remedy = f"run `lessor doctor --build` (about {made.cpu_seconds or 336} CPU seconds)"
    return Found(chosen.name, "missing", note=f"{note}; {remedy}" if note else remedy)


def _on_path(chosen: Tool) -> tuple[Found | None, str]:
    """The program on PATH if it may be used; else a note on why not."""
    program = shutil.which(chosen.name) if chosen.on_path else None
    if program is None:
        return None, ""
    if chosen.companion and shutil.which(chosen.companion) is None:
        return None, f"{program} is not used: {chosen.companion} is not on PATH beside it"
    version = probe(chosen, Path(program)) if chosen.version_args else None
    if new_enough(chosen, version):
        return Found(chosen.name, "PATH", Path(program).absolute(), shown(version)), ""
    relation = "not" if chosen.exact else "older than"
    return (
        None,
        f"{program} is not used: its version {shown(version) or '(unknown)'} is {relation} {shown(chosen.minimum)}",
    )


def _toolbox(found: Sequence[Found], builder: Builder) -> Toolbox:
    programs = {row.name: row.path for row in found if row.path is not None}
    cached = dict.fromkeys(
        row.path.parent for row in found if row.path and row.where == "cache" and row.name != _PLUGIN
    )
    home = None
    if _PLUGIN in programs and "pulumi" in programs:
        key = builder.key(recipe(tool(_PLUGIN).recipe))
        home = installed_home(
            builder.cache, pulumi=programs["pulumi"], plugin=programs[_PLUGIN], key=key, progress=builder.voice.line
        )
    return Toolbox(programs, home, tuple(cached))
