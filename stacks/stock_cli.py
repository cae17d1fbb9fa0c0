"""The stock command line on one lease's stack, for an operator: its backend, its secrets service, its lock.

It carries none of the marks by which the engine finds its own processes: a worker that comes meanwhile must not end it
but refuse, as the lock in the stack's folder tells it to (`state.recover`). And it writes the state at every step, as
nobody notes for it what it began.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError
from stacks.common.files import place_kubeconfig
from stacks.common.processes import DATA_MARK, STACK_MARK, alive, command_name, survivors
from stacks.common.scratch_folders import scratch
from stacks.common.transit import TransitKey, TransitService
from stacks.engine.pool import worker_environment
from stacks.worker.state import settings_of
from stacks.worker.workspace import Secrets, environment

__all__ = ["exists", "run_stock", "working_on"]

_NOT_FOR_OPERATORS = (DATA_MARK, STACK_MARK, "PULUMI_SKIP_CHECKPOINTS")


def exists(config: EngineConfig, stack: str) -> bool:
    """Whether the engine of `config` has such a stack."""
    return (settings_of(config, stack) if config.backend else config.state_file(stack)).exists()


def working_on(config: EngineConfig, stack: str) -> list[int]:
    """Living processes that work on the stack: the provider's own, and who holds the lock in its folder."""
    found = set(survivors(config.data, stack))
    for lock in (config.folder(stack) / ".pulumi" / "locks").glob("**/*.json"):
        # `{"pid":N,…}`; process ids are used again, so it counts only as long as it is a command line
        digits = lock.read_text(errors="replace").partition('"pid":')[2].lstrip().split(",", 1)[0].strip(" }\n")
        if digits.isdigit() and alive(int(digits)) and command_name(int(digits)) == "pulumi":
            found.add(int(digits))
    return sorted(found)


def run_stock(config: EngineConfig, stack: str, arguments: Sequence[str]) -> int:
    """Run it in the caller's terminal and return its exit code (128 + signal if it was killed).

    Raises EngineError when it cannot be started: no key, no kubeconfig, no executable.
    """
    with ExitStack() as opened:
        place_kubeconfig(config.kubeconfig, config.kubeconfig_copy)
        secrets = Secrets(config)
        if config.secrets != "vault":
            service = opened.enter_context(TransitService(TransitKey.load(config.key_file)))
            secrets = Secrets(config, url=service.url, token=opened.enter_context(service.grant()))
        folder = opened.enter_context(scratch("operator-", within=_temporary(config)))
        told = environment(config, stack, secrets) | {"TMPDIR": str(folder), "PULUMI_STACK": stack}
        return _wait([str(config.pulumi), *arguments], config.folder(stack), _told(config, told))


def _temporary(config: EngineConfig) -> Path:
    folder = config.data / "tmp"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _told(config: EngineConfig, told: Mapping[str, str]) -> dict[str, str]:
    """Of the operator's own variables what a worker would inherit, and how to show things."""
    home = {"PULUMI_HOME": str(config.pulumi_home)} if config.pulumi_home else {}
    found = worker_environment(config) | home | dict(told)
    return {name: value for name, value in found.items() if name not in _NOT_FOR_OPERATORS}


def _wait(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> int:
    """Ctrl-C reaches the command line by itself, and it must live to release its lock; so we only wait."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run(command, cwd=folder, env=dict(variables), check=False).returncode
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be run: {error.strerror}; `lessor doctor` shows the tools") from None
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code
