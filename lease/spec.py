"""`LeaseSpec`: everything a lease stack needs and nothing else (docs/architecture.md §4).

It crosses a process (daemon to stack worker) and a wire (the Secret `applied-<namespace>`), so it is a pydantic
model with one canonical JSON text and one content hash. Same hash as last applied and no drift: nothing to do, no
process started.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from lease.ids import LeaseId, namespace_name

__all__ = [
    "BUILDER_VERSION",
    "ClusterFacts",
    "EnvironmentVariable",
    "GpuPlacement",
    "HostnameSpec",
    "IngressMode",
    "KeptWorkload",
    "LeaseSpec",
    "LeasedIpSpec",
    "PortSpec",
    "RegistryCredentials",
    "ServiceSpec",
    "VolumeKind",
    "VolumeSpec",
]

BUILDER_VERSION = 2
"""Raised whenever `components/` would make other objects from the same spec.

2: values that an apply would fold or refuse are held in a Secret; `pulumi.com/patchForce` on every object.
"""


def _unset(value: object) -> bool:
    """What came later than the first specs and is not set stays out of the JSON, so that hashes stay."""
    return not value


class _Model(BaseModel):
    # an error must not print its input, which may hold what tenants keep secret
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class IngressMode(StrEnum):
    INGRESS = "ingress"
    GATEWAY_API = "gateway-api"


class VolumeKind(StrEnum):
    """Where a volume lives: the container's own disk, memory (emptyDir medium Memory), or a claim that survives the
    pod.
    """

    EPHEMERAL = "ephemeral"
    RAM = "ram"
    PERSISTENT = "persistent"


class EnvironmentVariable(_Model):
    """A tenant's variable. The value is secret from the first day."""

    name: str
    value: SecretStr

    @field_serializer("value", when_used="json")
    def _plain_value(self, value: SecretStr) -> str:
        return value.get_secret_value()


class RegistryCredentials(_Model):
    host: str
    email: str
    username: str
    password: SecretStr

    @field_serializer("password", when_used="json")
    def _plain_password(self, value: SecretStr) -> str:
        return value.get_secret_value()


class GpuPlacement(_Model):
    """The card the reservation chose; `memory_size` ("80Gi") and `interface` only where the tenant asked for them."""

    vendor: str
    model: str
    memory_size: str = ""
    interface: str = ""


class VolumeSpec(_Model):
    """One storage entry of a service. `mount` is empty when nothing mounts it (the container's root disk)."""

    name: str
    kind: VolumeKind
    size_bytes: int
    storage_class: str = ""
    mount: str = ""
    read_only: bool = False


class PortSpec(_Model):
    """One expose, in the manifest's order; `index` is its place in the whole list and part of the Kubernetes port
    name.
    """

    index: int
    port: int
    external_port: int = Field(description="effective: never 0")
    proto: str
    global_: bool
    ingress: bool
    ip_name: str = ""


class ServiceSpec(_Model):
    """One manifest service. Requests are what is committed, limits what the tenant rented (kubernetes-objects.md
    §2.5.2).
    """

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    environment: tuple[EnvironmentVariable, ...] = Field(
        default=(), description="the tenant's, then the provider's AKASH_*"
    )
    count: int
    resource_version: str = Field(
        description="of the Manifest object when this service last changed; the rollout label"
    )
    resource_id: int
    cpu_request_milli: int
    cpu_limit_milli: int
    memory_request_bytes: int
    memory_limit_bytes: int = Field(description="rented memory plus its RAM volumes")
    ephemeral_request_bytes: int = 0
    ephemeral_limit_bytes: int = 0
    gpu_units: int = 0
    gpu: GpuPlacement | None = None
    runtime_class: str = ""
    volumes: tuple[VolumeSpec, ...] = ()
    ports: tuple[PortSpec, ...] = ()
    permissions_read: tuple[str, ...] = ()
    credentials: RegistryCredentials | None = None

    @property
    def persistent(self) -> bool:
        """A StatefulSet rather than a Deployment."""
        return any(volume.kind is VolumeKind.PERSISTENT for volume in self.volumes)


class HostnameSpec(_Model):
    """One hostname of the lease and where its requests go. Timeouts in ms, sizes in bytes; a `proxy_buffer_size` of 0
    leaves it to the cluster's.
    """

    hostname: str
    service: str
    external_port: int
    max_body_size: int
    read_timeout: int
    send_timeout: int
    next_tries: int
    next_timeout: int
    next_cases: tuple[str, ...]
    proxy_buffer_size: int = 0


class LeasedIpSpec(_Model):
    """One expose on a leased address. `address` is chosen by us and written to ProviderLeasedIP.status before the
    stack runs.
    """

    service: str
    port: int
    external_port: int
    proto: str
    sharing_key: str
    address: str


class KeptWorkload(_Model):
    """What another builder made of a service and goes on running: its pods are not replaced because we changed."""

    service: str
    text: SecretStr = Field(description="JSON of the workload's fields that would roll or replace its pods, as found")

    @field_serializer("text", when_used="json")
    def _plain(self, value: SecretStr) -> str:
        return value.get_secret_value()

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of the workload's spec, `template` among them."""
        found: dict[str, Any] = json.loads(self.text.get_secret_value())
        return found


class ClusterFacts(_Model):
    """What the cluster is like, for objects that depend on it."""

    ingress_mode: IngressMode = IngressMode.INGRESS
    ingress_class: str = "akash-ingress-class"
    gateway_name: str = "akash-gateway"
    gateway_namespace: str = "akash-gateway"
    proxy_buffer_size: str = "16k"
    public_hostname: str = ""
    network_policies: bool = True
    api_server_endpoints: tuple[str, ...] = Field(
        default=(), description='"address:port", for akash-apiserver-* policies'
    )
    metallb_namespace: str = "metallb-system"
    pull_secret: str = ""
    edge_namespace: str = Field(
        default="", exclude_if=_unset, description="of an edge that is neither Ingress-NGINX nor in the gateway's"
    )
    edge_labels: tuple[str, ...] = Field(
        default=(), exclude_if=_unset, description='"key=value" of its pods; none: all pods of its namespace'
    )
    node_dns: tuple[str, ...] = Field(
        default=(), exclude_if=_unset, description="addresses of a DNS cache on each node, which pods ask"
    )
    closed_ranges: tuple[str, ...] = Field(
        default=(), exclude_if=_unset, description="IPv4 networks closed to tenants beside those that always are"
    )


class LeaseSpec(_Model):
    """One group's lease as objects are made from it."""

    builder_version: int = BUILDER_VERSION
    lease: LeaseId
    group: str
    first_resource_version: str = Field(description="of the first deployment: Namespace and NetworkPolicies keep it")
    services: tuple[ServiceSpec, ...]
    hostnames: tuple[HostnameSpec, ...] = ()
    leased_ips: tuple[LeasedIpSpec, ...] = ()
    cluster: ClusterFacts = ClusterFacts()
    kept: tuple[KeptWorkload, ...] = Field(
        default=(), exclude_if=_unset, description="workloads that stay as found until the next manifest"
    )

    @property
    def namespace(self) -> str:
        """Also the name of the stack."""
        return namespace_name(self.lease)

    def canonical_json(self) -> str:
        """Sorted keys, no blanks; contains the tenant's secrets in clear. Only for the worker's pipe and the applied
        Secret.
        """
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> LeaseSpec:
        return cls.model_validate_json(text)

    def content_hash(self) -> str:
        """Hex SHA-256 of the canonical JSON: equal specs make equal objects."""
        return hashlib.sha256(self.canonical_json().encode()).hexdigest()
