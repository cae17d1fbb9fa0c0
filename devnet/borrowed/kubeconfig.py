"""One context of a kubeconfig in a separate file, so that the processes of the demo cannot reach another cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from devnet.errors import ClusterUnusable

__all__ = ["chosen_context", "write_kubeconfig"]

_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def chosen_context(kubeconfig: Path, context: str = "") -> dict[str, Any]:
    """The kubeconfig reduced to `context` (default: its current context), with absolute file names. Raises
    `ClusterUnusable`.
    """
    found = _read(kubeconfig)
    name = context or found.get("current-context") or ""
    contexts = {each["name"]: each.get("context") or {} for each in _entries(found, "contexts")}
    if name not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise ClusterUnusable(
            f"{kubeconfig}: there is no context {name!r}; there are: {known}. Choose one by --context"
        )
    chosen = contexts[name]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": chosen}],
        "clusters": [_named(found, "clusters", chosen.get("cluster"), kubeconfig)],
        "users": [_named(found, "users", chosen.get("user"), kubeconfig)],
    }


def write_kubeconfig(document: Mapping[str, Any], path: Path) -> Path:
    """Write the document with mode 0600; returns `path`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        yaml.safe_dump(dict(document), file)
    return path


def _read(kubeconfig: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(kubeconfig.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        raise ClusterUnusable(f"{kubeconfig} cannot be read as a kubeconfig: {error}") from None
    if not isinstance(found, dict):
        raise ClusterUnusable(f"{kubeconfig} is not a kubeconfig")
    return found


def _entries(found: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = found.get(key)
    return [each for each in entries if isinstance(each, dict) and "name" in each] if isinstance(entries, list) else []


def _named(found: Mapping[str, Any], key: str, name: object, kubeconfig: Path) -> dict[str, Any]:
    kind = key.removesuffix("s")
    for each in _entries(found, key):
        if each["name"] == name:
            return {"name": name, kind: _absolute(each.get(kind) or {}, kubeconfig.absolute().parent)}
    raise ClusterUnusable(f"{kubeconfig}: the context names the {kind} {name!r}, which does not exist")


def _absolute(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return {key: str(folder / value) if key in _FILES else value for key, value in entry.items()}
