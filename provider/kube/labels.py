"""The labels that name the lease of an object, and their reading (kubernetes-objects.md §1.2, operators.md §1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.labels import AKASH, LEASE_OWNER, NAMESPACE, RESOURCE_VERSION, lease_labels
from lease.ids import LeaseId, namespace_name

__all__ = ["MANAGED", "lease_of", "managed_labels", "record_labels"]

MANAGED = {AKASH: "true"}
"""Selects all objects of the provider, of every lease."""
_NUMBERS = ("dseq", "gseq", "oseq")


def managed_labels(lease: LeaseId) -> dict[str, str]:
    """`akash.network` and the five lease ids: what claims and routes carry, and what selects them again.

    The provider is part of the selector here (the Go provider leaves it out): two providers may share a cluster.
    """
    return MANAGED | lease_labels(lease)


def record_labels(lease: LeaseId) -> dict[str, str]:
    """BASE + LEASE of a Manifest, whose version stays empty: it is known only after the object is stored."""
    return {**managed_labels(lease), NAMESPACE: namespace_name(lease), RESOURCE_VERSION: ""}


def lease_of(obj: Mapping[str, Any]) -> LeaseId | None:
    """The lease an object is labelled with, None when a label is missing or a number is not one."""
    labels = (obj.get("metadata") or {}).get("labels") or {}
    prefix = LEASE_OWNER.removesuffix("owner")
    owner, provider = labels.get(LEASE_OWNER), labels.get(f"{prefix}provider")
    numbers = [str(labels.get(f"{prefix}{key}", "")) for key in _NUMBERS]
    if not owner or not provider or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    dseq, gseq, oseq = map(int, numbers)
    return LeaseId(str(owner), dseq, gseq, oseq, str(provider))
