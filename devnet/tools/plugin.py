"""The Kubernetes plugin of Pulumi, installed in a PULUMI_HOME inside the cache and never in the user's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from devnet.errors import DevnetError
from devnet.tools.cache import Cache, exclusive
from devnet.tools.progress import Line
from devnet.tools.recipes import PLUGIN

__all__ = ["installed_home"]


def installed_home(cache: Cache, *, pulumi: Path, plugin: Path, key: str, line: Line) -> Path:
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
            _install(home, pulumi, plugin)
            ready.touch()
    return home


def _install(home: Path, pulumi: Path, plugin: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    argv = [str(pulumi), "plugin", "install", "resource", "kubernetes", PLUGIN, "--file", str(plugin), "--reinstall"]
    env = {**os.environ, "PULUMI_HOME": str(home), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    if done.returncode:
        raise DevnetError(f"pulumi could not install the plugin {plugin} into {home}: {done.stderr.strip()[-800:]}")
