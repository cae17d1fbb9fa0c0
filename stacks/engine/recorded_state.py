"""The objects that a stack's recorded state names, for an audit. The state is read as it is; nothing is locked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from policies.running import recorded
from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import EngineError

__all__ = ["recorded_objects", "recorded_stacks"]


def recorded_stacks(config: EngineConfig) -> list[str]:
    """The names of the stacks that have a state in a folder, sorted."""
    if config.backend:
        raise EngineError(f"the stacks are in {config.backend}: only states in folders are read")
    files = sorted(config.stacks.glob(f"*/.pulumi/stacks/{PROJECT}/*.json"))
    return [file.stem for file in files if config.state_file(file.stem) == file]


def recorded_objects(config: EngineConfig, stack: str) -> list[Mapping[str, Any]]:
    """The Kubernetes objects of the state of `stack`, with a stand-in for each secret value. Raises `EngineError` for a
    state that cannot be read.
    """
    file = config.state_file(stack)
    try:
        document = json.loads(file.read_bytes())
        latest = document["checkpoint"]["latest"] or {}
        return list(recorded(latest.get("resources") or ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineError(f"the state {file} cannot be read: {type(error).__name__}: {error}") from None
