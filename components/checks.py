"""The last guard before a tenant's text becomes part of a Kubernetes name, label or annotation.

Whatever was checked before, a value that reaches the configuration of the shared HTTP edge or a scheduling term is
checked here again: a manifest is a tenant's JSON, and a spec may have been stored by an older version.
"""

from __future__ import annotations

import re

from components.errors import BuildError

__all__ = ["label_part", "service_name", "subdomain", "within"]

_LABEL_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")


def label_part(place: str, value: str) -> str:
    """`value` as one part of a label key: at most 63 of letters, digits, `-`, `_`, `.`, alphanumeric at both ends."""
    if not _LABEL_PART.fullmatch(value):
        raise BuildError(place, value, "1 to 63 letters, digits, '-', '_' or '.', alphanumeric at both ends")
    return value


def service_name(place: str, value: str) -> str:
    """`value` as the name of a Deployment, a container and a Kubernetes Service (RFC 1035 label)."""
    if not _SERVICE_NAME.fullmatch(value):
        raise BuildError(place, value, "a lower-case RFC 1035 label of at most 63 characters")
    return value


def subdomain(place: str, value: str) -> str:
    """`value` as a hostname: RFC 1123 subdomain, at most 253 characters, no wildcard (kubernetes-objects.md §6)."""
    if len(value) > 253 or not _SUBDOMAIN.fullmatch(value):
        raise BuildError(place, value, "a lower-case RFC 1123 subdomain of at most 253 characters")
    return value


def within(place: str, value: int, maximum: int) -> int:
    """`value` if 0 ≤ value ≤ maximum."""
    if not 0 <= value <= maximum:
        raise BuildError(place, value, f"0 to {maximum}")
    return value
