"""A lease's stack, opened: its folder, the command line's environment, who encrypts its secrets, and its class.

`file://` with the engine's own secrets service is the fast path: this module writes what `pulumi stack init` would
write. Every other backend, and a real Vault, get the ordinary `stack init`.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pulumi.automation import LocalWorkspace, ProjectSettings, PulumiCommand, Stack
from semver import VersionInfo

from stacks.common.config import PROJECT, EngineConfig
from stacks.common.errors import OperationRefused
from stacks.common.files import write_private
from stacks.common.processes import DATA_MARK, STACK_MARK
from stacks.common.transit import TransitKey
from stacks.worker.listing import list_program
from stacks.worker.resident import Resident, ResidentStack
from stacks.worker.stack import ThinStack, ThinWorkspace

__all__ = ["Command", "Program", "Secrets", "environment", "open_stack", "request_secrets"]

Program = Callable[[], None]
"""The program that Pulumi runs inline."""

_VAULT = "hashivault://"
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
GOGC = "400"
"""Saves 0.04 CPU s an operation of the command line and its plugin (toolchain.md §3)."""


class Command(PulumiCommand):
    """The command line at a path of any shape; the stock class requires it in a folder named `bin`, or on PATH."""

    def __init__(self, executable: Path) -> None:
        self.command = str(executable)
        shown = subprocess.check_output([self.command, "version"], text=True, timeout=30)
        self.version = VersionInfo.parse(shown.strip().removeprefix("v"))


class Secrets:
    """The stack's secrets service for a command line: `url` and `token` of the engine's own, else those of the
    settings.
    """

    def __init__(self, config: EngineConfig, *, url: str = "", token: str = "") -> None:
        self._config = config
        self._url, self._token = url, token

    def variables(self) -> dict[str, str]:
        """The variables of both ways; the stack's own settings say which one it uses. Raises `OperationRefused`."""
        config = self._config
        passphrase = {"PULUMI_CONFIG_PASSPHRASE_FILE": str(config.key_file)}
        if config.secrets != "vault":
            return passphrase | {"VAULT_SERVER_URL": self._url, "VAULT_SERVER_TOKEN": self._token}
        try:
            token = config.vault_token_file.read_text().strip() if config.vault_token_file else ""
        except OSError as error:
            raise OperationRefused(f"the Vault token {config.vault_token_file}: {error.strerror}") from None
        if not token or not config.vault_url:
            raise OperationRefused("secrets=vault needs the Vault's URL and a file with a token")
        return passphrase | {"VAULT_SERVER_URL": config.vault_url, "VAULT_SERVER_TOKEN": token}

    def provider(self) -> str:
        """Pulumi's URL of the secrets provider of new stacks."""
        return "passphrase" if self._config.secrets == "passphrase" else _VAULT + self._config.vault_key


def environment(config: EngineConfig, stack: str, secrets: Secrets) -> dict[str, str]:
    """Variables of a command line and its plugin (toolchain.md §3)."""
    variables = {
        # without metadata: a kill can leave an empty .attrs file, which makes the state beside it unreadable
        "PULUMI_BACKEND_URL": config.backend or f"file://{config.folder(stack)}?metadata=skip&no_tmp_dir=true",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        "PULUMI_LOG_ROTATION_MAX_TOTAL_MB": "5",
        "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS": "true",
        "KUBECONFIG": str(config.kubeconfig_copy),
        "TMPDIR": str(config.scratch(stack)),
        DATA_MARK: str(config.data),
        STACK_MARK: stack,
    }
    if config.engine != "sdk":
        variables["GOGC"] = os.environ.get("GOGC", GOGC)
    if config.skip_checkpoints:
        variables["PULUMI_SKIP_CHECKPOINTS"] = "true"
    return variables | secrets.variables()


def open_stack(
    config: EngineConfig,
    stack: str,
    *,
    command: PulumiCommand,
    secrets: Secrets,
    program: Program | None,
    resident: tuple[Resident, Path] | None = None,
) -> Stack:
    """The stack, created if needed. `program` None: for operations that need none. `resident` runs the operations, at
    the socket, and gets a list instead of the program where the settings say so.
    """
    folder = config.folder(stack)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not config.backend:
        _prepare(config, stack)
    sdk = config.engine == "sdk"
    listed = None
    if program and resident and config.program == "list":
        listed, program = partial(list_program, program, project=PROJECT, stack=stack), None
    workspace = (LocalWorkspace if sdk else ThinWorkspace)(
        work_dir=str(folder),
        pulumi_home=_home(config),
        program=program or (_nothing if sdk else None),
        env_vars=environment(config, stack, secrets),
        secrets_provider=secrets.provider(),
        project_settings=ProjectSettings(name=PROJECT, runtime="python", main=str(folder)),
        pulumi_command=command,
    )
    if sdk:
        return Stack.create_or_select(stack, workspace)
    exists = config.exists(stack)
    if resident is not None:
        engine, path = resident
        secrets_of = partial(request_secrets, config, stack)
        return ResidentStack(
            stack, workspace, project=PROJECT, exists=exists, resident=engine, path=path, secrets=secrets_of,
            listed=listed,
        )  # fmt: skip
    return ThinStack(stack, workspace, project=PROJECT, exists=exists)


def _home(config: EngineConfig) -> str | None:
    """PULUMI_HOME: the installed one holds credentials of another backend, and the stock class keeps its selections
    there.
    """
    if config.engine != "sdk" and not config.backend and config.quiet_home.exists():
        return str(config.quiet_home)
    return str(config.pulumi_home) if config.pulumi_home else None


def request_secrets(config: EngineConfig, stack: str) -> dict[str, Any]:
    """Type and state of the stack's secrets manager, and the key of its secrets in base64, decrypted with the
    operator's key; a stack of a passphrase has none. Raises `OperationRefused`.
    """
    settings = yaml.load(config.settings_file(stack).read_text(), Loader=_YAML) or {}  # noqa: S506  a safe one
    if not settings.get("encryptedkey"):
        return {"secrets": "passphrase", "secrets_state": {"salt": settings.get("encryptionsalt", "")}}
    provider, sealed = str(settings.get("secretsprovider")), base64.b64decode(settings["encryptedkey"])
    try:
        plain = TransitKey.load(config.key_file).decrypt(provider.removeprefix(_VAULT), sealed.decode())
    except ValueError as error:
        raise OperationRefused(f"the data key of stack {stack} ({provider}): {error}") from None
    return {
        "secrets": "cloud",
        "secrets_state": {"url": provider, "encryptedkey": settings["encryptedkey"]},
        "key": base64.b64encode(plain).decode(),
    }


def _prepare(config: EngineConfig, stack: str) -> None:
    """Write what `stack init` would write, the state last: it exists exactly when the stack does."""
    state, settings = config.state_file(stack), config.settings_file(stack)
    if config.secrets != "transit" or config.engine == "sdk" or state.exists():
        return
    data_key = TransitKey.load(config.key_file).encrypt(config.vault_key, os.urandom(32))
    content = {
        "secretsprovider": _VAULT + config.vault_key,
        "encryptedkey": base64.b64encode(data_key.encode()).decode(),
    }
    state.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(settings, yaml.safe_dump(content))
    write_private(config.folder(stack) / ".pulumi" / "meta.yaml", "version: 1\n")
    empty = {"version": 3, "checkpoint": {"stack": f"organization/{PROJECT}/{stack}"}}
    write_private(state, json.dumps(empty))


def _nothing() -> None:
    """An empty program: refresh and destroy need none, but without one the command line would start a language host."""
