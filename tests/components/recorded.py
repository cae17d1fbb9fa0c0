"""Recorded objects of the Go provider, and a comparison of manifests field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests import data

__all__ = ["Difference", "differences", "load", "names", "writes"]

RECORDINGS = "recordings/objects"

ELSEWHERE = {"Manifest", "ProviderHost", "ProviderLeasedIP", "DeleteOptions"}
"""Kinds that are not a lease stack's: the provider's durable records, and requests to delete."""

LIST_KEYS = ("name", "containerPort", "key")
"""What tells list entries apart, the first that an entry has; entries without any are told apart by their place."""


def names(suffix: str = "") -> list[str]:
    """Recordings by name."""
    found = data.names(RECORDINGS, ending=".json")
    special = (".update", ".requests")
    return [name for name in found if (name.endswith(suffix) if suffix else not name.endswith(special))]


def load(name: str) -> dict[str, Any]:
    return data.document(f"{RECORDINGS}/{name}.json")


def writes(recording: dict[str, Any]) -> list[dict[str, Any]]:
    """Every object the Go provider and its operators created, as sent, with the namespace of the request's path."""
    return [
        _with_namespace(request["body"], request["path"])
        for request in recording["api_requests"]
        if request["method"] == "POST" and request["body"]["kind"] not in ELSEWHERE
    ]


def _with_namespace(body: dict[str, Any], path: str) -> dict[str, Any]:
    parts = path.split("?", maxsplit=1)[0].split("/")
    if "namespaces" not in parts[:-1]:
        return body
    return body | {"metadata": {"namespace": parts[parts.index("namespaces") + 1]} | body["metadata"]}


@dataclass(frozen=True)
class Difference:
    """One field: `theirs` or `ours` is None where the other side alone has it."""

    object: str
    path: str
    theirs: Any
    ours: Any

    @property
    def kind(self) -> str:
        return self.object.split("/")[0]


def differences(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> Iterator[Difference]:
    """Every field in which two sets of manifests differ; an object that only one side has is one difference."""
    left, right = _by_name(theirs), _by_name(ours)
    for name in sorted(left.keys() | right.keys()):
        if name not in left or name not in right:
            yield Difference(name, "", left.get(name), right.get(name))
        else:
            yield from _fields(name, "", left[name], right[name])


def _by_name(manifests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    named = {f"{item['kind']}/{item['metadata']['name']}": item for item in manifests}
    assert len(named) == len(manifests), "an object was written twice"
    return named


def _fields(name: str, path: str, theirs: Any, ours: Any) -> Iterator[Difference]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from _fields(name, f"{path}.{key}", theirs.get(key), ours.get(key))
    elif isinstance(theirs, list) and isinstance(ours, list):
        yield from _lists(name, path, _keyed(theirs), _keyed(ours))
    elif theirs != ours or type(theirs) is not type(ours):
        yield Difference(name, path, theirs, ours)


def _lists(name: str, path: str, theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[Difference]:
    for key in sorted(theirs.keys() | ours.keys()):
        yield from _fields(name, f"{path}[{key}]", theirs.get(key), ours.get(key))
    common = [key for key in theirs if key in ours]
    if common != [key for key in ours if key in theirs]:
        yield Difference(name, f"{path}<order>", list(theirs), list(ours))


def _keyed(items: list[Any]) -> dict[str, Any]:
    seen: Counter[str] = Counter()
    result = {}
    for index, item in enumerate(items):
        field = next((key for key in LIST_KEYS if isinstance(item, dict) and key in item), None)
        key = f"{field}={item[field]}" if field else str(index)
        seen[key] += 1
        result[key if seen[key] == 1 else f"{key}#{seen[key]}"] = item
    return result
