"""The objects of one lease in the cluster, behind a narrow function that a cache fed by watches may replace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from lease.ids import LeaseId, namespace_name
from provider.kube.labels import MANAGED, managed_labels
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
    MANIFEST,
    NAMESPACE,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SERVICE,
    STATEFUL_SET,
)

__all__ = ["LeaseObjects", "ReadLease", "ReadManifest", "lease_reader", "manifest_reader"]

_Objects: TypeAlias = tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class LeaseObjects:
    """Plain Kubernetes objects. `manifest`: None when none was ever accepted. `namespace`: whether it exists.
    `trouble`: the reason why the newest manifest does not run, as a text for the tenant.
    """

    manifest: dict[str, Any] | None
    namespace: bool = False
    deployments: _Objects = ()
    stateful_sets: _Objects = ()
    services: _Objects = ()
    hosts: _Objects = ()
    leased_ips: _Objects = ()
    trouble: str = ""

    @property
    def workloads(self) -> _Objects:
        return self.deployments + self.stateful_sets


ReadLease: TypeAlias = Callable[[LeaseId], Awaitable[LeaseObjects]]
ReadManifest: TypeAlias = Callable[[LeaseId], Awaitable[dict[str, Any] | None]]


def manifest_reader(cluster: Cluster, manifest_namespace: str) -> ReadManifest:
    """A reader of the stored Manifest object alone, None when none was ever accepted. Raises `ClusterError`."""

    async def read(lease: LeaseId) -> dict[str, Any] | None:
        return await cluster.get(MANIFEST, namespace_name(lease), namespace=manifest_namespace)

    return read


def lease_reader(cluster: Cluster, manifest_namespace: str) -> ReadLease:
    """A reader of all kinds at once from the API server. Raises `ClusterError`."""

    async def read(lease: LeaseId) -> LeaseObjects:
        name, labels = namespace_name(lease), managed_labels(lease)
        records = asyncio.gather(
            cluster.get(MANIFEST, name, namespace=manifest_namespace),
            cluster.list(PROVIDER_HOST, namespace=manifest_namespace, labels=labels),
            cluster.list(PROVIDER_LEASED_IP, namespace=manifest_namespace, labels=labels),
        )
        running = asyncio.gather(
            cluster.get(NAMESPACE, name),
            cluster.list(DEPLOYMENT, namespace=name, labels=MANAGED),
            cluster.list(STATEFUL_SET, namespace=name, labels=MANAGED),
            cluster.list(SERVICE, namespace=name, labels=MANAGED),
        )
        (manifest, hosts, leased_ips), (namespace, deployments, stateful_sets, services) = await asyncio.gather(
            records, running
        )
        return LeaseObjects(
            manifest=manifest,
            namespace=namespace is not None,
            deployments=tuple(deployments),
            stateful_sets=tuple(stateful_sets),
            services=tuple(services),
            hosts=tuple(hosts),
            leased_ips=tuple(leased_ips),
        )

    return read
