"""Labels, selectors and metadata of a lease's objects (kubernetes-objects.md §1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.checks import label_part, label_value, one_line
from lease.ids import LeaseId
from lease.spec import LeaseSpec, ServiceSpec

__all__ = [
    "ADMISSION",
    "AKASH",
    "ALLOW_SHARED_IP",
    "FORM_LABEL",
    "LEASE_OWNER",
    "MANIFEST_SERVICE",
    "NAMESPACE",
    "RESOURCE_VERSION",
    "SERVICE_TARGET",
    "SHARING_KEY",
    "SHARING_KEY_HASH",
    "Object",
    "checked_labels",
    "lease_labels",
    "metadata",
    "namespace_labels",
    "pod_labels",
    "selector",
    "service_labels",
]

Object = dict[str, Any]
"""A plain Kubernetes manifest."""

AKASH = "akash.network"
NAMESPACE = "akash.network/namespace"
RESOURCE_VERSION = "akash.network/manifest.resource.version"
MANIFEST_SERVICE = "akash.network/manifest-service"
SERVICE_TARGET = "akash.network/service-target"
LEASE_OWNER = "akash.network/lease.id.owner"
FORM_LABEL = "akash.network/objects-form"
"""Label of a Namespace from form 2 on: the form of the lease's objects, for a lease whose record is lost."""
ADMISSION = "pod-security.kubernetes.io/enforce"
ALLOW_SHARED_IP = "metallb.universe.tf/allow-shared-ip"
"""Annotation of a LoadBalancer Service: its sharing key."""
SHARING_KEY_HASH = "akash.network/sharing-key-hash"
"""Label of an address pool: the pool's own name, by which a claim finds the pool."""
SHARING_KEY = "akash.network/sharing-key"
"""Annotation of an address pool: the whole sharing key, which may be longer than a label's 63 characters."""


def namespace_labels(spec: LeaseSpec) -> dict[str, str]:
    """BASE: the labels of Namespace and NetworkPolicies, which keep the version of the first deployment."""
    return {AKASH: "true", NAMESPACE: spec.namespace, RESOURCE_VERSION: spec.first_resource_version}


def service_labels(spec: LeaseSpec, service: ServiceSpec) -> dict[str, str]:
    """SVC: the labels of every object made for one service. The version is the one at which this service last
    changed.
    """
    return {
        AKASH: "true",
        NAMESPACE: spec.namespace,
        RESOURCE_VERSION: service.resource_version,
        MANIFEST_SERVICE: service.name,
    }


def pod_labels(spec: LeaseSpec, service: ServiceSpec) -> dict[str, str]:
    """The labels of a service's pods: SVC with the version at which the pods last changed."""
    return service_labels(spec, service) | {RESOURCE_VERSION: service.rollout_version}


def lease_labels(lease: LeaseId) -> dict[str, str]:
    """LEASE: the five fields of the lease id."""
    return {
        LEASE_OWNER: lease.owner,
        "akash.network/lease.id.dseq": str(lease.dseq),
        "akash.network/lease.id.gseq": str(lease.gseq),
        "akash.network/lease.id.oseq": str(lease.oseq),
        "akash.network/lease.id.provider": lease.provider,
    }


def selector(spec: LeaseSpec, service: ServiceSpec) -> dict[str, str]:
    """The labels that select a service's pods: SVC without the version, because selectors never change."""
    return {AKASH: "true", NAMESPACE: spec.namespace, MANIFEST_SERVICE: service.name}


def metadata(
    name: str, namespace: str, *, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Object:
    """Metadata of a namespaced object. The metadata of every object is made here, so that every value of a label or an
    annotation is checked: annotations become lines of the shared edge's configuration.
    """
    result: Object = {"name": name, "namespace": label_part("namespace", namespace), "labels": checked_labels(labels)}
    if annotations:
        result["annotations"] = {key: one_line(f"annotation {key}", value) for key, value in annotations.items()}
    return result


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """`labels`, each value one that the API server takes. Raises `BuildError`."""
    return {key: label_value(f"label {key}", value) for key, value in labels.items()}
