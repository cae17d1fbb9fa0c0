"""What the rules know about a lease beside its objects: the facts of the `LeaseSpec` from which the objects were made.

A builder that makes an object which the lease did not rent is found by comparing the two. Where only objects are known
(the policy pack, a recorded state), there are no facts, and rules that need them judge nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lease.spec import LeaseSpec, ServiceSpec, VolumeKind

__all__ = ["FOREIGN_ADDRESS", "FOREIGN_POOL", "LeaseFacts", "ServiceFacts", "facts_of"]

FOREIGN_POOL, FOREIGN_ADDRESS = "metallb.io/address-pool", "metallb.io/loadBalancerIPs"


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What one replica of a service rents. `volumes`: bytes and storage class by the volume's name in the pod.
    `kept`: the workload is as an older builder made it, so that its amounts are not compared.
    """

    count: int
    cpu_milli: int
    memory_bytes: int
    ephemeral_bytes: int
    gpus: int
    runtime_class: str
    volumes: Mapping[str, tuple[int, str]]
    kept: bool = False


@dataclass(frozen=True, slots=True)
class LeaseFacts:
    """`addresses`: the leased address by sharing key. `pools`: the pool of an address that another provider has leased
    from a pool of somebody else. `gateway`: namespace and name of the Gateway that serves hostnames; both empty in
    ingress mode.
    """

    owner: str
    namespace: str
    services: Mapping[str, ServiceFacts]
    hostnames: frozenset[str]
    addresses: Mapping[str, str]
    network_policies: bool
    ingress_class: str
    gateway: tuple[str, str]
    metallb_namespace: str
    pools: Mapping[str, str] = field(default_factory=dict)

    def takes(self, annotation: str, value: str) -> bool:
        """Whether the annotation names somebody else's pool, or the address in it, of a leased address."""
        if annotation == FOREIGN_POOL:
            return value in self.pools.values()
        return annotation == FOREIGN_ADDRESS and any(self.addresses.get(key) == value for key in self.pools)


def facts_of(spec: LeaseSpec) -> LeaseFacts:
    """The facts of a lease."""
    kept = {item.service for item in spec.kept}
    cluster = spec.cluster
    return LeaseFacts(
        owner=spec.lease.owner,
        namespace=spec.namespace,
        services={each.name: _service(each, kept=each.name in kept) for each in spec.services},
        hostnames=frozenset(each.hostname for each in spec.hostnames),
        addresses={each.sharing_key: each.address for each in spec.leased_ips},
        network_policies=cluster.network_policies,
        ingress_class=cluster.ingress_class,
        gateway=(cluster.gateway_namespace, cluster.gateway_name),
        metallb_namespace=cluster.metallb_namespace,
        pools={each.sharing_key: each.pool for each in spec.leased_ips if each.pool},
    )


def _service(service: ServiceSpec, *, kept: bool) -> ServiceFacts:
    return ServiceFacts(
        count=service.count,
        cpu_milli=service.cpu_limit_milli,
        memory_bytes=service.memory_limit_bytes,
        ephemeral_bytes=service.ephemeral_limit_bytes,
        gpus=service.gpu_units,
        runtime_class="" if service.runtime_class == "none" else service.runtime_class,
        volumes={
            f"{service.name}-{volume.name}": (volume.size_bytes, _class(volume.storage_class))
            for volume in service.volumes
            if volume.mount or volume.kind is not VolumeKind.EPHEMERAL
        },
        kept=kept,
    )


def _class(name: str) -> str:
    """`default` means the cluster's default class, so that an object names none."""
    return "" if name == "default" else name
