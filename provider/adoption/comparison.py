"""What runs, compared with the stored manifest: the tenant's part of each object (pure).

The Go provider stores a manifest before it applies it, and an update that failed there leaves the two different.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.labels import Object
from components.lease import lease_objects
from lease.spec import FIRST_FORM, LeaseSpec
from provider.lifecycle.drift import differences

__all__ = ["manifest_differences"]

_WORKLOADS = ("Deployment", "StatefulSet")
_HIDDEN = (".env", ".command", ".args")
"""Parts of a container in which tenants write secrets."""
_PROVIDERS = frozenset({
    *("AKASH_GROUP_SEQUENCE", "AKASH_DEPLOYMENT_SEQUENCE", "AKASH_ORDER_SEQUENCE"),
    *("AKASH_OWNER", "AKASH_PROVIDER", "AKASH_CLUSTER_PUBLIC_HOSTNAME"),
})  # fmt: skip
"""Variables that the provider sets (kubernetes-objects.md §2.5.1): another public hostname is no other manifest."""


def manifest_differences(spec: LeaseSpec, live: Iterable[Object]) -> tuple[str, ...]:
    """A text for each object that the manifest of `spec` asks for and that is missing or different. Raises `BuildError`
    for a manifest of which no objects can be made.
    """
    found = {(obj["kind"], obj["metadata"]["name"]): obj for obj in live}
    wanted = lease_objects(spec.model_copy(update={"form": FIRST_FORM, "found": (), "kept": ()}))
    return tuple(text for obj in wanted for text in _compared(obj, found))


def _compared(wanted: Object, found: Mapping[tuple[str, str], Object]) -> Iterator[str]:
    kind, name = wanted["kind"], wanted["metadata"]["name"]
    if not _expected(wanted):
        return
    live = found.get((kind, name))
    if live is None:
        yield f"{kind} {name} is missing"
    elif kind in _WORKLOADS:
        yield from (f"{kind} {name}: {text}" for text in _of_workload(wanted, live))


def _expected(wanted: Object) -> bool:
    """Whether the Go provider makes the object too; address pools and Secrets of single variables are of Lessor."""
    if wanted["kind"] == "Secret":
        return not wanted["metadata"]["name"].startswith("env-")
    return wanted["kind"] not in ("Namespace", "IPAddressPool", "L2Advertisement")


def _of_workload(wanted: Object, live: Object) -> Iterator[str]:
    if wanted["spec"]["replicas"] != live["spec"].get("replicas"):
        yield _changed("replicas", live["spec"].get("replicas"), wanted["spec"]["replicas"])
    running = {item["name"]: item for item in live["spec"]["template"]["spec"]["containers"]}
    for container in wanted["spec"]["template"]["spec"]["containers"]:
        name = container["name"]
        if name not in running:
            yield f"container {name} is missing"
            continue
        for path in _of_container(container, running[name]):
            if path.endswith(_HIDDEN) or any(f"{part}[" in path for part in _HIDDEN):
                yield f"container {name}{path} differs"
            else:
                yield _changed(f"container {name}{path}", _at(running[name], path), _at(container, path))


def _of_container(wanted: Object, live: Object) -> Iterator[str]:
    """Paths that begin with a dot. The disk of several volumes is a sum here and the last one there (Q9)."""
    limits = {key: value for key, value in wanted["resources"]["limits"].items() if key != "ephemeral-storage"}
    variables = [item for item in wanted.get("env") or () if "valueFrom" not in item and item["name"] not in _PROVIDERS]
    compared = {
        "image": wanted["image"],
        "command": wanted.get("command") or [],
        "args": wanted.get("args") or [],
        "env": variables,
        "resources": {"limits": limits},
    }
    yield from (f".{path}" for path in differences(compared, live))
    named = {item["name"] for item in wanted.get("env") or ()}
    more = (item["name"] for item in live.get("env") or () if item["name"] not in named | _PROVIDERS)
    yield from (f".env[{name}]" for name in more)


def _changed(what: str, live: Any, wanted: Any) -> str:
    return f"{what} is {live}, in the stored manifest {wanted}"


def _at(value: Any, path: str) -> Any:
    for key in path.strip(".").split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
