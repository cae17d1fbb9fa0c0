"""What the engine needs to know, and where it keeps things.

<data>/key                      key of every stack's secrets, mode 0600, made at the first start; or the file `key`
<data>/machine                  name of this folder among those of several machines
<data>/kubeconfig               copy of the operator's, at a path that the stacks' state may name for ever
<data>/lock                     held by the one living engine
<data>/term                     when the daemon's term ends, where a leader is elected
<data>/pulumi/                  the command lines' PULUMI_HOME: plugins of the installed one, no logs
<data>/resident/                the resident engine's socket
<data>/tmp/<namespace>/         temporary files of a running operation
<data>/stacks/<namespace>/      one lease: Pulumi.yaml, Pulumi.<namespace>.yaml and the file backend's .pulumi/
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from policies.choices import PolicyChoices

__all__ = ["PROJECT", "EngineConfig"]

PROJECT = "lease"
"""Pulumi project of every lease stack (docs/architecture.md §5)."""


class EngineConfig(BaseModel):
    """Settings of the engine, sent to the workers as JSON. They hold paths, never a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    data: Path
    kubeconfig: Path
    context: str = Field(default="", description="of the kubeconfig; empty: its current one")
    pulumi: Path = Field(description="executable, absolute")
    pulumi_home: Path | None = Field(
        default=None, description="where the kubernetes plugin is installed; None: ~/.pulumi"
    )
    workers: int = Field(default=2, ge=1, le=64, description="operations side by side, one process each")
    policies: bool = Field(default=True, description="judge the objects before they are registered")
    choices: PolicyChoices = Field(
        default=PolicyChoices(), description="levels, lists and exemptions of the operator, for these rules"
    )
    operation_seconds: float = Field(default=600, gt=0, description="then the operation is interrupted")
    interrupt_seconds: float = Field(default=20, gt=0, description="from the interrupt to the kill")
    worker_operations: int = Field(default=200, ge=1, description="then a worker is replaced by a fresh one")
    history: int = Field(default=10, ge=1, description="updates of a stack whose records are kept")
    engine: Literal["resident", "stock", "sdk"] = Field(
        default="resident",
        description="resident: one process runs the operations of all stacks, command lines where it cannot run; "
        "stock: one command line an operation; "
        "sdk: the SDK's own stack class, four command lines an operation, to compare with",
    )
    program: Literal["list", "sdk"] = Field(
        default="list",
        description="how the resident engine gets a lease's resources: list: as a list that a worker has made; "
        "sdk: from Pulumi's SDK, which runs in the worker meanwhile",
    )
    resident: Path | None = Field(default=None, description="executable of the resident engine, absolute")
    resident_seconds: float = Field(default=3600, gt=0, description="age at which a resident engine is replaced")
    resident_bytes: int = Field(
        default=600 << 20, ge=1, description="resident memory of it and its plugin, above which it is replaced"
    )
    secrets: Literal["transit", "vault", "passphrase"] = Field(
        default="transit", description="who encrypts the secrets of new stacks; an existing stack keeps its service"
    )
    vault_url: str = Field(default="", description="of a real Vault, with secrets=vault")
    vault_token_file: Path | None = Field(default=None, description="read at every operation, so it may be renewed")
    vault_key: str = Field(default="lessor", pattern=r"^[A-Za-z0-9_.-]{1,128}$", description="transit key's name")
    backend: str = Field(default="", description="URL of the state; empty: a folder a lease, the fast path")
    key: Path | None = Field(default=None, description="key of the stacks' secrets, the same on each machine")
    exclusive: bool = Field(
        default=False,
        description="a leader or a lock makes sure that no other machine works on a stack, so that locks of others may "
        "be broken",
    )
    foreign_lock_seconds: float = Field(
        default=60, gt=0, description="for which a lock of another machine was seen before it is broken"
    )
    skip_checkpoints: bool = Field(
        default=True,
        description="write the state once, at the end; after a killed run its objects are read from the cluster",
    )

    @property
    def key_file(self) -> Path:
        return self.key or self.data / "key"

    @property
    def machine_file(self) -> Path:
        return self.data / "machine"

    @property
    def kubeconfig_copy(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def named_kubeconfig(self) -> str:
        """The path that the stacks' states name. In another backend they name none: each machine has its own, and the
        plugin takes it from its environment.
        """
        return "" if self.backend else str(self.kubeconfig_copy)

    @property
    def home(self) -> Path:
        """PULUMI_HOME of the installation."""
        return self.pulumi_home or Path.home() / ".pulumi"

    @property
    def quiet_home(self) -> Path:
        """PULUMI_HOME of the fast path."""
        return self.data / "pulumi"

    @property
    def stacks(self) -> Path:
        return self.data / "stacks"

    @property
    def sockets(self) -> Path:
        """The folder of the resident engine's socket."""
        return self.data / "resident"

    def folder(self, stack: str) -> Path:
        """The folder of one lease's stack. Raises `ValueError` unless `stack` is a plain name."""
        if not stack or not stack.replace("-", "").isalnum() or not stack.isascii() or len(stack) > 63:
            raise ValueError(f"{stack!r} is not the name of a lease stack (a namespace name)")
        return self.stacks / stack

    def begun_file(self, stack: str) -> Path:
        """The objects that an update is making. It exists while the update runs, and after an update that was
        killed.
        """
        return self.folder(stack) / "begun.json"

    def shown_file(self, stack: str) -> Path:
        """The objects applied last with their secret values hidden, to describe the next change."""
        return self.folder(stack) / "shown.json"

    def scratch(self, stack: str) -> Path:
        """Temporary files of the stack's running operation; the plugin leaves a kubeconfig at every start."""
        return self.data / "tmp" / stack

    def settings_file(self, stack: str) -> Path:
        """The file that says who encrypts the stack's secrets."""
        return self.folder(stack) / f"Pulumi.{stack}.yaml"

    def state_file(self, stack: str) -> Path:
        """The file backend's checkpoint; it exists exactly when the stack does."""
        return self.folder(stack) / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"

    def doubt_file(self, stack: str) -> Path:
        """The note that the state may differ from the cluster, beside the state and not in it, so that it outlives a
        kill before or within the refresh.
        """
        state = self.state_file(stack)
        return state.with_name(state.name + ".doubted")

    def exists(self, stack: str) -> bool:
        """Whether there is such a stack. In another backend its folder remembers it and may be wrong; what an operation
        is answered corrects the folder.
        """
        return (self.settings_file(stack) if self.backend else self.state_file(stack)).exists()
