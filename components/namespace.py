"""The namespace that holds a lease (kubernetes-objects.md §2.1)."""

from __future__ import annotations

from components.labels import Object, checked_labels, lease_labels, namespace_labels
from lease.spec import LeaseSpec

__all__ = ["namespace_object"]


def namespace_object(spec: LeaseSpec) -> Object:
    """The Namespace: labels BASE and LEASE, no quota, no admission labels."""
    labels = checked_labels(namespace_labels(spec) | lease_labels(spec.lease))
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": spec.namespace, "labels": labels}}
