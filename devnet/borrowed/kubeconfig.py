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
_LARGEST = 4 * 1024 * 1024
"""In bytes. A cluster with its user has about 6 KB."""


def chosen_context(kubeconfig: Path, context: str = "") -> dict[str, Any]:
    """The kubeconfig reduced to `context` (default: its current context), with absolute file names. Raises
    `ClusterUnusable`.
    """
    found = _read(kubeconfig)
    name = context or found.get("current-context") or ""
    chosen = _entry(found, "context", name, kubeconfig)
    if chosen is None:
        known = ", ".join(sorted(str(each["name"]) for each in _entries(found, "context"))) or "none"
        raise ClusterUnusable(
            f"{kubeconfig}: there is no context {name!r}; there are: {known}. Choose one by --context"
        )
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": chosen}],
        "clusters": [_named(found, "cluster", chosen.get("cluster"), kubeconfig)],
        "users": [_named(found, "user", chosen.get("user"), kubeconfig)],
    }


def write_kubeconfig(document: Mapping[str, Any], path: Path) -> Path:
    """Write the document with mode 0600; returns `path`."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        yaml.safe_dump(dict(document), file)
    return path


def _read(kubeconfig: Path) -> dict[str, Any]:
    try:
        with kubeconfig.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ClusterUnusable(f"{kubeconfig} has more than {_LARGEST} bytes; no kubeconfig is that long")
        found = yaml.safe_load(content)
    except yaml.YAMLError as error:  # its text quotes the line, which may hold a token
        problem = getattr(error, "problem", None) or type(error).__name__
        raise ClusterUnusable(f"{kubeconfig} cannot be read as a kubeconfig: {problem}") from None
    except (OSError, ValueError) as error:  # ValueError: a date or a number that Python cannot hold
        raise ClusterUnusable(f"{kubeconfig} cannot be read as a kubeconfig: {error}") from None
    except RecursionError:
        raise ClusterUnusable(f"{kubeconfig} cannot be read as a kubeconfig: it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ClusterUnusable(f"{kubeconfig} is not a kubeconfig")
    return found


def _entries(found: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    entries = found.get(f"{kind}s")
    return [each for each in entries if isinstance(each, dict) and "name" in each] if isinstance(entries, list) else []


def _entry(found: Mapping[str, Any], kind: str, name: object, kubeconfig: Path) -> dict[str, Any] | None:
    """The first entry of that name, as kubectl takes it; None if there is none."""
    for each in _entries(found, kind):
        if each["name"] == name:
            entry = each.get(kind) or {}
            if not isinstance(entry, dict):
                raise ClusterUnusable(f"{kubeconfig}: the {kind} {name!r} is no mapping of names to values")
            return entry
    return None


def _named(found: Mapping[str, Any], kind: str, name: object, kubeconfig: Path) -> dict[str, Any]:
    entry = _entry(found, kind, name, kubeconfig)
    if entry is None:
        raise ClusterUnusable(f"{kubeconfig}: the context names the {kind} {name!r}, which does not exist")
    folder = kubeconfig.absolute().parent
    return {"name": name, kind: {key: _absolute(key, value, folder, kubeconfig) for key, value in entry.items()}}


def _absolute(key: str, value: object, folder: Path, kubeconfig: Path) -> object:
    """The value with an absolute path, if it is one of a file; its file must be readable."""
    if key not in _FILES or not value:
        return value
    try:
        path = folder / str(value)
        with path.open("rb"):
            return str(path)
    except (OSError, ValueError) as error:
        raise ClusterUnusable(f"{kubeconfig}: {key} {value!r} cannot be read: {error}") from None
