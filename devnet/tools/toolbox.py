"""The toolbox: finds every tool (PATH, then cache), builds missing ones, and gives their paths and environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from devnet.errors import DevnetError, ToolsMissing
from devnet.tools.build import Builder
from devnet.tools.cache import Cache, cache_errors, exclusive, sources
from devnet.tools.progress import Line, Progress, once_a_minute
from devnet.tools.recipes import PLUGIN, TOOLS, Tool, recipe, tool
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
_RESIDENT = "lessor-engine"
ENGINE = ("pulumi", "pulumi-language-python", "pulumi-resource-kubernetes", _RESIDENT)
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
"""The programs of the real node, in addition to CONTROL_PLANE."""
_PLUGIN = "pulumi-resource-kubernetes"


@dataclass(frozen=True)
class Found:
    """Where one tool is; `path` is None if it is missing. `note` has a remark or a remedy."""

    name: str
    where: Literal["PATH", "cache", "missing"]
    path: Path | None = None
    version: str = ""
    note: str = ""


@dataclass(frozen=True)
class Toolbox:
    """The requested tools, all present."""

    programs: Mapping[str, Path]
    pulumi_home: Path | None = None
    """PULUMI_HOME with the Kubernetes plugin; None if the engine's tools were not requested."""
    _cached: tuple[Path, ...] = field(default=(), repr=False)

    def program(self, name: str) -> Path:
        """The absolute path of a program. Raises `KeyError` if it was not requested."""
        return self.programs[name]

    def with_program(self, name: str, path: Path) -> Toolbox:
        """The same tools with another program under this name."""
        return replace(self, programs={**self.programs, name: path})

    def share(self, name: str) -> Path:
        """The folder of a built tool's data files (`metallb-controller`: `crds/*.yaml`)."""
        return self.programs[name].parent.parent / "share"

    def env(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """`base` (default: the environment of this process) with PATH, PULUMI_HOME and LESSOR_PYTHON for these tools.

        The plugin is *not* on PATH, because Pulumi warns about plugins there.
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
    """Where each tool is, in the order of the table of tools. Builds nothing."""
    builder = _builder(cache, Progress(_discard, _discard), throw_away=False)
    return [_find(chosen, builder) for chosen in _chosen(names)]


def ensure_tools(
    names: Sequence[str] | None = (*CONTROL_PLANE, *ENGINE),
    *,
    progress: Progress | None = None,
    build: bool = True,
    throw_away: bool | None = None,
    cache: Cache | None = None,
) -> Toolbox:
    """These tools (None: every tool); missing ones are built now. Blocks; a first build takes many minutes.

    `progress`: where the progress is printed (default: stderr, one line a minute during a build). `build=False`: raise
    `ToolsMissing` in place of building. `throw_away` (default: LESSOR_GO_CACHE=throw-away): see `Builder`. Raises
    `NoCheckout`, `GoMissing` or `BuildFailed`.
    """
    if throw_away is None:
        throw_away = os.environ.get("LESSOR_GO_CACHE") == "throw-away"
    builder = _builder(cache, progress or Progress(_print_stderr, once_a_minute(_print_stderr)), throw_away=throw_away)
    found = [_find(chosen, builder) for chosen in _chosen(names)]
    missing = [row.name for row in found if row.path is None]
    if missing and not build:
        raise ToolsMissing(missing)
    builder.ensure_all([recipe(name) for name in dict.fromkeys(tool(row).recipe for row in missing)])
    return _toolbox([row if row.path else _find(tool(row.name), builder) for row in found], builder)


def _discard(line: str) -> None:
    """Print nothing."""


def _print_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def _builder(cache: Cache | None, progress: Progress, *, throw_away: bool) -> Builder:
    return Builder(sources(), cache or Cache.default(), progress, throw_away)


def _chosen(names: Iterable[str] | None) -> list[Tool]:
    return list(TOOLS) if names is None else [tool(name) for name in names]


def _find(chosen: Tool, builder: Builder) -> Found:
    on_path, note = _on_path(chosen)
    if on_path is not None:
        return on_path
    made = recipe(chosen.recipe)
    program = builder.folder(made) / "bin" / chosen.name
    if program.exists() and builder.complete(made):
        return Found(chosen.name, "cache", program, builder.versions(made).get(chosen.name, ""), note)
    remedy = f"run `lessor doctor --build` (about {made.cpu_seconds or 336} CPU seconds)"
    return Found(chosen.name, "missing", note=f"{note}; {remedy}" if note else remedy)


def _on_path(chosen: Tool) -> tuple[Found | None, str]:
    """The program on PATH if it is usable, else None; and a note why a program is not usable."""
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
        pulumi = programs["pulumi"]
        home = _installed_home(
            builder.cache, pulumi=pulumi, plugin=programs[_PLUGIN], key=key, line=builder.progress.line
        )
        _note_engine(builder.cache, pulumi=pulumi, home=home, resident=_find(tool(_RESIDENT), builder).path)
    return Toolbox(programs, home, tuple(cached))


def _note_engine(cache: Cache, *, pulumi: Path, home: Path, resident: Path | None = None) -> None:
    """Write where Pulumi, its plugin and the resident engine are, for `lessor run` in an environment that names
    none.
    """
    found = {"pulumi": pulumi, "pulumi_home": home} | ({"resident": resident} if resident else {})
    note, text = cache.root / "engine.json", json.dumps({name: str(path) for name, path in found.items()})
    if not note.exists() or note.read_text() != text:
        fresh = note.with_suffix(f".{os.getpid()}")
        fresh.write_text(text)
        fresh.replace(note)


def _installed_home(cache: Cache, *, pulumi: Path, plugin: Path, key: str, line: Line) -> Path:
    """The PULUMI_HOME with this build (`key`) of the plugin, installed now if missing; two processes may call it.

    Each build has its own home, because Pulumi distinguishes plugins only by their versions.
    """
    home = cache.root / "pulumi" / key
    ready = home / ".lessor-ready"
    if ready.exists():
        return home
    with exclusive(cache.lock(f"home-{key}"), what="the Kubernetes plugin", line=line):
        if not ready.exists():
            line("pulumi-resource-kubernetes: installing the plugin for Pulumi")
            with cache_errors(cache):
                _install_plugin(home, pulumi, plugin)
                ready.touch()
    return home


def _install_plugin(home: Path, pulumi: Path, plugin: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    argv = [str(pulumi), "plugin", "install", "resource", "kubernetes", PLUGIN, "--file", str(plugin), "--reinstall"]
    env = {**os.environ, "PULUMI_HOME": str(home), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    if done.returncode:
        raise DevnetError(f"pulumi could not install the plugin {plugin} into {home}: {done.stderr.strip()[-800:]}")
