"""Configuration of the processes that the cluster stack may run: the provider and its operators."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lease.kubernetes_names import SUBDOMAIN_PATTERN

__all__ = ["Name", "ProcessSettings", "ServiceType"]

Name = Annotated[str, StringConstraints(pattern=SUBDOMAIN_PATTERN, max_length=253)]
"""A DNS subdomain: the form of most objects' names."""
_Image = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-zA-Z0-9._:/@-]*[a-zA-Z0-9]$", max_length=500)]
_Variable = Annotated[str, StringConstraints(pattern=r"^(AP|AKASH|LESSOR)_[A-Z0-9_]+$")]
_Quantity = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
_SECRETS = ("LESSOR_MNEMONIC", "LESSOR_STORE_URL")
_FIXED = (
    "AP_HOME",
    "AP_K8S_MANIFEST_NS",
    "AP_KUBECONFIG",
    "AP_METRICS_LISTENER",
    "LESSOR_HEALTH_LISTENER",
    "LESSOR_MNEMONIC_FILE",
)
"""What the stack itself sets, since it mounts and names these things."""


class ServiceType(StrEnum):
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class ProcessSettings(BaseModel):
    """`image` empty: the processes run elsewhere, and the stack makes only what they need."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    image: _Image | Annotated[str, StringConstraints(max_length=0)] = ""
    pull_secret: Name | Annotated[str, StringConstraints(max_length=0)] = ""
    key_secret: Name = "lessor-key"  # noqa: S105 (an object's name)
    environment: dict[_Variable, str] = Field(default_factory=dict)
    service_type: ServiceType = ServiceType.CLUSTER_IP
    remote_state: bool = False
    storage: _Quantity = "10Gi"
    storage_class: Name | Annotated[str, StringConstraints(max_length=0)] = ""
    cpu: _Quantity = "1"
    memory: _Quantity = "2Gi"
    inventory: bool = True
    service_monitor: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> ProcessSettings:
        for name in self.environment:
            if name in _SECRETS:
                raise ValueError(f"environment.{name} is a secret: put it into the Secret {self.key_secret}")
            if name in _FIXED:
                raise ValueError(f"environment.{name} is set by the stack itself")
        if self.remote_state and not self.environment.get("LESSOR_STACK_BACKEND"):
            raise ValueError("remote-state needs environment.LESSOR_STACK_BACKEND: without it the state is in the pod")
        return self
