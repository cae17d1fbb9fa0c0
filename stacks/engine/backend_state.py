"""The states of stacks in another backend than folders (PostgreSQL, S3), read by Pulumi's own command line.

Nothing is locked or written: a running provider, or another machine, goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import Any

from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import EngineError
from stacks.engine.pool import worker_environment
from stacks.engine.shared_stacks import backend_variables, listed_stacks

__all__ = ["exported_state", "stacks_of_backend"]

_EXPORT_S = 120.0
_ABSENT = "no stack named"


def stacks_of_backend(config: EngineConfig) -> list[str]:
    """The names of the lease stacks in `config.backend`, sorted. Raises `EngineError`."""
    return sorted(asyncio.run(listed_stacks(config, worker_environment(config))))


def exported_state(config: EngineConfig, stack: str) -> dict[str, Any] | None:
    """The newest part of the stack's state, secrets encrypted as they are; None where the backend has no such stack.

    Raises `EngineError` for a backend that does not answer, or answers with something else.
    """
    argv = [str(config.pulumi), "stack", "export", "--stack", f"organization/{PROJECT}/{stack}", "--non-interactive"]
    environment = {**worker_environment(config), **backend_variables(config)}
    try:
        done = subprocess.run(
            argv,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_EXPORT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"the state of {stack} cannot be read: no answer within {_EXPORT_S:g} s") from None
    except OSError as error:
        raise EngineError(f"{config.pulumi} cannot be run: {error.strerror}") from None
    if done.returncode and _ABSENT in done.stderr:
        return None
    if done.returncode:
        raise EngineError(f"the state of {stack} cannot be read: {done.stderr.strip()[-500:]}")
    try:
        latest = json.loads(done.stdout)["deployment"]
    except (ValueError, LookupError, TypeError):
        raise EngineError(f"the state of {stack} cannot be read: the backend returned a state that is none") from None
    return latest if isinstance(latest, dict) else {}
