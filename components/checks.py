"""The last checks before a tenant's text becomes part of a Kubernetes name, label or annotation.

A value that reaches the configuration of the shared HTTP edge or a scheduling term is checked here again, whatever was
checked before: a manifest is a tenant's JSON, and an older version may have stored the spec.
"""

from __future__ import annotations

import re

from components.errors import BuildError
from lease.hostnames import is_wildcard
from lease.kubernetes_names import is_label_name, is_service_label, is_subdomain_of_labels

__all__ = [
    "hostname",
    "label_key",
    "label_part",
    "label_value",
    "one_line",
    "service_name",
    "subdomain",
    "text",
    "within",
]

_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")


def label_part(place: str, value: str) -> str:
    """`value` as one part of a label's key: 1 to 63 letters, digits, `-`, `_` and `.`, alphanumeric at both ends."""
    if not is_label_name(value):
        raise BuildError(place, value, "1 to 63 letters, digits, '-', '_' or '.', alphanumeric at both ends")
    return value


def label_key(place: str, value: str) -> str:
    """`value`, a `prefix/name`, as the key of a node label: its name has at most 63 characters."""
    label_part(place, value.partition("/")[2])
    return value


def label_value(place: str, value: str) -> str:
    """`value` as a label's value: empty, or as one part of a key."""
    return label_part(place, value) if value else value


def text(place: str, value: str) -> str:
    """`value` as text for a container: Unicode without NUL and without halves of surrogate pairs."""
    if "\0" in value or not _encodes(value):
        raise BuildError(place, value, "Unicode text without NUL")
    return value


def one_line(place: str, value: str) -> str:
    """`value` as one line of printable text, as an annotation needs it, so that no value ends or hides a line."""
    if not value.isprintable():
        raise BuildError(place, value, "printable text of one line")
    return value


def service_name(place: str, value: str) -> str:
    """`value` as the name of a Deployment, a container and a Kubernetes Service (RFC 1035 label)."""
    if not is_service_label(value):
        raise BuildError(place, value, "a lower-case RFC 1035 label of at most 63 characters")
    return value


def hostname(place: str, value: str) -> str:
    """`value` as a hostname: RFC 1123 subdomain of at most 253 characters (kubernetes-objects.md §6), or such a
    domain of at least two labels after `*.`; no IPv4 address, which the API server does not accept as a host.
    """
    return value if is_wildcard(value) else subdomain(place, value)


def subdomain(place: str, value: str) -> str:
    """`value` as an RFC 1123 subdomain of at most 253 characters, and no IPv4 address."""
    if not is_subdomain_of_labels(value) or _ADDRESS.fullmatch(value):
        raise BuildError(place, value, "a lower-case RFC 1123 subdomain of at most 253 characters, no IP address")
    return value


def within(place: str, value: int, maximum: int) -> int:
    """`value` if 0 ≤ value ≤ maximum."""
    if not 0 <= value <= maximum:
        raise BuildError(place, value, f"0 to {maximum}")
    return value


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
