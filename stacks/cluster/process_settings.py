"""Configuration of the processes that the cluster stack may run: the provider and its operators."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from lease.kubernetes_names import LABEL_LENGTH, LABEL_PATTERN, OPTIONAL_LABEL_PATTERN, SUBDOMAIN_PATTERN

__all__ = [
    "SECRET_VARIABLES",
    "GatewayProcess",
    "Image",
    "InventoryConfig",
    "Label",
    "Name",
    "OptionalName",
    "ProcessSettings",
    "ServiceType",
    "fault",
]

Name = Annotated[str, StringConstraints(pattern=SUBDOMAIN_PATTERN, max_length=253)]
"""A DNS subdomain: the form of most objects' names."""
OptionalName = Annotated[str, StringConstraints(pattern=f"^$|{SUBDOMAIN_PATTERN}", max_length=253)]
"""Empty for none. One pattern and no union, whose errors would name its members in the path."""
Label = Annotated[str, StringConstraints(pattern=LABEL_PATTERN, max_length=LABEL_LENGTH)]
"""A DNS label: the form of a namespace's name."""
_OptionalLabel = Annotated[str, StringConstraints(pattern=OPTIONAL_LABEL_PATTERN, max_length=LABEL_LENGTH)]
_IMAGE = r"^[a-z0-9][a-zA-Z0-9._:/@-]*[a-zA-Z0-9]$"
Image = Annotated[str, StringConstraints(pattern=_IMAGE, max_length=500)]
_OptionalImage = Annotated[str, StringConstraints(pattern=f"^$|{_IMAGE}", max_length=500)]
_Variable = Annotated[str, StringConstraints(pattern=r"^(AP|AKASH|LESSOR)_[A-Z0-9_]+$")]
_Cpu = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,5}m?$")]
_Bytes = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,14}(k|M|G|T|Ki|Mi|Gi|Ti)?$")]
_OptionalAccount = Annotated[str, StringConstraints(pattern=r"^$|^akash1[02-9ac-hj-np-z]{38}$")]
SECRET_VARIABLES = ("AP_CERT_ISSUER_HMAC", "LESSOR_BUS_URL", "LESSOR_STACK_QUEUE", "LESSOR_STORE_URL")
"""Settings that hold passwords. The provider has each from the key of its name in the key Secret, if there is one."""
_MNEMONIC = "LESSOR_MNEMONIC"
_FIXED = (
    "AP_CERT_ISSUER_HTTP_CHALLENGE_PORT",
    "AP_HOME",
    "AP_K8S_MANIFEST_NS",
    "AP_KUBECONFIG",
    "AP_METRICS_LISTENER",
    "LESSOR_CERTIFICATE_SECRET",
    "LESSOR_INVENTORY_ENDPOINT",
    "LESSOR_HEALTH_LISTENER",
    "LESSOR_MNEMONIC_FILE",
)
"""What the stack itself sets, since it mounts and names these things."""

_TLS = frozenset(("GATEWAY_TLS_CERT", "GATEWAY_TLS_KEY", "CERT_ISSUER_ENABLED"))


def fault(path: str, text: str) -> PydanticCustomError:
    """The error of a check of several settings. `path`: of the setting to change, below the checked ones."""
    return PydanticCustomError("lessor", "{text}", {"path": path, "text": text})


class GatewayProcess(StrEnum):
    """Where the gateway runs: LESSOR_GATEWAY_PROCESS of the provider."""

    INSIDE = "inside"
    CHILD = "child"
    SEPARATE = "separate"


class ServiceType(StrEnum):
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


def _expression(text: str) -> str:
    if not text:
        raise ValueError("an empty expression matches every name")
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


_Expression = Annotated[str, AfterValidator(_expression)]


class _Document(BaseModel):
    """Keys as in the inventory operator's own file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class StorageRule(_Document):
    """On nodes whose name `node_filter` matches, these classes are not offered."""

    node_filter: _Expression
    classes: tuple[Name, ...]


class Excluded(_Document):
    nodes: tuple[_Expression, ...] = ()
    node_storage: tuple[StorageRule, ...] = ()


class InventoryConfig(_Document):
    """The configuration of the inventory operator (operators.md §2.8)."""

    version: Annotated[str, StringConstraints(pattern=r"^v?[0-9]+(\.[0-9]+){0,2}$")] = "v1"
    cluster_storage: tuple[Name, ...]
    exclude: Excluded = Field(default_factory=Excluded)

    @model_validator(mode="after")
    def _are_offered(self) -> InventoryConfig:
        for number, rule in enumerate(self.exclude.node_storage):
            for name in rule.classes:
                if name not in self.cluster_storage:
                    path = f"exclude.node_storage.{number}.classes"
                    raise fault(path, f"{name} is no class of cluster_storage")
        return self

    def document(self) -> dict[str, Any]:
        return self.model_dump(mode="json")


class ProcessSettings(BaseModel):
    """`image` empty: the processes run elsewhere, and the stack makes only what they need. `account`: the provider's on
    the chain; the IP operator runs when it is set. `tls_secret`: a Secret of type kubernetes.io/tls with the CA's
    certificate for the public hostname, such as cert-manager writes. `gateway_process`: separate is a container of its
    own beside the provider's, without the key.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=lambda name: name.replace("_", "-"))

    image: _OptionalImage = ""
    pull_secret: OptionalName = ""
    account: _OptionalAccount = ""
    key_secret: Name = "lessor-key"  # noqa: S105 (an object's name)
    tls_secret: OptionalName = ""
    environment: dict[_Variable, str] = Field(default_factory=dict)
    gateway_process: GatewayProcess = GatewayProcess.INSIDE
    service_type: ServiceType = ServiceType.CLUSTER_IP
    remote_state: bool = False
    storage: _Bytes = "10Gi"
    storage_class: OptionalName = ""
    cpu: _Cpu = "1"
    memory: _Bytes = "2Gi"
    inventory: bool = True
    inventory_config: InventoryConfig | None = None
    privileged_discovery: bool = False
    rook_namespace: _OptionalLabel = ""
    hostname: bool = True
    ip: bool = True
    service_monitor: bool = False

    @model_validator(mode="after")
    def _fits_together(self) -> ProcessSettings:
        for name in self.environment:
            if name == _MNEMONIC:
                raise fault(f"environment.{name}", f"is a secret: the key mnemonic of the Secret {self.key_secret}")
            if name in SECRET_VARIABLES:
                raise fault(f"environment.{name}", f"is a secret: the key {name} of the Secret {self.key_secret}")
            if name == "LESSOR_GATEWAY_PROCESS":
                raise fault(f"environment.{name}", "is lessor:processes.gateway-process")
            if name in _FIXED:
                raise fault(f"environment.{name}", "is set by the stack itself")
        if self.tls_secret and any(
            name.removeprefix("AKASH_").removeprefix("AP_") in _TLS for name in self.environment
        ):
            raise fault("tls-secret", "names the certificate; leave AP_GATEWAY_TLS_… and AP_CERT_ISSUER_ENABLED out")
        if self.account and self.environment.get("AP_FROM", self.account) != self.account:
            raise fault("environment.AP_FROM", "is another account than lessor:processes.account")
        if self.remote_state and not self.environment.get("LESSOR_STACK_BACKEND"):
            raise fault("remote-state", "needs environment.LESSOR_STACK_BACKEND: without it the state is in the pod")
        return self
