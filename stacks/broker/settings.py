"""The broker's settings and its answers, as lines of JSON on its stdin and stdout."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from stacks.broker.errors import BrokerError

__all__ = ["BrokerSettings", "BrokerStatus", "PluginStatus", "installed_plugin"]


PLUGIN_ENVIRONMENT = {"GOGC": "400", "PULUMI_K8S_CLIENT_QPS": "300", "PULUMI_K8S_CLIENT_BURST": "600"}
"""GOGC: fewer collections (toolchain.md §3), since the heap soon fills what GOMEMLIMIT allows and stays there. One
plugin asks the API server what many plugins did with 50 requests a second each.
"""


class BrokerSettings(BaseModel):
    """Settings of one broker, sent to its process as JSON. They hold paths, never a secret."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    plugin: tuple[str, ...] = Field(min_length=1, description="executable, absolute, and arguments before the address")
    scratch: Path = Field(description="folder for the plugins' temporary files; emptied at start and end")
    environment: dict[str, str] = Field(
        default=PLUGIN_ENVIRONMENT, description="variables of the plugins, besides the broker's own"
    )
    configurations: int = Field(default=3, ge=1, le=32, description="plugins side by side; each 120-200 MB")
    age_seconds: float = Field(default=3600, gt=0, description="then a plugin is replaced")
    idle_seconds: float = Field(default=900, gt=0, description="unused for so long, it is ended")
    memory_bytes: int = Field(default=400 << 20, ge=1 << 20, description="resident; above it a plugin is replaced")
    doubt_seconds: float = Field(default=5, ge=0, description="a younger plugin is not replaced for what it answers")
    drain_seconds: float = Field(default=660, gt=0, description="a replaced plugin may finish its calls for so long")
    start_seconds: float = Field(default=30, gt=0, description="for a plugin to say its port and to be configured")
    check_seconds: float = Field(default=5, gt=0, description="between checks of age, memory and health")
    answer_seconds: float = Field(default=10, gt=0, description="for the answer to a question that needs no work")
    patience: int = Field(default=3, ge=1, description="such questions unanswered in a row until it counts as hung")
    leave_seconds: float = Field(default=20, gt=0, description="for running calls when the broker is to end")


class PluginStatus(BaseModel):
    """One living plugin."""

    pid: int
    seconds: float
    memory_bytes: int
    calls_running: int
    calls: int
    configured: bool
    retiring: bool


class BrokerStatus(BaseModel):
    """The broker at this moment. `lost` plugins ended by themselves, `retired` ones were replaced or idle."""

    pid: int
    port: int
    memory_bytes: int
    plugins: list[PluginStatus]
    started: int
    retired: int
    lost: int
    refused_strangers: int
    methods: dict[str, int]
    lingering: list[str]


def installed_plugin(pulumi_home: Path, version: str) -> Path:
    """The plugin's executable where `pulumi plugin install` puts it. Raises `BrokerError` when it is not there."""
    path = pulumi_home / "plugins" / f"resource-kubernetes-v{version}" / "pulumi-resource-kubernetes"
    if not path.is_file():
        raise BrokerError(f"there is no kubernetes plugin {version} at {path}; `lessor doctor` shows what is installed")
    return path
