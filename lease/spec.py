"""`LeaseSpec`: everything that a lease's stack needs and nothing else (docs/architecture.md §4).

It goes from the daemon to a stack worker, and into the Secret `applied-<namespace>`, so it is a pydantic model with one
canonical JSON text and one content hash. When the hash equals the last applied one and nothing drifted, there is
nothing to do and no process is started.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_serializer

from lease.ids import LeaseId, namespace_name

__all__ = [
    "AS_FOUND",
    "BUILDER_VERSION",
    "FIRST_FORM",
    "FORM",
    "ClusterFacts",
    "EnvironmentVariable",
    "FoundObject",
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

AS_FOUND = 0
FIRST_FORM = 1
FORM = 2
"""The form of the objects of new leases (docs/architecture.md §4). A lease takes the newest form with the tenant's next
manifest, so that an upgrade of Lessor changes nothing that runs.

0: the objects that another provider made, as they were found (`LeaseSpec.found`); no new lease has this form.
1: pods and namespaces as the Go provider makes them.
2: pods with the runtime's seccomp profile and without needless capabilities, an ephemeral-storage limit for every
container, GPU variables of the provider only, a namespace with an admission level, a quota and default limits, more
closed networks, LoadBalancer Services without node ports.
"""


def _first_form(form: int) -> bool:
    return form == FIRST_FORM


def _unset(value: object) -> bool:
    """Whether a field is not set. Fields that were added after the first specs stay out of the JSON then, so that
    hashes stay the same.
    """
    return not value


class _Model(BaseModel):
    # an error must not print its input, which may hold what tenants keep secret; a validator is built when it is used
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)


class IngressMode(StrEnum):
    INGRESS = "ingress"
    GATEWAY_API = "gateway-api"


class VolumeKind(StrEnum):
    """Where a volume is: on the container's own disk, in memory (emptyDir of medium Memory), or in a claim that
    outlives the pod.
    """

    EPHEMERAL = "ephemeral"
    RAM = "ram"
    PERSISTENT = "persistent"


class EnvironmentVariable(_Model):
    """A tenant's variable. Its value is always handled as a secret."""

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
    """The reserved card; `memory_size` ("80Gi") and `interface` only where the tenant requested them."""

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
    """One expose, in the manifest's order. `index` is its place in the whole list and part of the Kubernetes port's
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
    """One service of the manifest. Requests are the committed amounts, limits the rented ones (kubernetes-objects.md
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
    resource_version: str = Field(description="of the Manifest object when this service last changed")
    pods_version: str = Field(
        default="", exclude_if=_unset, description="as it was when the pods last changed, if that was earlier"
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
    user_namespace: bool = Field(
        default=False, exclude_if=_unset, description="whether root in the pod is another user on the node"
    )
    old_replica_sets: int = Field(
        default=0, exclude_if=_unset, description="how many a Deployment keeps; 0: ten, as the Go provider"
    )

    @property
    def persistent(self) -> bool:
        """Whether the service is a StatefulSet rather than a Deployment."""
        return any(volume.kind is VolumeKind.PERSISTENT for volume in self.volumes)

    @property
    def rollout_version(self) -> str:
        """The version in the label of the pods: another one makes them anew."""
        return self.pods_version or self.resource_version


class HostnameSpec(_Model):
    """One hostname of the lease and the service that its requests go to. Timeouts in ms, sizes in bytes; a
    `proxy_buffer_size` of 0 means the cluster's.
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
    """One expose on a leased address. The provider chooses `address` and writes it to ProviderLeasedIP.status before
    the stack runs.
    """

    service: str
    port: int
    external_port: int
    proto: str
    sharing_key: str
    address: str
    pool: str = Field(
        default="", exclude_if=_unset, description="of somebody else, which holds the address; empty: one of its own"
    )


class FoundObject(_Model):
    """An object of a lease as another provider made it, without what the API server adds."""

    text: SecretStr = Field(description="JSON of the manifest")

    @field_serializer("text", when_used="json")
    def _plain(self, value: SecretStr) -> str:
        return value.get_secret_value()

    @property
    def manifest(self) -> dict[str, Any]:
        """The plain Kubernetes manifest."""
        found: dict[str, Any] = json.loads(self.text.get_secret_value())
        return found


class KeptWorkload(_Model):
    """A service's workload as an older builder made it. It keeps running: a new version of Lessor does not replace its
    pods.
    """

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
    """Facts about the cluster that the objects depend on."""

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
    own_addresses: tuple[str, ...] = Field(
        default=(), exclude_if=_unset, description="IPv4 addresses of nodes and API server outside the closed networks"
    )


class LeaseSpec(_Model):
    """One group's lease, as its objects are made from it."""

    builder_version: int = BUILDER_VERSION
    form: int = Field(default=FIRST_FORM, exclude_if=_first_form, description="the form of the objects, see `FORM`")
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

    found: tuple[FoundObject, ...] = Field(
        default=(), exclude_if=_unset, description="the objects of an adopted lease; nothing else is made of it"
    )

    @property
    def fenced(self) -> bool:
        """Whether the objects have the fences of form 2."""
        return self.form > FIRST_FORM

    @property
    def namespace(self) -> str:
        """The name of the namespace and of the stack."""
        return namespace_name(self.lease)

    def canonical_json(self) -> str:
        """JSON with sorted keys and no blanks. It holds the tenant's secrets in clear and goes only to the worker's
        pipe and the applied Secret.
        """
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> LeaseSpec:
        return cls.model_validate_json(text)

    def content_hash(self) -> str:
        """Hex SHA-256 of the canonical JSON. Equal specs make equal objects."""
        return _hashed(self)


@lru_cache(maxsize=64)
def _hashed(spec: LeaseSpec) -> str:
    return hashlib.sha256(spec.canonical_json().encode()).hexdigest()
