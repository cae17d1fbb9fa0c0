"""The engine that applies lease stacks (docs/architecture.md §4)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, BaseModel, Field

from provider.settings.kinds import ours

__all__ = ["EngineSettings"]


class EngineSettings(BaseModel):
    pulumi_home: Path | None = Field(
        None, validation_alias=AliasChoices("PULUMI_HOME"), description="with the kubernetes plugin; empty: ~/.pulumi"
    )
    stack_workers: int = Field(
        4, ge=1, le=64, validation_alias=ours("STACK_WORKERS"), description="operations side by side; started on demand"
    )
    shared_plugin: bool = Field(
        True,
        validation_alias=ours("SHARED_PLUGIN"),
        description="one Kubernetes plugin for all operations; off: each starts its own (0.3 s, 130 MB)",
    )
    open_updates: int = Field(
        4,
        ge=0,
        le=64,
        validation_alias=ours("OPEN_UPDATES"),
        description="updates at once that wait for a tenant's manifest with all else done; 0: none",
    )
    engine: Literal["thin", "stock"] = Field(
        "thin", validation_alias=ours("ENGINE"), description="stock: the SDK's own stack class, four times the cost"
    )
    stack_secrets: Literal["transit", "vault", "passphrase"] = Field(
        "transit", validation_alias=ours("STACK_SECRETS"), description="who encrypts new stacks; others keep theirs"
    )
    stack_backend: str = Field(
        "", validation_alias=ours("STACK_BACKEND"), description="Pulumi's URL of the states; empty: folders in home"
    )
    vault_url: str = Field("", validation_alias=ours("VAULT_URL"), description="with stack secrets in a Vault")
    vault_token_file: Path | None = Field(
        None, validation_alias=ours("VAULT_TOKEN_FILE"), description="read at every operation"
    )
    vault_key: str = Field("lessor", pattern=r"^[A-Za-z0-9_.-]{1,128}$", validation_alias=ours("VAULT_KEY"))
    skip_checkpoints: bool = Field(
        True, validation_alias=ours("SKIP_CHECKPOINTS"), description="states are written at the end of an operation"
    )
