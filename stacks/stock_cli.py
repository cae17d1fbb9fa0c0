"""The stock command line on one lease's stack, for an operator: with the stack's backend, secrets service and lock.

The process carries none of the marks by which the engine finds its own processes. A worker that starts meanwhile must
not end it but refuse its operation, because of the lock in the stack's folder (`state.recover`). The command line
writes the state at every step, since nothing notes which objects it began.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import EngineError
from stacks.common.files import place_kubeconfig
from stacks.common.listeners import FENCED
from stacks.common.processes import DATA_MARK, LOCKING, STACK_MARK, alive, command_name, survivors
from stacks.common.scratch_folders import scratch
from stacks.common.stack_settings import write_settings
from stacks.common.transit import TransitKey, TransitService
from stacks.engine.backend_state import exported_state
from stacks.engine.pool import worker_environment
from stacks.worker.workspace import Secrets, environment

__all__ = ["place_stack", "run_stock", "working_on"]

_NOT_FOR_OPERATORS = (DATA_MARK, STACK_MARK, "PULUMI_SKIP_CHECKPOINTS")


def working_on(config: EngineConfig, stack: str) -> list[int]:
    """Ids of the processes that work on the stack: the provider's own, and the holder of the lock in its folder."""
    found = set(survivors(config.data, stack))
    for lock in (config.folder(stack) / ".pulumi" / "locks").glob("**/*.json"):
        # `{"pid":N,…}`; process ids are used again, so it counts only as long as it is a program that locks
        digits = lock.read_text(errors="replace").partition('"pid":')[2].lstrip().split(",", 1)[0].strip(" }\n")
        if digits.isdigit() and alive(int(digits)) and command_name(int(digits)) in LOCKING:
            found.add(int(digits))
    return sorted(found)


def place_stack(config: EngineConfig, stack: str) -> bool:
    """Whether there is such a stack. One of another backend gets its folder on this machine, with the project's file
    and what the state says of its secrets, which any machine may lack. Raises `EngineError`.
    """
    if not config.backend:
        return config.exists(stack)
    latest = exported_state(config, stack)
    if latest is None:
        return False
    folder = config.folder(stack)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "Pulumi.yaml").exists():
        (folder / "Pulumi.yaml").write_text(f"name: {PROJECT}\nruntime: python\nmain: {folder}\n")
    return write_settings(config, stack, latest)


def run_stock(config: EngineConfig, stack: str, arguments: Sequence[str]) -> int:
    """Run the command line in the caller's terminal and return its exit code (128 + signal if it was killed).

    Raises `EngineError` when it cannot be started: no key, no kubeconfig, no executable.
    """
    with ExitStack() as opened:
        place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
        secrets = Secrets(config)
        if config.secrets != "vault":
            service = opened.enter_context(TransitService(TransitKey.load(config.key_file)))
            secrets = Secrets(config, url=service.url, token=opened.enter_context(service.grant()))
        folder = opened.enter_context(scratch("operator-", within=_temporary(config)))
        variables = environment(config, stack, secrets) | {"TMPDIR": str(folder), "PULUMI_STACK": stack}
        return _wait([str(config.pulumi), *arguments], config.folder(stack), _environment(config, variables))


def _temporary(config: EngineConfig) -> Path:
    folder = config.data / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _environment(config: EngineConfig, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of the operator that a worker would inherit, and those that control the output."""
    home = {"PULUMI_HOME": str(config.pulumi_home)} if config.pulumi_home else {}
    found = worker_environment(config) | home | dict(variables)
    return {name: value for name, value in found.items() if name not in _NOT_FOR_OPERATORS}


def _wait(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> int:
    """Wait for the end. Ctrl-C reaches the command line by itself, which must live on to release its lock."""
    if not os.access(command[0], os.X_OK):
        raise EngineError(f"{command[0]} is no program that can be run; `lessor doctor` shows the tools")
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([*FENCED, *command], cwd=folder, env=dict(variables), check=False).returncode
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be run: {error.strerror}; `lessor doctor` shows the tools") from None
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
