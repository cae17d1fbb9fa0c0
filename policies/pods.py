"""The pods and containers that a manifest declares, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policies.rules import Manifest

__all__ = [
    "HIDDEN",
    "LONG_RUNNING",
    "Hidden",
    "all_containers",
    "at",
    "items",
    "listed",
    "named",
    "pod_metadata",
    "pod_of",
]

_TEMPLATE = ("spec", "template", "spec")
_POD_SPECS = {
    "Pod": ("spec",),
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    "PodTemplate": ("template", "spec"),
}


class Hidden(str):
    """Stands for a secret value of a recorded state, which no rule can read. A text that says the same is none."""

    __slots__ = ()


HIDDEN = Hidden("(hidden)")

LONG_RUNNING = ("containers", "initContainers")
"""The lists of containers that have resources; an ephemeral container has none of its own."""


def all_containers(
    manifest: Manifest, lists: Sequence[str] = (*LONG_RUNNING, "ephemeralContainers")
) -> Iterator[Manifest]:
    """Every container of the pod that a manifest declares; empty for kinds without pods.

    An item that is no mapping counts as one empty container, so that a rule which requires a field fails.
    """
    if pod := pod_of(manifest):
        for name in lists:
            yield from items(pod, name)


def pod_of(manifest: Manifest) -> Mapping[str, Any]:
    """The spec of the pod that a manifest declares; empty for kinds without pods."""
    path = _POD_SPECS.get(str(manifest.get("kind")))
    return {} if path is None else at(manifest, *path)


def pod_metadata(manifest: Manifest) -> Mapping[str, Any]:
    """The metadata of the pod that a manifest declares; empty for kinds without pods."""
    path = _POD_SPECS.get(str(manifest.get("kind")))
    return {} if path is None else at(manifest, *path[:-1], "metadata")


def items(value: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """The mappings in the list `name`; an item, or a list, of another form counts as one empty mapping."""
    found = value.get(name)
    if found is not None:
        yield from (at(item) for item in listed(found) if item is not None)


def listed(value: object) -> Sequence[object]:
    """The list in a field of a manifest; any other value counts as a list of itself."""
    if type(value) is list:
        return value
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]


def at(value: object, *path: str) -> Mapping[str, Any]:
    """The mapping at `path`, empty where there is none.

    The rules ask hundreds of times a lease, nearly always about a dict; an abstract class takes ten times as long to
    answer.
    """
    for key in path:
        value = value.get(key) if type(value) is dict or isinstance(value, Mapping) else None
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def named(container: Manifest) -> str:
    """The container's name as it stands in a sentence."""
    return f"container {str(container.get('name') or '(no name)')!r}"
