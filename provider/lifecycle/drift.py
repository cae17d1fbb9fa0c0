"""Drift: changes of a lease's objects that its stack did not make (docs/architecture.md §2, the lease loop).

A watch reports that an object of a lease changed in more than its status; then the lease's objects are read and
compared with the applied version. Only the fields that the stack sets count: defaults of the API server, fields of
controllers and fields that somebody added are no drift, except where the whole set counts (`additions`). Pods are not
compared: the maintenance of a node moves them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from components.labels import Object
from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.lifecycle.additions import added_paths, named, removal
from provider.protocols import Cluster
from provider.protocols.cluster import (
    DEPLOYMENT,
    HTTP_ROUTE,
    INGRESS,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    NAMESPACE,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    WatchEvent,
)
from provider.units import parse_quantity

__all__ = [
    "ALWAYS_WATCHED",
    "KINDS",
    "NETWORK_POLICY",
    "Change",
    "Digests",
    "Drift",
    "differences",
    "find_drift",
    "remove_additions",
]

_RBAC = "rbac.authorization.k8s.io/v1"
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
ROLE = Kind(_RBAC, "Role", "roles")
ROLE_BINDING = Kind(_RBAC, "RoleBinding", "rolebindings")

RESOURCE_QUOTA = Kind("v1", "ResourceQuota", "resourcequotas")
LIMIT_RANGE = Kind("v1", "LimitRange", "limitranges")

ALWAYS_WATCHED = (
    SERVICE,
    SECRET,
    NETWORK_POLICY,
    INGRESS,
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
)
"""Watched beside Namespace, Deployment and StatefulSet. HTTP_ROUTE exists only where the Gateway API is installed."""

KINDS = {
    kind.kind: kind
    for kind in (*ALWAYS_WATCHED, HTTP_ROUTE, NAMESPACE, DEPLOYMENT, STATEFUL_SET, IP_ADDRESS_POOL, L2_ADVERTISEMENT)
}
_SHOWN = 5
_AMOUNTS = (".resources.", ".sizeLimit", "spec.hard.", ".default.", ".defaultRequest.")


class Change(Enum):
    """What an event of a watch says beside the object's status."""

    NONE = auto()
    FIRST = auto()
    """The object was not known before."""
    CHANGED = auto()


@dataclass(slots=True)
class Drift:
    """What is known of one lease's drift. A restart forgets it: a lease of which nothing is known is compared once.

    `compared`: no object has changed since the last comparison began. `left`: what the last comparison found.
    `repaired`: what was left when the last repair ended. `strays`: what the search for objects without an owner left in
    the namespace; None: not searched yet.
    """

    compared: bool = False
    left: tuple[str, ...] = ()
    repaired: tuple[str, ...] | None = None
    strays: tuple[str, ...] | None = None

    @property
    def worth_repairing(self) -> bool:
        """False when a repair has just left exactly what is left now: another one would change nothing either."""
        return bool(self.left) and self.repaired != self.left

    def found(self, texts: tuple[str, ...]) -> None:
        """Note what a comparison found."""
        self.left = texts
        if not texts:
            self.repaired = None

    def repair_ended(self) -> None:
        """The next check compares again and sees what the repair has done."""
        self.repaired, self.compared = self.left, False


class Digests:
    """A digest of every watched object's last content without its status. Forgetting a digest costs a comparison."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}

    def note(self, event: WatchEvent) -> Change:
        """Whether this event changes more than a status."""
        key = _object_key(event.object)
        before = self._digests.pop(key, None)
        if event.type != "DELETED":
            self._digests[key] = _digest(event.object)
        if self._digests.get(key) == before:
            return Change.NONE
        return Change.FIRST if before is None and event.type != "DELETED" else Change.CHANGED

    def listed(self, obj: Mapping[str, Any]) -> None:
        """Note what a listed object says."""
        self._digests[_object_key(obj)] = _digest(obj)


async def find_drift(cluster: Cluster, spec: LeaseSpec) -> tuple[str, ...]:
    """A text for each object that is not as `spec` says, with the paths. Raises `ClusterError`.

    An object that is being deleted counts when it is gone: until then nothing can be put in its place.
    """
    pairs = await _wanted_and_live(cluster, spec)
    return tuple(text for wanted, live in pairs if (text := _difference(wanted, live)))


async def remove_additions(cluster: Cluster, spec: LeaseSpec) -> None:
    """Remove what was added to the lease's objects where the whole set counts. Raises `ClusterError`."""
    for wanted, live in await _wanted_and_live(cluster, spec):
        if live is None or live["metadata"].get("deletionTimestamp"):
            continue
        if (patch := removal(wanted, live)) is not None:
            meta = live["metadata"]
            changes = patch | {"metadata": {"resourceVersion": meta["resourceVersion"]}}
            await cluster.patch(KINDS[wanted["kind"]], meta["name"], changes, namespace=meta.get("namespace"))


async def _wanted_and_live(cluster: Cluster, spec: LeaseSpec) -> list[tuple[Object, Object | None]]:
    """Each object of `spec`, and the object that exists under its name."""
    wanted = lease_objects(spec)
    live: dict[tuple[str, str], Object] = {}
    for kind, namespace in sorted({(obj["kind"], obj["metadata"].get("namespace", "")) for obj in wanted}):
        names = {obj["metadata"]["name"] for obj in wanted if obj["kind"] == kind}
        live |= {(kind, obj["metadata"]["name"]): obj for obj in await _read(cluster, KINDS[kind], namespace, names)}
    return [(obj, live.get((obj["kind"], obj["metadata"]["name"]))) for obj in wanted]


async def _read(cluster: Cluster, kind: Kind, namespace: str, names: Iterable[str]) -> list[Object]:
    """Read a lease's namespace in one request. In MetalLB's namespace, which everybody shares, read only the named
    objects.
    """
    if kind in (NAMESPACE, IP_ADDRESS_POOL, L2_ADVERTISEMENT):
        read = [await cluster.get(kind, name, namespace=namespace or None) for name in sorted(names)]
        return [obj for obj in read if obj is not None]
    return await cluster.list(kind, namespace=namespace)


def _difference(wanted: Object, live: Object | None) -> str:
    name = f"{wanted['kind']} {wanted['metadata']['name']}"
    if live is None:
        return f"{name} is missing"
    if live["metadata"].get("deletionTimestamp"):
        return ""
    paths = [*differences(wanted, live), *added_paths(wanted, live)]
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{name} differs in {', '.join(paths[:_SHOWN])}{more}" if paths else ""


def differences(wanted: Any, live: Any, path: str = "") -> Iterable[str]:
    """Paths at which `live` differs from `wanted`. What only `live` has is no difference."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        if wanted == live:
            return
        for key, value in wanted.items():
            yield from differences(value, live.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _of_lists(wanted, live, path)
    elif not _equal(wanted, live, amount=any(word in path for word in _AMOUNTS)):
        yield path


def _of_lists(wanted: list[Any], live: list[Any], path: str) -> Iterable[str]:
    """Items with names are compared by name, and `live` may have more of them; any other list is one value."""
    own, other_items = named(wanted), named(live)
    if own is not None and other_items is not None:
        for name, item in own.items():
            yield from differences(item, other_items.get(name), f"{path}[{name}]")
    elif len(wanted) != len(live):
        yield path
    else:
        for index, (item, other) in enumerate(zip(wanted, live, strict=True)):
            yield from differences(item, other, f"{path}[{index}]")


def _equal(wanted: Any, live: Any, *, amount: bool) -> bool:
    """An empty value is the same as none; amounts are the same however they are written (`1000m`, `1`)."""
    if wanted == live or (not wanted and not live):
        return True
    if not amount or not isinstance(wanted, str | int) or not isinstance(live, str | int):
        return False
    try:
        return parse_quantity(wanted) == parse_quantity(live)
    except ValueError:
        return False


def _object_key(obj: Mapping[str, Any]) -> str:
    meta = obj["metadata"]
    return f"{obj.get('kind')}/{meta.get('namespace', '')}/{meta['name']}"


def _digest(obj: Mapping[str, Any]) -> bytes:
    """A digest of what a person or a program may have changed; an update of the status alone does not change it."""
    meta = obj.get("metadata") or {}
    content = {key: value for key, value in obj.items() if key not in ("status", "metadata", "apiVersion", "kind")}
    named = [meta.get("labels"), meta.get("annotations")]
    return hashlib.blake2b(json.dumps([content, named], sort_keys=True).encode(), digest_size=12).digest()
