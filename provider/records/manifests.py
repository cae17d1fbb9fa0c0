"""The Manifest object: the newest accepted manifest of one lease, in the Go provider's form (go_form).

That form loses endpoints, the difference between null and empty, and newer fields. The exact group is kept beside it in
an annotation, which counts only while it agrees with the form: an edit of the form alone (by the Go provider or a
person) wins.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lease.errors import ManifestRefused
from lease.ids import LeaseId, namespace_name
from lease.manifest import Group
from lease.manifest_json import canonical_manifest, manifest_from_json
from lease.spec import GpuPlacement
from provider.errors import ProviderError
from provider.kube.labels import record_labels
from provider.protocols import Cluster
from provider.protocols.cluster import MANIFEST
from provider.records.go_form import decode_group, decode_lease_id, encode_group, encode_lease_id

__all__ = [
    "EXACT",
    "KEPT",
    "KEPT_LENGTH",
    "BadRecordError",
    "ManifestRecord",
    "manifest_object",
    "read_manifest",
    "write_manifest",
]

EXACT = "akash.network/manifest.exact"
"""Annotation: base64 of zlib of the group's canonical JSON. Left out when it would not fit into the 256 KiB for all."""
_EXACT_LIMIT = 200 * 1024
_LARGEST_GROUP = 4 * 1024 * 1024
KEPT, KEPT_LENGTH = 64, 32 * 1024
"""So many records of at most so many characters stay decoded: a lease that changes is read many times in a row."""


class BadRecordError(ProviderError):
    """A stored object cannot be read. Its lease waits, every other lease goes on."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} cannot be read: {problem}; correct or delete the object")


@dataclass(frozen=True, slots=True)
class ManifestRecord:
    """One accepted manifest. `placements`: GPU of every GPU service by resource id, as reserved."""

    lease: LeaseId
    group: Group
    placements: Mapping[int, GpuPlacement | None]
    resource_version: str = ""

    def content_hash(self) -> str:
        """Hex SHA-256 of the tenant's group and the reserved GPUs: the same content gives the same hash."""
        placed = sorted((key, value.model_dump_json()) for key, value in self.placements.items() if value)
        digest = _digest(self.group).copy()
        digest.update(json.dumps(placed).encode())
        return digest.hexdigest()

    def form_hash(self) -> str:
        """Hex SHA-256 of what the Go provider's form holds of the group: the same for a tenant's manifest and for what
        the Go provider has stored of it.
        """
        return hashlib.sha256(json.dumps(encode_group(self.group, {}), sort_keys=True).encode()).hexdigest()

    def has_hash(self, known: str) -> bool:
        """Whether a version with this hash was made of the same manifest."""
        return known == self.content_hash() or known == self.form_hash()


@lru_cache(maxsize=KEPT)
def _digest(group: Group) -> hashlib._Hash:
    """SHA-256 of the tenant's group; whoever goes on with it takes a copy."""
    return hashlib.sha256(canonical_manifest((group,)))


def manifest_object(record: ManifestRecord, *, namespace: str) -> dict[str, Any]:
    """The object to apply; credentials are in clear in it, as in the Go provider's."""
    exact = _packed(record.group)
    return {
        "apiVersion": MANIFEST.api_version,
        "kind": MANIFEST.kind,
        "metadata": {
            "name": namespace_name(record.lease),
            "namespace": namespace,
            "labels": record_labels(record.lease),
            "annotations": {EXACT: exact} if len(exact) <= _EXACT_LIMIT else {},
        },
        "spec": {"lease_id": encode_lease_id(record.lease), "group": encode_group(record.group, record.placements)},
    }


def read_manifest(obj: Mapping[str, Any]) -> ManifestRecord:
    """The record in an object that this provider or the Go provider stored. Raises `BadRecordError`."""
    meta = obj.get("metadata") or {}
    try:
        lease = decode_lease_id(obj["spec"]["lease_id"])
        group, placements = decode_group(obj["spec"]["group"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRecordError(f"Manifest {meta.get('name')}", f"{type(error).__name__}: {error}") from error
    if namespace_name(lease) != meta.get("name"):
        raise BadRecordError(f"Manifest {meta.get('name')}", f"lease {lease} would be named {namespace_name(lease)}")
    exact = _unpacked((meta.get("annotations") or {}).get(EXACT))
    if exact is not None and encode_group(exact, placements) == encode_group(group, placements):
        group = exact
    return ManifestRecord(lease, group, placements, str(meta.get("resourceVersion", "")))


async def write_manifest(cluster: Cluster, record: ManifestRecord, *, namespace: str) -> ManifestRecord:
    """Store `record` as the newest accepted manifest. Returns it with the resourceVersion of the stored object."""
    return read_manifest(await cluster.apply(manifest_object(record, namespace=namespace)))


def _packed(group: Group) -> str:
    return base64.b64encode(zlib.compress(canonical_manifest((group,)), 9)).decode()


def _unpacked(text: object) -> Group | None:
    """The group in the annotation; None when it is not usable, because the Go form is the fallback."""
    if not isinstance(text, str):
        return None
    return _unpacked_once(text) if len(text) <= KEPT_LENGTH else _unpacked_anew(text)


def _unpacked_anew(text: str) -> Group | None:
    try:
        plain = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _LARGEST_GROUP)
        manifest = manifest_from_json(plain)
    except (binascii.Error, ValueError, zlib.error, ManifestRefused):
        return None
    return manifest[0] if len(manifest) == 1 else None


_unpacked_once = lru_cache(maxsize=KEPT)(_unpacked_anew)
