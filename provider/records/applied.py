"""The Secret `applied-<namespace>`: the version last applied in full, and the attempt since (docs/architecture.md §4).

This Secret and the Manifest object are enough to rebuild everything after the loss of the local disk. The Secret is
written before and after every update, so after a crash at any line it shows whether the stack is what `spec` says.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.kube.labels import record_labels
from provider.protocols.cluster import SECRET
from provider.records.manifests import KEPT, KEPT_LENGTH, BadRecordError

__all__ = [
    "APPLIED_LABEL",
    "Applied",
    "Attempt",
    "applied_name",
    "applied_object",
    "read_applied",
    "size_problem",
    "stored_bytes",
]

APPLIED_LABEL = {"akash.network/record": "applied"}
"""Selects these Secrets among all others."""
_SPEC, _PACKED = "spec", "spec.zlib"
_PLAIN_MOST = 128 * 1024
"""Larger texts are stored compressed: a Secret holds 1 MiB, and a manifest of 1 MiB makes a longer spec."""
_SECRET_MOST = 1024 * 1024 - 64 * 1024
"""The API server takes 1 MiB of data in a Secret; the rest is for the facts, with the error of an attempt."""
_UNPACKED_MOST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attempt:
    """An update that was begun. `error` empty: the update has not ended. `restored`: the previous version runs
    again.
    """

    spec_hash: str
    error: str = ""
    restored: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """`spec` None: no version was ever complete. `manifest_hash` and `withheld` belong to `spec`.

    A withheld hostname is given as soon as it is free; `moved`, the names of claims that were migrated away, are not.
    `anew`: an operator asked for every pod to be made by this builder. `fresh`: nothing of the lease ran before
    `attempt`, so that what is refused of it may be removed.
    """

    spec: LeaseSpec | None = None
    manifest_hash: str = ""
    withheld: frozenset[str] = frozenset()
    attempt: Attempt | None = None
    anew: bool = False
    fresh: bool = False
    moved: frozenset[str] = frozenset()

    @property
    def as_found(self) -> bool:
        """Whether the lease is as another provider left it: nothing was applied since it was adopted."""
        return self.spec is not None and bool(self.spec.found) and self.attempt is None and not self.anew


def applied_name(lease: LeaseId) -> str:
    return f"applied-{namespace_name(lease)}"


def applied_object(lease: LeaseId, applied: Applied, *, namespace: str) -> dict[str, Any]:
    """The Secret to apply; it holds the tenant's secrets in clear, like the Manifest beside it."""
    facts: dict[str, object] = {
        "manifest_hash": applied.manifest_hash,
        "withheld": sorted(applied.withheld),
        "attempt": asdict(applied.attempt) if applied.attempt else None,
    }
    facts |= {"moved": sorted(applied.moved)} if applied.moved else {}
    facts |= {name: True for name in ("anew", "fresh") if getattr(applied, name)}
    data = {"facts": json.dumps(facts, sort_keys=True).encode()}
    if applied.spec is not None:
        data |= _stored(applied.spec)
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": {
            "name": applied_name(lease),
            "namespace": namespace,
            "labels": record_labels(lease) | APPLIED_LABEL,
        },
        "type": "Opaque",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _stored(spec: LeaseSpec) -> dict[str, bytes]:
    """The spec as the Secret's data, under the key that says how it is stored."""
    plain = spec.canonical_json().encode()
    return {_SPEC: plain} if len(plain) <= _PLAIN_MOST else {_PACKED: zlib.compress(plain, 9)}


def stored_bytes(spec: LeaseSpec) -> int:
    """Bytes of the spec in its Secret."""
    return sum(map(len, _stored(spec).values()))


def size_problem(spec: LeaseSpec) -> str:
    """Why no record of this version could be written; empty when one can. Asked before anything is applied: the write
    would fail at every retry.
    """
    size = stored_bytes(spec)
    if size <= _SECRET_MOST:
        return ""
    return f"the record of this version would have {size} bytes, a Secret holds {_SECRET_MOST}; send a smaller manifest"


def _spec(data: Mapping[str, Any]) -> LeaseSpec | None:
    if _PACKED in data:
        unpacking = zlib.decompressobj()
        plain = unpacking.decompress(base64.b64decode(data[_PACKED], validate=True), _UNPACKED_MOST)
        if not unpacking.eof:
            raise ValueError("the compressed spec does not end")
        return LeaseSpec.from_json(plain)
    if _SPEC not in data:
        return None
    text = data[_SPEC]
    return _plain_once(text) if isinstance(text, str) and len(text) <= KEPT_LENGTH else _plain(text)


def _plain(text: str) -> LeaseSpec:
    return LeaseSpec.from_json(base64.b64decode(text, validate=True))


_plain_once = lru_cache(maxsize=KEPT)(_plain)


def read_applied(obj: Mapping[str, Any] | None) -> Applied:
    """The record in the Secret, empty for None. Raises `BadRecordError`: a guess could roll every pod of a running
    lease.
    """
    if obj is None:
        return Applied()
    data = obj.get("data") or {}
    try:
        facts = json.loads(base64.b64decode(data["facts"], validate=True))
        spec = _spec(data)
        attempt = Attempt(**facts["attempt"]) if facts["attempt"] else None
        anew, fresh = (facts.get(name) is True for name in ("anew", "fresh"))
        withheld, moved = frozenset(facts["withheld"]), frozenset(facts.get("moved", ()))
        return Applied(spec, str(facts["manifest_hash"]), withheld, attempt, anew, fresh, moved)
    except (KeyError, TypeError, ValueError, binascii.Error, zlib.error, ValidationError) as error:
        name = str((obj.get("metadata") or {}).get("name"))
        raise BadRecordError(f"Secret {name}", type(error).__name__) from error
