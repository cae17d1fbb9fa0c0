"""Changes of objects with old and new values, from two lists of manifests or from Pulumi's steps. No secret is
shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.changes import compare
from components.labels import Object
from components.secrets import seal
from lease.printable import printable
from stacks.common import ResourceChange

__all__ = ["ABSENT", "FieldChange", "ShownChange", "change_json", "compared", "from_pulumi", "lines"]

_SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Key of Pulumi's special values in a state: a secret is one."""
_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')
_LONGEST = 240
_MARKS = {"create": "+", "update": "~", "replace": "±", "delete": "-"}
_KUBERNETES = "kubernetes:"


class _Absent:
    """Not present, which differs from null."""

    def __str__(self) -> str:
        return "(none)"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class _Hidden:
    """A secret: equal to another one with the same value, never shown."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "[secret]"


_SOME_SECRET = _Hidden("")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """`old` and `new` are plain JSON values, `ABSENT`, or hidden."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {_value(self.old)} -> {_value(self.new)}"


@dataclass(frozen=True, slots=True)
class ShownChange:
    """`op`: create, update, replace or delete."""

    op: str
    kind: str
    name: str
    fields: tuple[FieldChange, ...] = ()
    note: str = ""


def compared(old: Sequence[Object], new: Sequence[Object]) -> list[ShownChange]:
    """The differences between two lists of manifests."""
    before, after = _hidden_by_name(old), _hidden_by_name(new)
    shown = []
    for change in compare(old, new):
        key = (change.kind, change.name)
        fields = tuple(_fields(before[key], after[key], "")) if key in before and key in after else ()
        shown.append(ShownChange(str(change.op), change.kind, change.name, fields, change.note))
    return shown


def from_pulumi(
    changes: Iterable[ResourceChange], *, state: Mapping[str, Any], old: Sequence[Object], new: Sequence[Object]
) -> list[ShownChange]:
    """Pulumi's steps on Kubernetes objects, with values: in the order of `new`, then the deleted objects.

    Old values come from the stack's `state` (a checkpoint's deployment) or, where the state holds a secret around them,
    from the manifests `old`; new ones from `new`. The steps of one replacement are one change.
    """
    inputs = {item["urn"]: item.get("inputs") or {} for item in state.get("resources") or ()}
    before, after = _hidden_by_name(old), _hidden_by_name(new)
    found = dict[tuple[str, str], ShownChange]()
    for change in changes:
        if not change.type.startswith(_KUBERNETES):
            continue
        key = (change.type.rpartition(":")[2], change.name)
        op = "replace" if "replace" in change.op else change.op
        # only an object that stays has old and new values; of a replacement's steps only one has all paths
        sides = (inputs.get(change.urn, {}), before.get(key, {}), after.get(key, {}))
        fields = tuple(_field(path, *sides) for path in change.diff) if op in ("update", "replace") else ()
        if key not in found or len(fields) > len(found[key].fields):
            found[key] = ShownChange(op, *key, fields)
    order = [*(key for key in after if key in found), *(key for key in found if key not in after)]
    return [found[key] for key in order]


def _field(path: str, stored: Any, before: Any, after: Any) -> FieldChange:
    old = _at(stored, path)
    return FieldChange(path, _at(before, path) if isinstance(old, _Hidden) else old, _at(after, path))


def lines(changes: Iterable[ShownChange]) -> Iterator[tuple[str, str]]:
    """(op, line) in the order of the output: a line for each object, with its fields below it."""
    for change in changes:
        note = f"  ({change.note})" if change.note else ""
        yield change.op, printable(f"{_MARKS.get(change.op, change.op)} {change.kind} {change.name}{note}")
        for item in change.fields:
            yield "", printable(f"    {item}")


def change_json(change: ShownChange) -> dict[str, Any]:
    """The change as plain values; a field that is not present on a side has no key for that side."""
    fields = [
        {"path": item.path}
        | {
            side: _revealing_nothing(value)
            for side, value in (("old", item.old), ("new", item.new))
            if value is not ABSENT
        }
        for item in change.fields
    ]
    return {"op": change.op, "kind": change.kind, "name": change.name, "fields": fields, "note": change.note}


def _hidden_by_name(objects: Iterable[Object]) -> dict[tuple[str, str], Object]:
    return {(item["kind"], item["metadata"]["name"]): seal(item, _Hidden) for item in objects}


def _fields(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    """The leaves that differ, with paths in Pulumi's form."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _fields(old.get(key, ABSENT), new.get(key, ABSENT), _below(path, str(key)))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before, after = (items[index] if index < len(items) else ABSENT for items in (old, new))
            yield from _fields(before, after, f"{path}[{index}]")
    else:
        yield FieldChange(path, old, new)


def _below(path: str, key: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", key):
        return f"{path}[{json.dumps(key)}]"
    return f"{path}.{key}" if path else key


def _at(value: Any, path: str) -> Any:
    """The value at one of Pulumi's paths; `ABSENT` when there is none, hidden when it is or lies in a secret."""
    for name, index, quoted in _STEP.findall(path):
        if isinstance(value, Mapping) and _SIGNATURE in value:
            return _SOME_SECRET
        try:
            value = value[int(index)] if index else value[name or json.loads(f'"{quoted}"')]
        except (LookupError, TypeError, ValueError):
            return ABSENT
    return _SOME_SECRET if isinstance(value, Mapping) and _SIGNATURE in value else value


def _value(value: Any) -> str:
    if isinstance(value, _Absent | _Hidden):
        return str(value)
    text = json.dumps(_revealing_nothing(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _revealing_nothing(value: Any) -> Any:
    """The value as plain JSON, with `[secret]` for every secret in it."""
    if isinstance(value, _Hidden) or (isinstance(value, Mapping) and _SIGNATURE in value):
        return str(_SOME_SECRET)
    if isinstance(value, Mapping):
        return {key: _revealing_nothing(item) for key, item in value.items()}
    return [_revealing_nothing(item) for item in value] if isinstance(value, list) else value
