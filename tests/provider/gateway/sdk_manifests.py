"""The SDLs of the corpus of which the SDK of npm makes another manifest than the Go provider's reader: which fields of
it differ. Its hash is that of its own manifest, so that a provider accepts it; only the two readers disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["MADE_DIFFERENTLY", "differing_fields"]

_SHARED_ID = "resources.id"
_PORTS_OF_LEASED = ("expose.endpointSequenceNumber", "resources.endpoints.sequence_number")
_ENDPOINTS = "resources.endpoints.kind"
_CARDS = "resources.gpu.attributes.key"
_VOLUMES = ("resources.storage.attributes", "resources.storage.name", "resources.storage.size.val")
_CLASS = "resources.storage.attributes.value"

MADE_DIFFERENTLY: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "endpoints are not sorted": (
        (_ENDPOINTS,),
        ("args-flow-list", "edge-expose-sort-order", "endpoints-http-and-ports", "services-five-accept-hosts"),
    ),
    "services that share a profile share its id; nor are endpoints sorted": (
        (_ENDPOINTS, _SHARED_ID),
        ("edge-shared-profile-endpoints-v2.0",),
    ),
    "services that share a profile share its id": (
        (_SHARED_ID,),
        ("edge-services-byte-order", "ip-shared-v2.0", "ip-two-endpoints-v2.0"),
    ),
    "leased addresses are numbered otherwise": (_PORTS_OF_LEASED, ("edge-ip-two-names-v2.1",)),
    "leased addresses are numbered otherwise, and a shared profile has one id": (
        (*_PORTS_OF_LEASED, _SHARED_ID),
        ("edge-ip-sequence-shift-v2.0", "edge-ip-two-names-v2.0"),
    ),
    "exposes of equal rank are in another order": (("expose.externalPort",), ("edge-expose-forty-mixed",)),
    "an expose without `to` is left out, or is one": (("expose",), ("edge-expose-without-to", "expose-without-to")),
    "a zero is kept where Go puts its default": (
        tuple(
            f"expose.httpOptions.{name}"
            for name in ("maxBodySize", "nextCases", "nextTries", "readTimeout", "sendTimeout")
        ),
        ("edge-http-zero-means-default",),
    ),
    "an empty list is null": (("args", "command", "env"), ("edge-empty-lists",)),
    "absent storage is an empty list": (("params.storage",), ("params-empty-mapping",)),
    "absent storage and permissions are empty lists": (
        ("params.permissions.read", "params.storage"),
        ("edge-permissions-empty",),
    ),
    "spaces stay around credentials": (
        ("credentials.host", "credentials.password"),
        ("edge-credentials-v2.1-trimmed",),
    ),
    "a unit has a fraction": (("resources.cpu.units.val",), ("edge-cpu-float-truncation",)),
    "a fraction of a byte is rounded up": (("resources.memory.size.val",), ("edge-memory-fraction",)),
    "cards without a model are no wildcard": (("resources.gpu.attributes",), ("edge-gpu-wildcard-empty-list",)),
    "cards are not sorted, or `undefined` is a model": (
        (_CARDS,),
        ("edge-gpu-model-missing", "edge-gpu-models-sorted", "gpu-many-models-unsorted"),
    ),
    "volumes are not sorted": (
        ("resources.storage.name",),
        ("edge-storage-mapping-name-ignored", "edge-volume-order-equal-sizes"),
    ),
    "volumes of several sizes are not sorted": (
        ("resources.storage.name", "resources.storage.size.val"),
        ("denom-ibc-two-persistent-no-root",),
    ),
    "volumes with attributes are not sorted": (
        _VOLUMES,
        ("edge-storage-ram-class-only", "edge-storage-ram-shm", "expose-global-false"),
    ),
    "volumes of two classes are not sorted": (
        (_CLASS, *_VOLUMES[1:]),
        ("gpu-models-ram-shm-persistent",),
    ),
    "volumes of classes and without are not sorted": (
        (_VOLUMES[0], _CLASS, *_VOLUMES[1:]),
        ("gpu-eight-sxm-ram", "gpu-wildcard-shm-persistent"),
    ),
    "neither cards nor volumes are sorted": (
        (_CARDS, _VOLUMES[0], _CLASS, *_VOLUMES[1:]),
        ("exposes-sixteen-gpu-cluster", "gpu-mixed-interface-models"),
    ),
    "attributes that Go fills in are absent": (
        ("resources.storage.attributes",),
        ("edge-storage-empty-attributes", "edge-storage-persistent-default-class"),
    ),
    "the manifest is the same, and the SDK hashes U+2028 as it is": ((), ("edge-env-unicode",)),
}
"""By what the SDK does: the fields of a service that differ, and the SDLs in which they do."""


def differing_fields(made: Any, expected: Any) -> tuple[str, ...]:
    """The fields of services in which two manifests differ, without numbers, sorted."""
    paths = {re.sub(r"\[\d+\]", "", path).removeprefix(".services.") for path in _paths(made, expected, "")}
    return tuple(sorted(paths))


def _paths(one: Any, other: Any, at: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if key in one and key in other:
                yield from _paths(one[key], other[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}"
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (each, of_other) in enumerate(zip(one, other, strict=True)):
            yield from _paths(each, of_other, f"{at}[{number}]")
    elif type(one) is not type(other) or one != other:
        yield at
