"""Kubeconfig files as one document: several files are merged as kubectl merges them, and relative paths are made
absolute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from stacks.common.errors import EngineError

__all__ = ["kubeconfig_files", "read_kubeconfig"]

_FILES = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("client-certificate", "client-key", "tokenFile")),
}
_LISTS = ("clusters", "contexts", "users")


def kubeconfig_files(source: Path) -> tuple[Path, ...]:
    """The files that `source` names: $KUBECONFIG may be a list."""
    return tuple(Path(text).expanduser() for text in str(source).split(os.pathsep) if text)


def read_kubeconfig(source: Path) -> dict[str, Any]:
    """The document of all files; the first one that names an entry or the current context decides.

    A file of a list that does not exist is left out. Raises `EngineError` when the files cannot be used.
    """
    files = kubeconfig_files(source)
    there = [file for file in files if file.is_file()] if len(files) > 1 else list(files)
    if not there:
        raise EngineError(f"the kubeconfig {source} cannot be used: none of its files exists")
    merged: dict[str, Any] = {}
    for file in there:
        try:
            _merge(merged, _absolute(yaml.safe_load(file.read_text("utf-8-sig")), file.resolve().parent))
        except yaml.YAMLError as error:
            raise EngineError(f"the kubeconfig {file} cannot be used: {_yaml_problem(error)}") from None
        except (OSError, ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
            raise EngineError(
                f"the kubeconfig {file} cannot be used: {getattr(error, 'strerror', None) or error}"
            ) from None
    return merged


def _yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong, and in which line. The error's own text quotes the line, which may hold a token."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"it is not YAML: {type(error).__name__}"
    mark = error.problem_mark or error.context_mark
    where = f" (line {mark.line + 1})" if mark else ""
    return f"it is not YAML: {error.problem or error.context}{where}"


def _merge(merged: dict[str, Any], document: Mapping[str, Any]) -> None:
    for key, value in document.items():
        if key in _LISTS:
            known = {item["name"] for item in merged.setdefault(key, [])}
            merged[key] += [item for item in value or () if item["name"] not in known]
        elif not merged.get(key):
            merged[key] = value


def _absolute(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    for key, (entry, names) in _FILES.items():
        for item in document.get(key) or ():
            for name in names:
                if item[entry].get(name):
                    item[entry][name] = str(folder / item[entry][name])
            plugin = item[entry].get("exec")
            if plugin and os.sep in plugin["command"]:
                plugin["command"] = str(folder / plugin["command"])
    return document
