"""Rules for names in DNS and in Kubernetes: which text is a label, a subdomain, a hostname, a label key, a variable.

The API server and the DNS limit a name differently, and the Go provider differs from both in places; each function
names the rule that it holds.
"""

from __future__ import annotations

import re

__all__ = [
    "LABEL_LENGTH",
    "LABEL_PATTERN",
    "OPTIONAL_LABEL_PATTERN",
    "SUBDOMAIN_PATTERN",
    "is_hostname",
    "is_label",
    "is_label_name",
    "is_manifest_service_name",
    "is_service_label",
    "is_subdomain",
    "is_subdomain_of_labels",
    "is_variable_name",
]

LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_LABEL_OF_ANY_LENGTH = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST_LABEL = "[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"

LABEL_PATTERN = f"^{_LABEL}$"
"""`is_label` as a pattern, for a schema."""
OPTIONAL_LABEL_PATTERN = f"^({_LABEL})?$"
SUBDOMAIN_PATTERN = rf"^{_LABEL_OF_ANY_LENGTH}(\.{_LABEL_OF_ANY_LENGTH})*$"
"""`is_subdomain` as a pattern, without its limit of 253 characters."""

_IS_LABEL = re.compile(_LABEL)
_IS_SERVICE_LABEL = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_IS_MANIFEST_SERVICE_NAME = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_IS_SUBDOMAIN = re.compile(rf"{_LABEL_OF_ANY_LENGTH}(\.{_LABEL_OF_ANY_LENGTH})*")
_IS_SUBDOMAIN_OF_LABELS = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_IS_HOSTNAME = re.compile(rf"{_HOST_LABEL}(\.{_HOST_LABEL})*")
_IS_LABEL_NAME = re.compile("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_IS_VARIABLE_NAME = re.compile("[-._a-zA-Z][-._a-zA-Z0-9]*")


def is_label(text: str) -> bool:
    """An RFC 1123 label: 1 to 63 lower-case letters, digits and dashes, no dash at either end. Names a namespace."""
    return _IS_LABEL.fullmatch(text) is not None


def is_service_label(text: str) -> bool:
    """An RFC 1035 label: an RFC 1123 label that begins with a letter. Names a Service of Kubernetes."""
    return _IS_SERVICE_LABEL.fullmatch(text) is not None


def is_manifest_service_name(text: str) -> bool:
    """The Go provider's rule for the name of a manifest's service: an RFC 1035 label without a limit of length."""
    return _IS_MANIFEST_SERVICE_NAME.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """The RFC 1123 subdomain of the API server: at most 253 characters, lower case, labels of any length.

    It names most objects. The Go provider has the same rule for hostnames.
    """
    return len(text) <= _SUBDOMAIN_LENGTH and _IS_SUBDOMAIN.fullmatch(text) is not None


def is_subdomain_of_labels(text: str) -> bool:
    """A subdomain that DNS can resolve: at most 253 characters, each label at most 63."""
    return len(text) <= _SUBDOMAIN_LENGTH and _IS_SUBDOMAIN_OF_LABELS.fullmatch(text) is not None


def is_hostname(text: str) -> bool:
    """A DNS name in upper or lower case: at most 253 characters, each label at most 63."""
    return len(text) <= _SUBDOMAIN_LENGTH and _IS_HOSTNAME.fullmatch(text) is not None


def is_label_name(text: str) -> bool:
    """The name in a Kubernetes label's key, or a label's value that is not empty: 1 to 63 letters, digits, `-`, `_` and
    `.`, with a letter or digit at both ends.
    """
    return _IS_LABEL_NAME.fullmatch(text) is not None


def is_variable_name(text: str) -> bool:
    """The name of an environment variable: letters, digits, `-`, `_` and `.`, no digit first, no `.` alone or `..`
    first.
    """
    return _IS_VARIABLE_NAME.fullmatch(text) is not None and text != "." and not text.startswith("..")
