"""The engine that applies lease stacks (docs/architecture.md §4)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, BaseModel, Field, SecretStr

from provider.settings.kinds import lessor

__all__ = ["EngineSettings"]


class EngineSettings(BaseModel, defer_build=True):
    """Engine"""

    pulumi_home: Path | None = Field(
        None,
        validation_alias=AliasChoices("PULUMI_HOME"),
        description="Folder in which Pulumi's Kubernetes plugin is installed. Empty: `~/.pulumi`.",
    )
    stack_workers: int = Field(
        4,
        ge=1,
        le=64,
        validation_alias=lessor("STACK_WORKERS"),
        description="Number of stack operations that run at the same time, one worker process each, in the provider or "
        "in each `lessor worker`. Worker processes start when they are needed.",
    )
    stack_queue: SecretStr = Field(
        SecretStr(""),
        validation_alias=lessor("STACK_QUEUE"),
        description="Redis that carries stack operations to `lessor worker` processes: `redis://user:password@host/0`, "
        "or `rediss://…`. Needs `lessor[worker]`, PostgreSQL in LESSOR_STORE_URL, LESSOR_STORE_KEY_FILE, "
        "LESSOR_STACK_BACKEND and LESSOR_STACK_KEY_FILE, the same for all. Empty: the provider runs them itself.",
    )
    queue_places: int = Field(
        16,
        ge=1,
        le=1024,
        validation_alias=lessor("QUEUE_PLACES"),
        description="Number of stack operations that the workers have at the same time, with LESSOR_STACK_QUEUE; about "
        "the LESSOR_STACK_WORKERS of all of them together. The others wait in the provider, which keeps their order.",
    )
    engine: Literal["resident", "stock"] = Field(
        "resident",
        validation_alias=lessor("ENGINE"),
        description="`resident`: one process, `lessor-engine`, for all operations. `stock`: a Pulumi command line an "
        "operation, at two to three times the cost; it is also taken, with a warning in the log, where `lessor-engine` "
        "cannot run.",
    )
    engine_program: Literal["list", "sdk"] = Field(
        "list",
        validation_alias=lessor("ENGINE_PROGRAM"),
        description="How `lessor-engine` gets the resources of a lease. `list`: a worker makes a list of them from the "
        "same components. `sdk`: Pulumi's SDK registers them one by one while a worker waits, which takes 1.4 times as "
        "long. Both leave the same state, so that the setting may change at any time.",
    )
    stack_secrets: Literal["transit", "vault", "passphrase"] = Field(
        "transit",
        validation_alias=lessor("STACK_SECRETS"),
        description="What encrypts the secrets of new stacks: `transit` (a service inside the provider), `vault` or "
        "`passphrase`. Existing stacks keep theirs.",
    )
    stack_backend: str = Field(
        "",
        validation_alias=lessor("STACK_BACKEND"),
        description="URL of the Pulumi backend that keeps the stacks' state. Empty: folders in the home folder.",
    )
    stack_key_file: Path | None = Field(
        None,
        validation_alias=lessor("STACK_KEY_FILE"),
        description="File with the key of the stacks' secrets, at least 16 characters (`openssl rand -base64 32`), the "
        "same on each machine that works on the stacks of LESSOR_STACK_BACKEND. Stacks that exist keep the key that "
        "they were made with. Empty: `engine/key` in the home folder, made at the first start.",
    )
    vault_url: str = Field(
        "", validation_alias=lessor("VAULT_URL"), description="URL of the Vault, with LESSOR_STACK_SECRETS=vault."
    )
    vault_token_file: Path | None = Field(
        None,
        validation_alias=lessor("VAULT_TOKEN_FILE"),
        description="File with the Vault token. Read at every operation.",
    )
    vault_key: str = Field(
        "lessor",
        pattern=r"^[A-Za-z0-9_.-]{1,128}$",
        validation_alias=lessor("VAULT_KEY"),
        description="Name of the transit key in the Vault.",
    )
    skip_checkpoints: bool = Field(
        True,
        validation_alias=lessor("SKIP_CHECKPOINTS"),
        description="Write a stack's state once, at the end of an operation. Off: after every step.",
    )
