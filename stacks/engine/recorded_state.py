"""The objects that a stack's recorded state names, for an audit. The state is read as it is; nothing is locked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from policies.running import recorded
from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import EngineError
from stacks.engine.backend_state import exported_state, stacks_of_backend

__all__ = ["recorded_objects", "recorded_stacks"]


def recorded_stacks(config: EngineConfig) -> list[str]:
    """The names of the stacks that have a state, sorted. Raises `EngineError` for a backend that does not answer."""
    if config.backend:
        return stacks_of_backend(config)
    files = sorted(config.stacks.glob(f"*/.pulumi/stacks/{PROJECT}/*.json"))
    return [file.stem for file in files if config.state_file(file.stem) == file]


def recorded_objects(config: EngineConfig, stack: str) -> list[Mapping[str, Any]]:
    """The Kubernetes objects of the state of `stack`, with a stand-in for each secret value. Raises `EngineError` for a
    state that cannot be read.
    """
    file = config.state_file(stack)
    try:
        if config.backend:
            latest = exported_state(config, stack) or {}  # gone since it was listed
        else:
            latest = json.loads(file.read_bytes())["checkpoint"]["latest"] or {}
        return list(recorded(latest.get("resources") or ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        where = f"of {stack}" if config.backend else str(file)
        raise EngineError(f"the state {where} cannot be read: {type(error).__name__}: {error}") from None
