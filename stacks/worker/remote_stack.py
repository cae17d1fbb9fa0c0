"""A stack in another backend than a folder, on a machine whose folder knows nothing of it: the backend is asked.

The state names who encrypts its secrets, so the settings file is written from it. What the last operation did on
another machine is unknown unless the task says so: the state is doubted, and the next operation refreshes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pulumi.automation import PulumiCommand, StackNotFoundError

from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import OperationRefused
from stacks.common.stack_settings import write_settings
from stacks.worker.state import doubt, trust
from stacks.worker.workspace import Secrets, environment

__all__ = ["learn"]


def learn(config: EngineConfig, stack: str, *, command: PulumiCommand, secrets: Secrets, sound: bool) -> bool:
    """Whether the backend has the stack; its folder says so from then on. `sound`: the last operation ended in order.

    Raises `CommandError` for a backend that does not answer, and `OperationRefused` for a state without a key.
    """
    config.folder(stack).mkdir(mode=0o700, parents=True, exist_ok=True)
    config.settings_file(stack).unlink(missing_ok=True)
    trust(config, stack)
    variables = environment(config, stack, secrets)
    if config.pulumi_home:
        variables["PULUMI_HOME"] = str(config.pulumi_home)
    name, folder = f"organization/{PROJECT}/{stack}", config.folder(stack)
    try:
        exported = command.run(["stack", "export", "--stack", name], str(folder), variables)
    except StackNotFoundError:
        return False
    latest = _deployment(exported.stdout)
    if not write_settings(config, stack, latest):
        if latest.get("resources"):
            raise OperationRefused(f"the state of {stack} does not say who encrypts its secrets")
        _remove_empty(name, folder, command=command, variables=variables)
        return False
    if latest.get("resources") and not sound:
        doubt(config, stack)
    return True


def _deployment(text: str) -> dict[str, Any]:
    """The newest part of an exported state. Raises `OperationRefused`."""
    try:
        latest = json.loads(text)["deployment"]
    except (ValueError, LookupError, TypeError):
        raise OperationRefused("the backend returned a state that is none") from None
    return latest if isinstance(latest, dict) else {}


def _remove_empty(name: str, folder: Path, *, command: PulumiCommand, variables: dict[str, str]) -> None:
    """Remove a stack that was created and never updated: its key was in a folder of another machine only."""
    command.run(["stack", "rm", "--yes", "--stack", name], str(folder), variables)
