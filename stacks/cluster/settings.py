"""Configuration of the cluster stack, checked as a whole: a misspelt key is an error that names the key.

Values come from `pulumi config` (project `lessor`); `Pulumi.example.yaml` lists every key with its default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pulumi
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from lease.spec import IngressMode
from stacks.cluster.process_settings import Label, Name, ProcessSettings

__all__ = ["ClusterStackSettings", "ConfigError", "MetalLbSettings", "parse_settings", "read_settings"]

PROJECT = "lessor"


class ConfigError(Exception):
    """A key of `pulumi config` is unknown or its value is wrong. The text names each, with what is allowed."""


class _Settings(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=False, alias_generator=lambda name: name.replace("_", "-")
    )


class MetalLbSettings(_Settings):
    """The operator installs MetalLB; `required` is false for a provider that leases no addresses."""

    required: bool = True
    namespace: Label = "metallb-system"


class ClusterStackSettings(_Settings):
    """Names as in the Go provider's charts (kubernetes-objects.md §8.3)."""

    manifest_namespace: Label = "lease"
    services_namespace: Label = "akash-services"
    service_account: Name = "lessor"
    admission_policy: bool = True
    ingress_mode: IngressMode = IngressMode.INGRESS
    ingress_class: Name = "akash-ingress-class"
    ingress_controller: Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^\s]+$")] = "k8s.io/ingress-nginx"
    metallb: MetalLbSettings = Field(default_factory=MetalLbSettings)
    network_policies: bool = True
    storage_classes: tuple[Name, ...] = ()
    runtime_classes: dict[Name, Name] = Field(default_factory=dict)
    priority_class: Name | Annotated[str, StringConstraints(max_length=0)] = "lessor"
    processes: ProcessSettings = Field(default_factory=ProcessSettings)


def read_settings() -> ClusterStackSettings:
    """The configuration of the running program's stack. Raises `ConfigError`."""
    return parse_settings(pulumi.runtime.config.CONFIG.get())


def parse_settings(config: Mapping[str, Any]) -> ClusterStackSettings:
    """The settings in `config`, which has keys `project:name` and texts, structured values as JSON. Other projects'
    keys are ignored.
    """
    own = {key.removeprefix(f"{PROJECT}:"): value for key, value in config.items() if key.startswith(f"{PROJECT}:")}
    try:
        return ClusterStackSettings.model_validate({key: _decode(value) for key, value in own.items()})
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def _decode(value: Any) -> Any:
    """The value of a text. Structured values arrive as JSON; a text that looks like JSON but is no object stays
    a text.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _explain(error: ValidationError) -> str:
    known = ", ".join(field.alias or name for name, field in ClusterStackSettings.model_fields.items())
    lines = []
    for problem in error.errors(include_url=False, include_context=False):
        path = f"{PROJECT}:" + ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{path}: there is no such setting; the top level has: {known}")
        else:
            lines.append(f"{path}: {problem['msg']}, not {problem['input']!r}")
    return "the configuration of the cluster stack is wrong:\n  " + "\n  ".join(sorted(lines))
