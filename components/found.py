"""The objects of an adopted lease, as they were found: another provider made them, and nothing is built.

The parts are those of a built lease, so that an object keeps its place in the stack when the next version builds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.errors import BuildError
from components.labels import ALLOW_SHARED_IP, MANIFEST_SERVICE, SERVICE_TARGET, Object
from components.parts import AddressPart, LeaseParts, ServicePart
from lease.spec import LeaseSpec

__all__ = ["found_parts", "sent"]

_WORKLOADS = ("Deployment", "StatefulSet")
_ACCESS = ("ServiceAccount", "Role", "RoleBinding")
_EDGE = ("Ingress", "HTTPRoute")
_METADATA = ("name", "namespace", "labels", "annotations")
_NOT_SENT = ("deployment.kubernetes.io/", "metallb.io/ip-allocated-from-pool", "kubectl.kubernetes.io/")
"""Beginnings of annotations that controllers and kubectl write."""
_NAME_OF_NAMESPACE = "kubernetes.io/metadata.name"
_OF_SERVICE = ("type", "ports", "selector")
_OF_PORT = ("name", "protocol", "port", "targetPort")
"""What was sent of a Service. With an address that a stack fixes, the next version would be a replacement."""
_DEFAULTS: Mapping[str, Any] = {
    "podManagementPolicy": "OrderedReady",
    "serviceName": "",
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
}
"""Fields of a StatefulSet that were not sent, and what the API server shows for them."""


def found_parts(spec: LeaseSpec) -> LeaseParts:
    """The parts of `spec.found`. Raises `BuildError` when the namespace is not among them."""
    objects = [item.manifest for item in spec.found]
    namespaces = _of_kind(objects, ("Namespace",))
    if [item["metadata"]["name"] for item in namespaces] != [spec.namespace]:
        raise BuildError("found objects", [item["metadata"]["name"] for item in namespaces], spec.namespace)
    return LeaseParts(
        namespace=namespaces[0],
        credentials=_of_kind(objects, ("Secret",)),
        bounds=(),
        policies=_of_kind(objects, ("NetworkPolicy",)),
        services=tuple(_service(workload, objects) for workload in _of_kind(objects, _WORKLOADS)),
        hostnames=_of_kind(objects, _EDGE),
        addresses=_addresses(objects),
    )


def sent(live: Mapping[str, Any]) -> Object:
    """The object as it was sent: without status, without what the API server allocates, and without the annotations of
    controllers.
    """
    meta = {key: value for key, value in live["metadata"].items() if key in _METADATA and value}
    for key, left_out in (("annotations", _NOT_SENT), ("labels", (_NAME_OF_NAMESPACE,))):
        kept = {name: text for name, text in meta.get(key, {}).items() if not name.startswith(left_out)}
        meta = {name: value for name, value in meta.items() if name != key} | ({key: kept} if kept else {})
    body = {key: value for key, value in live.items() if key not in ("metadata", "status")}
    match live["kind"]:
        case "Namespace":
            body.pop("spec", None)
        case "Secret":
            body["data"] = live.get("data") or {}
        case "Service":
            body["spec"] = _sent_service(live["spec"])
        case "Deployment" | "StatefulSet":
            body["spec"] = _sent_workload(live["spec"])
    return body | {"metadata": meta}


def _of_kind(objects: Iterable[Object], kinds: Sequence[str]) -> tuple[Object, ...]:
    return tuple(item for item in objects if item["kind"] in kinds)


def _service(workload: Object, objects: Iterable[Object]) -> ServicePart:
    name = workload["metadata"]["name"]
    own = [item for item in objects if _labels(item).get(MANIFEST_SERVICE) == name]
    return ServicePart(
        name=name,
        access=_of_kind(own, _ACCESS),
        workload=workload,
        services=_of_kind(own, ("Service",)),
    )


def _addresses(objects: Iterable[Object]) -> tuple[AddressPart, ...]:
    by_key: dict[str, list[Object]] = {}
    for item in _of_kind(objects, ("Service",)):
        if SERVICE_TARGET in _labels(item):
            by_key.setdefault(item["metadata"]["annotations"][ALLOW_SHARED_IP], []).append(item)
    return tuple(AddressPart(key, (), tuple(services)) for key, services in by_key.items())


def _labels(item: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels


def _sent_service(spec: Mapping[str, Any]) -> Object:
    kept = {key: spec[key] for key in _OF_SERVICE if key in spec}
    ports = [{key: port[key] for key in _OF_PORT if key in port} for port in spec.get("ports") or ()]
    return kept | ({"ports": ports} if ports else {})


def _sent_workload(spec: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in spec.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}
    template = spec["template"]
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if value is not None}
    kept["template"] = {**template, "metadata": meta}
    if claims := spec.get("volumeClaimTemplates"):
        kept["volumeClaimTemplates"] = [_sent_claim(claim) for claim in claims]
    return kept


def _sent_claim(claim: Mapping[str, Any]) -> Object:
    meta = {key: value for key, value in claim["metadata"].items() if value is not None}
    return {"metadata": meta, "spec": claim["spec"]}
