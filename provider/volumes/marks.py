"""The marks on a PersistentVolume in quarantine, and how they are changed (pure).

The marks hold everything: after the loss of a disk or a restart, and by another process, they are read again. Labels:
the lease whose data the volume holds, and until when, in UTC. Annotations: the reclaim policy before, the claim to
which the volume was bound, what that claim asked for, and the lease into which the volume is restored. Every function
here returns the whole object as it was read, with a change; written with its resourceVersion it changes only that very
version.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lease.ids import LeaseId
from provider.kube.labels import lease_of, managed_labels
from provider.units import parse_quantity

__all__ = ["UNTIL", "KeptVolume", "claimed_from", "expired", "held", "let_go", "read_kept", "rebound", "utc"]

UNTIL = "akash.network/quarantine.until"
"""Label; `20261128T064431Z`. A volume is in quarantine while it has this label."""
_POLICY = "akash.network/quarantine.policy"
_CLAIM = "akash.network/quarantine.claim"
_ASKED = "akash.network/quarantine.asked"
_INTO = "akash.network/quarantine.into"
_ANNOTATIONS = (_POLICY, _CLAIM, _ASKED, _INTO)
_FORMAT = "%Y%m%dT%H%M%SZ"
_RETAIN, _DELETE = "Retain", "Delete"


@dataclass(frozen=True, slots=True)
class KeptVolume:
    """`lease`: the lease whose data the volume holds. `until`: Unix seconds, infinite when the label cannot be read:
    nothing is deleted on a guess. `claim`: the name of the claim to which it was bound. `asked_bytes`: what that claim
    asked for, 0 when unknown; `size_bytes`: what the volume has. `into`: the lease it is being restored into. `bound`:
    a claim has it. `going`: its time is over, the storage is to delete it. `message`: what the storage reports about
    the deletion.
    """

    name: str
    lease: LeaseId
    until: float
    claim: str
    namespace: str
    storage_class: str
    size_bytes: int
    asked_bytes: int
    into: LeaseId | None
    bound: bool
    released: bool
    going: bool
    message: str


def read_kept(obj: Mapping[str, Any]) -> KeptVolume | None:
    """The marks of a volume; None when it is not in quarantine or its labels name no lease. A malformed object raises
    KeyError, TypeError, ValueError, AttributeError.
    """
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    lease = lease_of(obj)
    if UNTIL not in labels or lease is None:
        return None
    reference = spec.get("claimRef") or {}
    claim = str(notes.get(_CLAIM, "")).split("/")
    return KeptVolume(
        name=meta["name"],
        lease=lease,
        until=_seconds(labels[UNTIL]),
        claim=claim[1] if len(claim) == 3 else str(reference.get("name", "")),
        namespace=str(reference.get("namespace", "")),
        storage_class=str(spec.get("storageClassName") or ""),
        size_bytes=int(parse_quantity((spec.get("capacity") or {}).get("storage", 0))),
        asked_bytes=int(notes[_ASKED]) if str(notes.get(_ASKED, "")).isdigit() else 0,
        into=_lease(notes.get(_INTO)),
        bound=status.get("phase") == "Bound" and bool(reference.get("uid")),
        released=status.get("phase") in ("Released", "Failed"),
        going=spec.get("persistentVolumeReclaimPolicy") == _DELETE,
        message=str(status.get("message") or ""),
    )


def claimed_from(obj: Mapping[str, Any], namespace: str) -> bool:
    """Whether the volume is bound to a claim in this namespace, or reserved for one."""
    return ((obj.get("spec") or {}).get("claimRef") or {}).get("namespace") == namespace


def held(obj: Mapping[str, Any], lease: LeaseId, *, until: float, asked_bytes: int = 0) -> dict[str, Any]:
    """`obj` kept until `until` (Unix seconds), whatever becomes of its claim."""
    kept = _copy(obj)
    spec, notes = kept["spec"], kept["metadata"]["annotations"]
    kept["metadata"]["labels"] |= managed_labels(lease) | {UNTIL: utc(until)}
    notes.setdefault(_POLICY, spec.get("persistentVolumeReclaimPolicy") or _DELETE)
    notes.pop(_INTO, None)
    if (spec.get("claimRef") or {}).get("uid") or _CLAIM not in notes:
        notes[_CLAIM] = _claim(spec.get("claimRef") or {})
    if asked_bytes:
        notes[_ASKED] = str(asked_bytes)
    spec["persistentVolumeReclaimPolicy"] = _RETAIN
    return kept


def rebound(obj: Mapping[str, Any], into: LeaseId, *, namespace: str, claim: str, until: float) -> dict[str, Any]:
    """`obj` reserved for the claim of that name and for no other; no claim is bound to it meanwhile. It waits until
    `until` at most.
    """
    kept = _copy(obj)
    kept["metadata"]["labels"][UNTIL] = utc(until)
    kept["metadata"]["annotations"][_INTO] = str(into)
    # empty, not absent: other managers own these fields too, and without them here they would stay as they are
    empty = {"uid": "", "resourceVersion": ""}
    kept["spec"]["claimRef"] = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim, **empty,
    }  # fmt: skip
    kept["spec"]["persistentVolumeReclaimPolicy"] = _RETAIN
    return kept


def expired(obj: Mapping[str, Any]) -> dict[str, Any]:
    """`obj` when its time is over: with the policy and the claim that it had, so that the cluster calls it released and
    its storage deletes it. The labels stay until then. A volume whose policy never was Delete is released unchanged, as
    it would have been without quarantine.
    """
    kept = _copy(obj)
    notes, reference = kept["metadata"]["annotations"], kept["spec"].get("claimRef") or {}
    namespace, name, uid = [*notes.get(_CLAIM, "").split("/"), "", "", ""][:3]
    if not reference.get("uid") and uid:
        kept["spec"]["claimRef"] = {**reference, "namespace": namespace, "name": name, "uid": uid}
    notes.pop(_INTO, None)
    if notes.get(_POLICY, _DELETE) != _DELETE:
        return let_go(kept)
    kept["spec"]["persistentVolumeReclaimPolicy"] = _DELETE
    return kept


def let_go(obj: Mapping[str, Any]) -> dict[str, Any]:
    """`obj` out of quarantine: with the policy that it had, and without marks."""
    free = _copy(obj)
    meta, lease = free["metadata"], lease_of(obj)
    free["spec"]["persistentVolumeReclaimPolicy"] = meta["annotations"].get(_POLICY, _DELETE)
    for label in (UNTIL, *(managed_labels(lease) if lease else ())):
        meta["labels"].pop(label, None)
    for note in _ANNOTATIONS:
        meta["annotations"].pop(note, None)
    return free


def utc(seconds: float) -> str:
    """A time as the value of a label, which has no colons. Rounded up, so that nothing expires a moment early."""
    return datetime.fromtimestamp(math.ceil(seconds), UTC).strftime(_FORMAT)


def _seconds(text: object) -> float:
    try:
        return datetime.strptime(str(text), _FORMAT).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return math.inf


def _lease(text: object) -> LeaseId | None:
    parts = str(text or "").split("/")
    if len(parts) != 5 or not all(part.isascii() and part.isdigit() for part in parts[1:4]):
        return None
    return LeaseId(parts[0], int(parts[1]), int(parts[2]), int(parts[3]), parts[4])


def _claim(reference: Mapping[str, Any]) -> str:
    return "/".join(str(reference.get(key, "")) for key in ("namespace", "name", "uid"))


def _copy(obj: Mapping[str, Any]) -> dict[str, Any]:
    copied = deepcopy(dict(obj))
    meta = copied["metadata"]
    meta["labels"], meta["annotations"] = dict(meta.get("labels") or {}), dict(meta.get("annotations") or {})
    copied.setdefault("spec", {})
    return copied
