"""The upgrade of what another builder made: an older Lessor, or an unknown builder when the record is lost.

Everything that replaces no pod is brought up to date at once. What would replace one (the pod template, and fields for
which a workload is made anew) stays as it was found until the tenant's next manifest, or until an operator asks for
recreate. "As found" means read from the cluster: the older builder is not available. A workload with volumes is never
made anew, so what a StatefulSet cannot change stays for good, the order of its claims too: in another order they are
still the same volumes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import SecretStr

from components.errors import BuildError
from components.labels import RESOURCE_VERSION
from components.lease import lease_objects
from components.workload import workload_object
from lease.spec import BUILDER_VERSION, KeptWorkload, LeaseSpec, ServiceSpec
from provider.kube.labels import MANAGED
from provider.lifecycle.drift import differences
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, STATEFUL_SET

__all__ = ["FIXED", "as_found", "carried", "outdated"]

FIXED = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates", "revisionHistoryLimit")
"""Fields beside the template: a workload in which one of these changes is deleted and made again."""
_DEFAULTS = {"podManagementPolicy": "OrderedReady", "serviceName": ""}
"""What an API server shows for fields that were not set."""
_Workloads = Mapping[tuple[str, str], Mapping[str, Any]]


def outdated(spec: LeaseSpec) -> bool:
    """Whether another builder made what runs: then the objects that this builder makes of `spec` are not what runs."""
    return spec.builder_version != BUILDER_VERSION


async def as_found(cluster: Cluster, spec: LeaseSpec) -> LeaseSpec:
    """`spec` for this builder, with every workload that runs kept as it is. Raises `ClusterError`."""
    return _as_found(spec, await _workloads(cluster, spec))


async def carried(cluster: Cluster, newest: LeaseSpec, *, applied: LeaseSpec | None, again: bool) -> LeaseSpec:
    """`newest` with the fields that an upgrade of Lessor may not change. `again`: the tenant asks for nothing new, so
    no pod is replaced; with nothing `applied` this is a guess that what runs confirms. Raises `ClusterError`.
    """
    if applied is not None and not outdated(applied):
        return newest.model_copy(update={"kept": applied.kept}) if again else _never_made_anew(newest, applied)
    if not again and not any(service.persistent for service in newest.services):
        return newest
    live = await _workloads(cluster, newest)
    if again and applied is not None:
        return _as_found(newest, live)
    if again and (same := _made_from(newest, live)):
        kept = _as_found(newest, same).kept
        fixed = _fixed_parts(newest, {key: workload for key, workload in live.items() if key not in same})
        return newest.model_copy(update={"builder_version": BUILDER_VERSION, "kept": (*kept, *fixed)})
    return newest.model_copy(update={"kept": tuple(_fixed_parts(newest, live))})


def _made_from(spec: LeaseSpec, live: _Workloads) -> _Workloads:
    """The running workloads that were made from the manifest of `spec`, as far as their labels show it without a
    record.

    A workload with the manifest's version shows that this manifest was applied, perhaps not completely. A workload with
    an older version beside it is either a service that did not change, or one that the update had not reached: then it
    runs something else, and that must not stay.
    """
    versions = {service.resource_version for service in spec.services}
    current = {key for key, workload in live.items() if _version(workload) in versions}
    wanted = {(_kind(service), service.name): service for service in spec.services} if current else {}
    return {
        key: live[key]
        for key, service in wanted.items()
        if key in live and (key in current or _runs(service, live[key]))
    }


def _version(workload: Mapping[str, Any]) -> str | None:
    found: str | None = (workload["metadata"].get("labels") or {}).get(RESOURCE_VERSION)
    return found


def _runs(service: ServiceSpec, live: Mapping[str, Any]) -> bool:
    """Whether it runs this service's image and command: every builder has written these the same."""
    for container in live["spec"]["template"]["spec"]["containers"]:
        if container["name"] == service.name:
            commands = (container.get(part) or [] for part in ("command", "args"))
            return [container["image"], *commands] == [service.image, list(service.command), list(service.args)]
    return False


def _kind(service: ServiceSpec) -> str:
    return STATEFUL_SET.kind if service.persistent else DEPLOYMENT.kind


async def _workloads(cluster: Cluster, spec: LeaseSpec) -> _Workloads:
    kinds = {STATEFUL_SET if service.persistent else DEPLOYMENT for service in spec.services}
    return {
        (kind.kind, obj["metadata"]["name"]): obj
        for kind in sorted(kinds, key=lambda kind: kind.kind)
        for obj in await cluster.list(kind, namespace=spec.namespace, labels=MANAGED)
        if not obj["metadata"].get("deletionTimestamp")
    }


def _as_found(spec: LeaseSpec, live: _Workloads) -> LeaseSpec:
    found = ((service, live.get((_kind(service), service.name))) for service in spec.services)
    kept = tuple(_kept(spec, service, workload) for service, workload in found if workload is not None)
    return spec.model_copy(update={"builder_version": BUILDER_VERSION, "kept": kept})


def _kept(spec: LeaseSpec, service: ServiceSpec, live: Mapping[str, Any]) -> KeptWorkload:
    template = live["spec"]["template"]
    template |= {"metadata": _labelled(template.get("metadata") or {})}
    return _keeping(service, {"template": template} | _fixed(spec, service, live))


def _never_made_anew(newest: LeaseSpec, applied: LeaseSpec) -> LeaseSpec:
    """`newest` in which workloads with volumes keep the fields that no update can change, as in the last complete
    version.
    """
    before = {service.name: service for service in applied.services if service.persistent}
    try:
        made = lease_objects(applied) if before else ()
    except BuildError:
        return newest
    live = {("StatefulSet", item["metadata"]["name"]): item for item in made if item["kind"] == STATEFUL_SET.kind}
    return newest.model_copy(update={"kept": tuple(_fixed_parts(newest, live))})


def _fixed_parts(newest: LeaseSpec, live: _Workloads) -> Iterable[KeptWorkload]:
    for service in newest.services:
        workload = live.get((_kind(service), service.name))
        if service.persistent and workload is not None and (fields := _fixed(newest, service, workload)):
            yield _keeping(service, fields)


def _fixed(spec: LeaseSpec, service: ServiceSpec, live: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the running workload that differ from those of this builder and for which it would be made anew.

    Other volumes are not a difference between builders: they are the tenant's change, which `objections` refuses.
    """
    try:
        wanted = workload_object(spec.model_copy(update={"kept": ()}), service)["spec"]
    except BuildError:
        return {}
    found = {name: live["spec"][name] for name in FIXED if name in live["spec"]}
    if "volumeClaimTemplates" in found:
        found["volumeClaimTemplates"] = [_claim(claim) for claim in found["volumeClaimTemplates"]]
        if not _same_volumes(wanted.get("volumeClaimTemplates") or [], found["volumeClaimTemplates"]):
            del found["volumeClaimTemplates"]
    return {name: value for name, value in found.items() if value != wanted.get(name, _DEFAULTS.get(name))}


def _claim(claim: Mapping[str, Any]) -> dict[str, Any]:
    """The claim as it was sent, without what an API server adds."""
    return {"metadata": _labelled(claim["metadata"]), "spec": claim["spec"]}


def _same_volumes(wanted: Iterable[Mapping[str, Any]], found: Iterable[Mapping[str, Any]]) -> bool:
    new, old = ({claim["metadata"]["name"]: claim["spec"] for claim in claims} for claims in (wanted, found))
    return new.keys() == old.keys() and not any(True for _ in differences(new, old))


def _keeping(service: ServiceSpec, fields: Mapping[str, Any]) -> KeptWorkload:
    return KeptWorkload(service=service.name, text=SecretStr(json.dumps(fields, sort_keys=True)))


def _labelled(meta: Mapping[str, Any]) -> dict[str, Any]:
    """`meta` without the empty time that an API server shows in a template."""
    return {key: value for key, value in meta.items() if value is not None}
