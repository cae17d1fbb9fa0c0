"""What runs was built by other code: a Lessor before this one, or nobody knows who when the record of it is lost.

All that replaces no pod is brought up to date at once. What would (the pod template, and fields for which a workload is
made anew) stays as it was found until the tenant's next manifest, or until an operator says recreate. As found means
read from the cluster: the older builder is not here to be asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import SecretStr

from components.errors import BuildError
from components.labels import RESOURCE_VERSION
from components.workload import workload_object
from lease.spec import BUILDER_VERSION, KeptWorkload, LeaseSpec, ServiceSpec
from provider.lifecycle.drift import differences
from provider.operators.labels import MANAGED
from provider.operators.objects import DEPLOYMENT, STATEFUL_SET
from provider.protocols import Cluster

__all__ = ["adopted", "as_found", "outdated", "pending"]

_FIXED = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates", "revisionHistoryLimit")
"""Beside the template: a workload in which one of these changes is deleted and made again."""


def outdated(spec: LeaseSpec) -> bool:
    """Whether another builder made what runs; what this one would make of `spec` says nothing about it."""
    return spec.builder_version != BUILDER_VERSION


async def as_found(cluster: Cluster, spec: LeaseSpec) -> LeaseSpec:
    """`spec` for this builder, with every workload that runs kept as it is. Raises `ClusterError`."""
    live = await _workloads(cluster, spec)
    found = ((service, live.get((_kind(service), service.name))) for service in spec.services)
    kept = tuple(_kept(spec, service, workload) for service, workload in found if workload is not None)
    return spec.model_copy(update={"builder_version": BUILDER_VERSION, "kept": kept})


async def adopted(cluster: Cluster, spec: LeaseSpec) -> LeaseSpec:
    """`spec` as found if what runs says that it was made from the same manifest, else `spec` itself: then the manifest
    is the tenant's next one. Nobody kept a record. Raises `ClusterError`.
    """
    versions = {service.resource_version for service in spec.services}
    live = (await _workloads(cluster, spec)).values()
    same = any((obj["metadata"].get("labels") or {}).get(RESOURCE_VERSION) in versions for obj in live)
    return await as_found(cluster, spec) if same else spec


def pending(spec: LeaseSpec) -> tuple[str, ...]:
    """A text for each service that would be rolled, with the paths (never the values, which may be secret)."""
    plain = spec.model_copy(update={"kept": ()})
    told = (_told(plain, service, spec.kept) for service in spec.services)
    return tuple(text for text in told if text)


def _kind(service: ServiceSpec) -> str:
    return STATEFUL_SET.kind if service.persistent else DEPLOYMENT.kind


async def _workloads(cluster: Cluster, spec: LeaseSpec) -> dict[tuple[str, str], Mapping[str, Any]]:
    kinds = {STATEFUL_SET if service.persistent else DEPLOYMENT for service in spec.services}
    return {
        (kind.kind, obj["metadata"]["name"]): obj
        for kind in sorted(kinds, key=lambda kind: kind.kind)
        for obj in await cluster.list(kind, namespace=spec.namespace, labels=MANAGED)
        if not obj["metadata"].get("deletionTimestamp")
    }


def _kept(spec: LeaseSpec, service: ServiceSpec, live: Mapping[str, Any]) -> KeptWorkload:
    plain = spec.model_copy(update={"kept": ()})
    wanted, found = workload_object(plain, service)["spec"], live["spec"]
    fixed = (name for name in _FIXED if name in found and any(differences(wanted.get(name), found[name])))
    fields = {name: found[name] for name in ("template", *fixed)}
    fields["template"] = found["template"] | {"metadata": _labelled(found["template"].get("metadata") or {})}
    return KeptWorkload(service=service.name, text=SecretStr(json.dumps(fields, sort_keys=True)))


def _labelled(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Without the empty time that an API server shows in a template."""
    return {key: value for key, value in meta.items() if value is not None}


def _told(plain: LeaseSpec, service: ServiceSpec, kept: Iterable[KeptWorkload]) -> str:
    fields = next((item.fields for item in kept if item.service == service.name), None)
    if fields is None:
        return ""
    try:
        wanted = workload_object(plain, service)["spec"]
    except BuildError as error:
        return f"service {service.name}: {error}"
    paths = [path for name, value in fields.items() for path in differences(wanted.get(name), value, name)]
    return f"service {service.name}: {', '.join(paths)}" if paths else ""
