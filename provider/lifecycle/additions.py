"""Fields that somebody added to an object of a lease, where the whole set counts (pure).

Elsewhere an added field is no drift: it is a default of the API server or a controller's. One more label in the
`podSelector` of a network policy ends a lease's isolation, one more in the selector of a Service ends its traffic. The
engine does not see such a field, because its refresh reads the fields that it set; so the provider removes the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.labels import Object

__all__ = ["added_paths", "named", "removal"]

_WHOLE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "NetworkPolicy": (("spec",),),
    "Service": (("spec", "selector"), ("spec", "ports")),
    "Role": (("rules",),),
    "RoleBinding": (("subjects",),),
    "Secret": (("data",),),
}
"""Kind → where nothing may be added. The API server adds no default there but a node port, which is inside an item."""
_NOTHING: Any = object()


def added_paths(wanted: Object, live: Object) -> Iterator[str]:
    """The paths of what `live` has and `wanted` has not, where the whole set counts."""
    for path in _WHOLE.get(str(wanted["kind"]), ()):
        yield from _added(_at(wanted, path), _at(live, path), ".".join(path))


def removal(wanted: Object, live: Object) -> Object | None:
    """The JSON merge patch that takes away what `added_paths` reports; None when nothing was added."""
    patch: Object = {}
    for path in _WHOLE.get(str(wanted["kind"]), ()):
        if (change := _removal(_at(wanted, path), _at(live, path))) is not _NOTHING:
            inner = patch
            for key in path[:-1]:
                inner = inner.setdefault(key, {})
            inner[path[-1]] = change
    return patch or None


def named(items: list[Any]) -> dict[str, Any] | None:
    """Items by their names; None when an item has no name or two items share one."""
    found = {item["name"]: item for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str)}
    return found if len(found) == len(items) else None


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj


def _added(wanted: Any, live: Any, path: str) -> Iterator[str]:
    """An empty value is no addition, and a list of another length without names is a difference already."""
    if isinstance(live, Mapping) and isinstance(wanted, Mapping | None):
        for key, value in live.items():
            if wanted and key in wanted:
                yield from _added(wanted[key], value, f"{path}.{key}")
            elif value not in (None, "", {}, []):
                yield f"{path}.{key}"
    elif isinstance(live, list) and isinstance(wanted, list):
        own, found = named(wanted), named(live)
        if own is not None and found is not None:
            yield from (f"{path}[{name}]" for name in found if name not in own)
        elif len(wanted) == len(live):
            for index, (item, other) in enumerate(zip(wanted, live, strict=True)):
                yield from _added(item, other, f"{path}[{index}]")


def _removal(wanted: Any, live: Any) -> Any:
    if isinstance(live, Mapping) and isinstance(wanted, Mapping | None):
        own = wanted or {}
        changes = {key: _removal(own[key], value) if key in own else None for key, value in live.items()}
        changes = {key: change for key, change in changes.items() if change is not _NOTHING}
        return changes or _NOTHING
    if isinstance(live, list) and isinstance(wanted, list):
        own_items, found = named(wanted), named(live)
        if own_items is not None and found is not None:
            kept = [item for name, item in found.items() if name in own_items]
            return kept if len(kept) < len(live) else _NOTHING
        longer = len(live) > len(wanted)
        return wanted if longer or any(True for _ in _added(wanted, live, "")) else _NOTHING
    return _NOTHING
