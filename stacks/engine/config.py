"""What the engine needs to know, and where it keeps things.

<data>/key                      passphrase of every stack's secrets, mode 0600, made at the first start
<data>/kubeconfig               copy of the operator's, at a path that the stacks' state may name for ever
<data>/lock                     held by the one living engine
<data>/tmp/<namespace>/         temporary files of a running operation
<data>/stacks/<namespace>/      one lease: Pulumi.yaml, Pulumi.<namespace>.yaml and the file backend's .pulumi/
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["PROJECT", "EngineConfig"]

PROJECT = "lease"
"""Pulumi project of every lease stack (docs/architecture.md §5)."""


class EngineConfig(BaseModel):
    """Settings of the engine. Crosses to the workers as JSON; holds paths, never a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: Path
    kubeconfig: Path
    context: str = Field(default="", description="of the kubeconfig; empty: its current one")
    pulumi: Path = Field(description="executable, absolute")
    pulumi_home: Path | None = Field(
        default=None, description="where the kubernetes plugin is installed; None: ~/.pulumi"
    )
    workers: int = Field(default=2, ge=1, le=64, description="operations side by side, one process each")
    policies: bool = Field(default=True, description="judge the objects before they are registered")
    operation_seconds: float = Field(default=600, gt=0, description="then the operation is interrupted")
    interrupt_seconds: float = Field(default=20, gt=0, description="from the interrupt to the kill")
    worker_operations: int = Field(default=200, ge=1, description="then a worker is replaced by a fresh one")
    history: int = Field(default=10, ge=1, description="updates of a stack whose records are kept")

    @property
    def key_file(self) -> Path:
        return self.data / "key"

    @property
    def kubeconfig_copy(self) -> Path:
        return self.data / "kubeconfig"

    @property
    def stacks(self) -> Path:
        return self.data / "stacks"

    def folder(self, stack: str) -> Path:
        """Where one lease's stack lives. `stack` must be a plain name."""
        if not stack or not stack.replace("-", "").isalnum() or not stack.isascii() or len(stack) > 63:
            raise ValueError(f"{stack!r} is not the name of a lease stack (a namespace name)")
        return self.stacks / stack

    def scratch(self, stack: str) -> Path:
        """Temporary files of the stack's running operation; the plugin leaves a kubeconfig at every start."""
        return self.data / "tmp" / stack

    def state_file(self, stack: str) -> Path:
        """The file backend's checkpoint; it exists exactly when the stack does."""
        return self.folder(stack) / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"
