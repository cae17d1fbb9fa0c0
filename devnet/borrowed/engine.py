"""The user's own Pulumi: found on PATH, never built; each missing part is named with its remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from devnet.errors import EngineIncomplete
from devnet.tools import Toolbox
from devnet.tools.recipes import PLUGIN, tool
from devnet.tools.versions import new_enough, probe, shown

__all__ = ["own_engine"]

_HOST = "pulumi-language-python"
_INSTALL = "see https://www.pulumi.com/docs/install/"
_TIMEOUT_S = 60


def own_engine() -> Toolbox:
    """Pulumi, its Python language host and its Kubernetes plugin, from PATH and the user's PULUMI_HOME (default:
    ~/.pulumi). Raises `EngineIncomplete` with all missing parts.
    """
    pulumi = shutil.which("pulumi")
    missing = [*_missing_programs(pulumi), *(_missing_plugin(pulumi) if pulumi else ())]
    if missing or pulumi is None:
        raise EngineIncomplete(missing)
    home = os.environ.get("PULUMI_HOME")
    return Toolbox({"pulumi": Path(pulumi).absolute()}, Path(home) if home else None)


def _missing_programs(pulumi: str | None) -> Iterator[str]:
    wanted = tool("pulumi")
    if pulumi is None:
        yield f"pulumi {shown(wanted.minimum)} or newer on PATH: {_INSTALL}"
        return
    version = probe(wanted, Path(pulumi))
    if not new_enough(wanted, version):
        found = shown(version) or "of unknown version"
        yield f"pulumi {shown(wanted.minimum)} or newer; {pulumi} is {found}: {_INSTALL}"
    if shutil.which(_HOST) is None and not Path(pulumi).resolve().with_name(_HOST).exists():
        yield f"{_HOST}, a part of Pulumi, beside {pulumi} or on PATH: {_INSTALL}"


def _missing_plugin(pulumi: str) -> Iterator[str]:
    """The SDK uses the plugin of exactly its own version."""
    found = _plugins(pulumi)
    if PLUGIN not in found:
        others = f" (found: {', '.join(sorted(found))})" if found else ""
        yield f"Pulumi's Kubernetes plugin {PLUGIN}{others}: pulumi plugin install resource kubernetes {PLUGIN}"


def _plugins(pulumi: str) -> set[str]:
    argv = [pulumi, "plugin", "ls", "--json"]
    env = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, env=env, check=True)
        return {str(each["version"]).removeprefix("v") for each in json.loads(done.stdout) if _is_kubernetes(each)}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return set()


def _is_kubernetes(plugin: dict[str, object]) -> bool:
    return plugin["name"] == "kubernetes" and plugin.get("kind", "resource") == "resource"
