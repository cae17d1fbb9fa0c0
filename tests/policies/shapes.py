"""The forbidden shapes of `tests/data/policies/forbidden.yaml`, and how each is put into the objects of a lease."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from tests.data import read

Objects = list[dict[str, Any]]

__all__ = ["Objects", "Shape", "shapes"]


@dataclass(frozen=True, slots=True)
class Shape:
    """`put` changes the objects in place. It raises `LookupError` when they have no such place."""

    name: str
    rule: str
    place: str
    value: Any

    def put(self, objects: Objects) -> None:
        if self.value is None:
            found = [item for item in objects if item["kind"] == self.place]
            if not found:
                raise LookupError(self.place)
            objects[:] = [item for item in objects if item["kind"] != self.place]
            return
        _PLACES.get(self.place, _object_of(self.place))(objects, copy.deepcopy(self.value))


@cache
def shapes() -> tuple[Shape, ...]:
    document = yaml.load(read("policies/forbidden.yaml"), yaml.CSafeLoader)
    return tuple(
        Shape(name, rule, place, value)
        for rule, places in document.items()
        for place, named in places.items()
        for name, value in named.items()
    )


def _merge(into: dict[str, Any], value: dict[str, Any]) -> None:
    """RFC 7386: a mapping is merged, None removes a key, any other value replaces what was there."""
    for key, part in value.items():
        if part is None:
            into.pop(key, None)
        elif isinstance(part, dict) and isinstance(into.get(key), dict):
            _merge(into[key], part)
        else:
            into[key] = part


def _first(objects: Objects, kind: str, **fields: Any) -> dict[str, Any]:
    for item in objects:
        if item["kind"] == kind and all(item["spec"].get(key) == value for key, value in fields.items()):
            return item
    raise LookupError(kind)


def _pod(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = _first(objects, "Deployment")["spec"]["template"]["spec"]
    return found


def _container(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = _pod(objects)["containers"][0]
    return found


def _beside(field: str) -> Callable[[Objects, Any], None]:
    """A further container of the pod, like the first one but for the value."""

    def put(objects: Objects, value: Any) -> None:
        more = copy.deepcopy(_container(objects))
        _merge(more, value)
        _pod(objects).setdefault(field, []).append(more)

    return put


def _appended(place: Callable[[Objects], dict[str, Any]], field: str) -> Callable[[Objects, Any], None]:
    def put(objects: Objects, value: Any) -> None:
        place(objects).setdefault(field, []).append(value)

    return put


def _merged(place: Callable[[Objects], dict[str, Any]]) -> Callable[[Objects, Any], None]:
    return lambda objects, value: _merge(place(objects), value)


def _within(place: Callable[[Objects], dict[str, Any]], *path: str) -> Callable[[Objects], dict[str, Any]]:
    def find(objects: Objects) -> dict[str, Any]:
        found = place(objects)
        for key in path:
            found = found.setdefault(key, {})
        return found

    return find


def _policy(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = _first(objects, "NetworkPolicy")["spec"]
    return found


def _claim(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = _first(objects, "StatefulSet")["spec"]["volumeClaimTemplates"][0]["spec"]
    return found


def _card(objects: Objects) -> dict[str, Any]:
    """The first container that rents a card."""
    for item in objects:
        for container in item.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            if "nvidia.com/gpu" in container["resources"]["limits"]:
                found: dict[str, Any] = container
                return found
    raise LookupError("a card")


def _role(objects: Objects) -> dict[str, Any]:
    found = next((item for item in objects if item["kind"] == "Role"), None)
    if found is None:
        raise LookupError("Role")
    return found


def _further(objects: Objects, value: dict[str, Any]) -> None:
    space = next(item["metadata"]["name"] for item in objects if item["kind"] == "Namespace")
    objects.append({"metadata": {"name": "more", "namespace": space}} | value)


def _object_of(kind: str) -> Callable[[Objects, Any], None]:
    def put(objects: Objects, value: Any) -> None:
        found = next((item for item in objects if item["kind"] == kind), None)
        if found is None:
            raise LookupError(kind)
        _merge(found, value)

    return put


_PLACES: dict[str, Callable[[Objects, Any], None]] = {
    "pod": _merged(_pod),
    "pod-context": _merged(_within(_pod, "securityContext")),
    "pod-metadata": _merged(lambda objects: _first(objects, "Deployment")["spec"]["template"]["metadata"]),
    "container": _merged(_container),
    "context": _merged(_within(_container, "securityContext")),
    "limits": _merged(_within(_container, "resources", "limits")),
    "requests": _merged(_within(_container, "resources", "requests")),
    "init": _beside("initContainers"),
    "ephemeral": _beside("ephemeralContainers"),
    "volume": _appended(_pod, "volumes"),
    "mount": _appended(_container, "volumeMounts"),
    "env": _appended(_container, "env"),
    "gpu-env": _appended(_card, "env"),
    "claim": _merged(_claim),
    "egress": _appended(_policy, "egress"),
    "ingress": _appended(_policy, "ingress"),
    "role-rule": _appended(_role, "rules"),
    "LoadBalancer": lambda objects, value: _merge(_first(objects, "Service", type="LoadBalancer"), value),
    "object": _further,
}
