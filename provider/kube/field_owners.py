"""The owners of an object's fields, as the API server keeps them (`metadata.managedFields`).

A server-side apply removes a field that its manager does not set any more only when nobody else owns the field. What
another provider wrote with plain requests is owned by that provider for ever: an environment variable that a tenant
takes out of a manifest would stay in the pods. So its fields are given to the new manager before the first apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["taken_fields"]

_Entry = Mapping[str, Any]


def taken_fields(entries: Iterable[_Entry], *, manager: str, label: str) -> list[dict[str, Any]] | None:
    """`entries` in which `manager` owns by apply what the writers of the label `label` own by update; None when no
    such writer is left. Entries of controllers, which own a status or fields of their own, stay.
    """
    listed = list(entries)
    writers = [entry for entry in listed if _wrote(entry, label)]
    if not writers:
        return None
    own = [entry for entry in listed if _applied(entry, manager)]
    fields: Mapping[str, Any] = {}
    for entry in (*own, *writers):
        fields = _union(fields, entry.get("fieldsV1") or {})
    taken = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": writers[-1]["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"time": writers[-1]["time"]} if "time" in writers[-1] else {}),
    }
    return [*(dict(entry) for entry in listed if entry not in writers and entry not in own), taken]


def _wrote(entry: _Entry, label: str) -> bool:
    labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    return entry.get("operation") == "Update" and not entry.get("subresource") and f"f:{label}" in labels


def _applied(entry: _Entry, manager: str) -> bool:
    return entry.get("operation") == "Apply" and entry.get("manager") == manager and not entry.get("subresource")


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both sets of fields. A set is a tree of mappings; a leaf is an empty mapping."""
    return {
        key: _union(one.get(key) or {}, other.get(key) or {})
        for key in [*one, *(key for key in other if key not in one)]
    }
