"""The changes that a new version makes to a lease's objects, determined before any engine runs (kubernetes-objects.md
§3.3).

Pure: two lists of plain manifests in, one `Change` for each object that differs out. Most fields are changed in place.
Kubernetes never lets some fields change, so that the object is replaced. A change that would lose data of a tenant
carries a `Refusal`, and a version with a refusal is not applied at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from components.labels import Object

__all__ = ["Change", "Op", "Refusal", "compare", "refusals"]

_REDEPLOY = "send a manifest that keeps it, or close this deployment and create another one"


class Op(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    """Deleted and created again under the same name."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a version may not be applied, as a tenant reads it."""

    what: str
    old: str
    new: str
    why: str
    remedy: str = _REDEPLOY

    def __str__(self) -> str:
        return f"{self.what} cannot change from {self.old} to {self.new}: {self.why}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one object. `paths` are the fields that differ (never their values, which may be secret). `note` is
    for the operator: why the object is replaced, or what else happens.
    """

    op: Op
    kind: str
    name: str
    namespace: str = ""
    paths: tuple[str, ...] = ()
    note: str = ""
    refusal: Refusal | None = None

    def __str__(self) -> str:
        about = f" ({', '.join(self.paths)})" if self.paths else ""
        return f"{self.op} {self.kind} {self.name}{about}" + (f": {self.note}" if self.note else "")


_Key = tuple[str, str, str]
_Objects = Mapping[_Key, Object]

_WORKLOADS = ("Deployment", "StatefulSet")
_EDGE = ("Ingress", "HTTPRoute")

_IMMUTABLE: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("spec.selector",),
    "StatefulSet": (
        "spec.selector",
        "spec.serviceName",
        "spec.podManagementPolicy",
        "spec.volumeClaimTemplates",
        "spec.revisionHistoryLimit",
    ),
    "Service": ("spec.clusterIP", "spec.loadBalancerClass"),
    "Secret": ("type",),
    "RoleBinding": ("roleRef",),
    "PersistentVolumeClaim": ("spec",),
}
"""Fields for which the engine deletes an object and creates it again. The API server would accept another
revisionHistoryLimit of a StatefulSet; Pulumi's provider replaces the object nevertheless.
"""

_SEALED = ("data", "binaryData", "stringData")
"""Fields that a Secret or ConfigMap with `immutable: true` never changes."""


def compare(old: Iterable[Object], new: Iterable[Object]) -> tuple[Change, ...]:
    """The change of every object that differs, in the order of `new`, then of every object that is deleted, in the
    order of `old`.

    Volumes are compared by size, class and mode, so that defaults which the API server added to a live object make no
    difference.
    """
    before, after = _keyed(old), _keyed(new)
    made = (_made(key, before, after) for key in after)
    gone = (_gone(key, before, after) for key in before if key not in after)
    return tuple(change for change in (*made, *gone) if change is not None)


def refusals(changes: Iterable[Change]) -> tuple[Refusal, ...]:
    """The reasons against these changes; empty when they may be applied."""
    return tuple(change.refusal for change in changes if change.refusal is not None)


def _keyed(objects: Iterable[Object]) -> dict[_Key, Object]:
    return {(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item for item in objects}


def _made(key: _Key, before: _Objects, after: _Objects) -> Change | None:
    if key not in before:
        return _created(key, before)
    paths = tuple(_paths(before[key], after[key], ""))
    if not paths:
        return None
    kind, namespace, name = key
    fixed = _fixed(kind, before[key], paths)
    refusal = _of_workload(name, before[key], after[key], fixed) if fixed else None
    if fixed:
        note = f"{', '.join(fixed)} cannot be changed in place"
        return Change(Op.REPLACE, kind, name, namespace, paths, note, refusal)
    return Change(Op.UPDATE, kind, name, namespace, paths, _notice(kind, before[key], after[key]))


def _created(key: _Key, before: _Objects) -> Change:
    kind, namespace, name = key
    for pair in (_WORKLOADS, _EDGE):
        twin = _twin(key, pair)
        if twin is not None and twin in before:
            return Change(Op.CREATE, kind, name, namespace, note=f"replaces {twin[0]} {name}")
    return Change(Op.CREATE, kind, name, namespace)


def _gone(key: _Key, before: _Objects, after: _Objects) -> Change:
    kind, namespace, name = key
    twin = next((twin for pair in (_WORKLOADS, _EDGE) if (twin := _twin(key, pair)) in after), None)
    note = f"{twin[0]} {name} replaces it" if twin else ""
    return Change(Op.DELETE, kind, name, namespace, note=note, refusal=_of_removal(key, before[key], twin))


def _twin(key: _Key, pair: tuple[str, str]) -> _Key | None:
    """The key of the other kind with the same name: a service may change its workload's kind, a hostname its edge's."""
    kind, namespace, name = key
    if kind not in pair:
        return None
    return (pair[1] if kind == pair[0] else pair[0], namespace, name)


def _fixed(kind: str, old: Object, paths: Sequence[str]) -> tuple[str, ...]:
    """The fields among `paths` that this object never changes in place."""
    fields = _IMMUTABLE.get(kind, ()) + (_SEALED if old.get("immutable") is True else ())
    return tuple(field for field in fields if any(_below(path, field) for path in paths))


def _below(path: str, field: str) -> bool:
    return path == field or path.startswith((f"{field}.", f"{field}["))


def _notice(kind: str, old: Object, new: Object) -> str:
    if kind != "Service" or _type(old) == _type(new):
        return ""
    return f"type {_type(old)} becomes {_type(new)}: its node ports and addresses are released"


def _type(service: Object) -> str:
    return str(service["spec"].get("type", "ClusterIP"))


def _of_removal(key: _Key, old: Object, twin: _Key | None) -> Refusal | None:
    kind, _, name = key
    if kind == "Namespace":
        return Refusal(f"namespace {name}", "the namespace of the lease", "none", "everything in it would be deleted")
    if kind == "PersistentVolumeClaim":
        return Refusal(f"volume {name}", _claim(old), "none", "its data would be lost")
    volumes = _volumes(old) if kind == "StatefulSet" else {}
    if not volumes:
        return None
    held = ", ".join(f"{volume} ({what})" for volume, what in volumes.items())
    if twin is not None:
        return Refusal(
            f"service {name}", f"a service with volumes {held}", "a service without volumes", "their data would be lost"
        )
    why = "the data of its volumes would be lost; a renamed service counts as a removed service and a new one"
    return Refusal(f"service {name}", f"running with volumes {held}", "removed", why)


def _of_workload(name: str, old: Object, new: Object, fixed: Sequence[str]) -> Refusal | None:
    """A refusal for an object that holds volumes; any other object is created again without loss."""
    if old["kind"] == "PersistentVolumeClaim":
        return Refusal(f"volume {name}", _claim(old), _claim(new), "its data would be lost")
    volumes = _volumes(old) if old["kind"] == "StatefulSet" else {}
    if not volumes:
        return None
    wanted = _volumes(new)
    for volume in [*volumes, *(other for other in wanted if other not in volumes)]:
        if volumes.get(volume) != wanted.get(volume):
            return _of_volume(name, volume, volumes.get(volume), wanted.get(volume))
    kept = [field for field in fixed if field != "spec.volumeClaimTemplates"]
    if not kept:
        return None
    return Refusal(
        f"{kept[0]} of service {name}",
        _short(_at(old, kept[0])),
        _short(_at(new, kept[0])),
        "the service has volumes, and a service with volumes is never created again",
    )


def _of_volume(service: str, volume: str, old: str | None, new: str | None) -> Refusal:
    short = volume.removeprefix(f"{service}-")
    if old is None:
        why = "volumes are fixed when a service is first deployed; a new one would put the data of the others at risk"
        return Refusal(f"volume {short} of service {service}", "none", str(new), why)
    why = "size, class and name of a volume are fixed, and a new volume would be empty"
    return Refusal(f"volume {short} of service {service}", old, new or "none", why)


def _volumes(workload: Object) -> dict[str, str]:
    """The description of each claim template by its name, without defaults of the API server."""
    templates = workload["spec"].get("volumeClaimTemplates") or ()
    return {template["metadata"]["name"]: _claim(template) for template in templates}


def _claim(claim: Object) -> str:
    spec = claim["spec"]
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "no size")
    modes = "+".join(spec.get("accessModes") or ()) or "no access mode"
    shape = "" if spec.get("volumeMode", "Filesystem") == "Filesystem" else f", {spec['volumeMode']}"
    return f"{size} of class {spec.get('storageClassName') or 'default'}, {modes}{shape}"


def _at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, Mapping) else None
    return obj


def _short(value: Any) -> str:
    text = "nothing" if value in (None, "", {}, []) else str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _paths(old: Any, new: Any, path: str) -> Iterable[str]:
    """The places where two values differ; items of lists by name where every item has one."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _paths(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        yield from _item_paths(old, new, path)
    else:
        yield path


def _item_paths(old: list[Any], new: list[Any], path: str) -> Iterable[str]:
    before, after = _named(old), _named(new)
    if before is not None and after is not None and list(before) != list(after) and set(before) == set(after):
        yield path  # the same items in another order
        return
    if before is None or after is None:
        before, after = dict(enumerate(old)), dict(enumerate(new))
    for key in [*before, *(key for key in after if key not in before)]:
        yield from _paths(before.get(key), after.get(key), f"{path}[{key}]")


def _named(items: list[Any]) -> dict[Any, Any] | None:
    """The items by name; None when one has none or two share one."""
    named = {_name(item): item for item in items}
    return named if len(named) == len(items) and None not in named else None


def _name(item: Any) -> str | None:
    if not isinstance(item, Mapping):
        return None
    metadata = item.get("metadata")
    name = item.get("name") or (metadata.get("name") if isinstance(metadata, Mapping) else None)
    return name if isinstance(name, str) else None
