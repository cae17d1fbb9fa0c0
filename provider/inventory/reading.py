"""Kubernetes nodes, pods and claims → inventory data. An amount that cannot be read counts as 0, so that it never
becomes free capacity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import Node, ScheduledPod, VolumeClaim
from provider.units import parse_quantity
from provider.volumes.marks import UNTIL

__all__ = ["CARDS", "kept_volume", "node", "node_ports", "scheduled_pod", "takes_pods", "volume_claim"]

_GPU_LABEL = "akash.network/capabilities.gpu.vendor."
_CLASS_LABEL = "akash.network/capabilities.storage.class."
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}
_MANY_PODS = 110
_MANY_CARDS = 1024
CARDS = "akash.network/capabilities.gpu"
"""Annotation of a node with every card's memory and interface, by the inventory operator: the keys of some labels would
be too long.
"""


def node(obj: Mapping[str, Any]) -> Node | None:
    """A node with its allocatable capacity, or None when no tenant's pod can run on it.

    That is: not labelled `akash.network=true` (every pod's affinity asks for it), not ready, cordoned, or tainted (pods
    tolerate nothing).
    """
    labels = obj.get("metadata", {}).get("labels") or {}
    if labels.get("akash.network") != "true" or not takes_pods(obj):
        return None
    allocatable = obj.get("status", {}).get("allocatable") or {}
    capacity = Capacity(
        cpu_milli=_amount(allocatable, "cpu", scale=1000),
        memory_bytes=_amount(allocatable, "memory"),
        ephemeral_bytes=_amount(allocatable, "ephemeral-storage"),
        pods=_amount(allocatable, "pods") if "pods" in allocatable else _MANY_PODS,
    )
    classes = tuple(sorted(key.removeprefix(_CLASS_LABEL) for key in labels if key.startswith(_CLASS_LABEL)))
    described = (obj["metadata"].get("annotations") or {}).get(CARDS, "")
    cards = _cards(labels, allocatable, described=described)
    return Node(obj["metadata"]["name"], capacity, cards=cards, storage_classes=classes)


def takes_pods(obj: Mapping[str, Any]) -> bool:
    """Whether a tenant's pod can run on the node: it is ready, not cordoned, and has no taint that keeps pods away."""
    spec, conditions = obj.get("spec") or {}, obj.get("status", {}).get("conditions") or []
    ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    tainted = any(item.get("effect") in ("NoSchedule", "NoExecute") for item in spec.get("taints") or [])
    return ready and not spec.get("unschedulable") and not tainted


def _cards(labels: Mapping[str, str], allocatable: Mapping[str, Any], *, described: str) -> tuple[Card, ...]:
    """One entry for each physical card; at most as many of a vendor as the device plugin offers. Where the annotation
    has as many cards of a model as the labels count, it says which memory belongs to which interface.
    """
    cards: list[Card] = []
    known = _described(described)
    for (vendor, model), counts in sorted(_gpu_counts(labels).items()):
        total = counts.get("", {}).get("", 0)
        if total and len(found := known.get((vendor, model), ())) == total:
            cards += found
            continue
        sizes, interfaces = _spread(counts.get("ram", {}), total), _spread(counts.get("interface", {}), total)
        cards += [Card(vendor, model, size, interface) for size, interface in zip(sizes, interfaces, strict=True)]
    offered = {vendor: _amount(allocatable, name) for vendor, name in _GPU_RESOURCES.items()}
    kept: list[Card] = []
    for card in cards:
        if offered.get(card.vendor, 0) > 0:
            offered[card.vendor] -= 1
            kept.append(card)
    return tuple(kept)


def _gpu_counts(labels: Mapping[str, str]) -> dict[tuple[str, str], dict[str, dict[str, int]]]:
    """(vendor, model) → attribute ("", "ram" or "interface") → value → number of cards."""
    counts: dict[tuple[str, str], dict[str, dict[str, int]]] = {}
    for key, value in labels.items():
        parts = key.removeprefix(_GPU_LABEL).split(".") if key.startswith(_GPU_LABEL) else []
        if len(parts) in (3, 5) and parts[1] == "model" and value.isascii() and value.isdigit():
            kind, what = (parts[3], parts[4]) if len(parts) == 5 else ("", "")
            counts.setdefault((parts[0], parts[2]), {}).setdefault(kind, {})[what] = min(int(value), _MANY_CARDS)
    return counts


def _described(text: str) -> dict[tuple[str, str], list[Card]]:
    """(vendor, model) → the cards of the inventory operator's annotation; empty for a text of another form."""
    found: dict[tuple[str, str], list[Card]] = {}
    try:
        for one in json.loads(text) if text else ():
            card = Card(*(str(one[name]) for name in ("vendor", "model", "memory_size", "interface")))
            found.setdefault((card.vendor, card.model), []).extend([card] * min(int(one["count"]), _MANY_CARDS))
    except (ValueError, KeyError, TypeError):
        return {}
    return found


def _spread(counts: Mapping[str, int], total: int) -> list[str]:
    values = [value for value, count in sorted(counts.items()) for _ in range(count)]
    return (values + [""] * total)[:total]


def scheduled_pod(obj: Mapping[str, Any]) -> ScheduledPod | None:
    """What a pod takes from its node; None when it has no node yet or has ended. A terminating pod still counts."""
    spec = obj.get("spec") or {}
    if not spec.get("nodeName") or obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return None
    vendor, units = _gpu_use(obj)
    meta = obj["metadata"]
    return ScheduledPod(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        node=spec["nodeName"],
        requests=Capacity(
            cpu_milli=_pod_amount(obj, "cpu", scale=1000),
            memory_bytes=_pod_amount(obj, "memory"),
            ephemeral_bytes=_pod_amount(obj, "ephemeral-storage"),
            pods=1,
        ),
        gpu_vendor=vendor,
        gpu_model=_affinity_model(spec, vendor),
        gpu_units=units,
    )


def _gpu_use(obj: Mapping[str, Any]) -> tuple[str, int]:
    for vendor, name in _GPU_RESOURCES.items():
        units = _pod_amount(obj, name)
        if units:
            return vendor, units
    return "", 0


def _affinity_model(spec: Mapping[str, Any], vendor: str) -> str:
    """The model that the pod's required node affinity names (kubernetes-objects.md §2.5.3)."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    prefix = f"{_GPU_LABEL}{vendor}.model."
    for term in required.get("nodeSelectorTerms") or []:
        for expression in term.get("matchExpressions") or []:
            key = str(expression.get("key", ""))
            if vendor and key.startswith(prefix):
                return key.removeprefix(prefix).split(".")[0]
    return ""


def _pod_amount(obj: Mapping[str, Any], name: str, *, scale: int = 1) -> int:
    """The scheduler's sum: containers and sidecars together, or the largest init container, or what the pod asks for as
    a whole; plus the pod's overhead.
    """
    spec, status = obj["spec"], obj.get("status") or {}
    seen = _Resized(status)
    running = sum(seen.amount(item, name, scale=scale) for item in spec.get("containers") or [])
    inits = spec.get("initContainers") or []
    sidecars = [item for item in inits if item.get("restartPolicy") == "Always"]
    beside = sum(seen.amount(item, name, scale=scale) for item in sidecars)
    first = max((seen.amount(item, name, scale=scale) for item in inits if item not in sidecars), default=0)
    whole = seen.larger(_requested(spec, name, scale=scale), status, name, scale=scale)
    return max(running + beside, first + beside, whole) + _amount(spec.get("overhead") or {}, name, scale=scale)


class _Resized:
    """What a pod's status says of resizes. While a resize is not done the larger amount counts, as the scheduler counts
    it: the node has not given back the old amount, or has promised the new one. A resize that the node has refused as
    infeasible does not count.
    """

    def __init__(self, status: Mapping[str, Any]) -> None:
        listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        self._statuses = {item.get("name"): item for item in listed}
        conditions = status.get("conditions") or ()
        refused = (c.get("reason") == "Infeasible" for c in conditions if c.get("type") == "PodResizePending")
        self._refused = any(refused)

    def amount(self, container: Mapping[str, Any], name: str, *, scale: int) -> int:
        status = self._statuses.get(container.get("name")) or {}
        return self.larger(_requested(container, name, scale=scale), status, name, scale=scale)

    def larger(self, asked: int, status: Mapping[str, Any], name: str, *, scale: int) -> int:
        """`asked`, or more when the status of the container (or of the pod as a whole) says more."""
        given = (status.get("resources") or {}).get("requests") or {}, status.get("allocatedResources") or {}
        amounts = [_amount(item, name, scale=scale) for item in given if name in item]
        return max(amounts) if amounts and self._refused else max(asked, *amounts, 0)


def _requested(item: Mapping[str, Any], name: str, *, scale: int) -> int:
    """A request that is not given is the limit, as the API server defaults it."""
    resources = item.get("resources") or {}
    requests = resources.get("requests") or {}
    return _amount(requests if name in requests else resources.get("limits") or {}, name, scale=scale)


def volume_claim(obj: Mapping[str, Any]) -> VolumeClaim:
    """A claim takes what it asks for, or what it got when that is more. Without a class it is of the pool `default`."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    asked = _amount((spec.get("resources") or {}).get("requests") or {}, "storage")
    got = _amount(obj.get("status", {}).get("capacity") or {}, "storage")
    return VolumeClaim(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        storage_class=spec.get("storageClassName") or "default",
        size_bytes=max(asked, got),
    )


def node_ports(obj: Mapping[str, Any]) -> int | None:
    """The node ports that a Service has; None when it has none."""
    spec = obj.get("spec") or {}
    count = sum(bool(port.get("nodePort")) for port in spec.get("ports") or ())
    return count + bool(spec.get("healthCheckNodePort")) or None


def kept_volume(obj: Mapping[str, Any]) -> VolumeClaim | None:
    """The claim of a volume in quarantine: its size counts until the volume is gone. None for every other volume, and
    while it is bound, since its claim counts then.
    """
    meta, spec = obj["metadata"], obj.get("spec") or {}
    if UNTIL not in (meta.get("labels") or {}) or (obj.get("status") or {}).get("phase") == "Bound":
        return None
    claim = spec.get("claimRef") or {}
    return VolumeClaim(
        namespace=claim.get("namespace", ""),
        name=claim.get("name") or meta["name"],
        storage_class=spec.get("storageClassName") or "default",
        size_bytes=_amount(spec.get("capacity") or {}, "storage"),
    )


def _amount(amounts: Mapping[str, Any], name: str, *, scale: int = 1) -> int:
    """The amount, rounded up for requests; allocatable amounts are whole numbers anyway. 0 when it cannot be read."""
    try:
        exact = parse_quantity(amounts.get(name, 0)) * scale
    except ValueError:
        return 0
    whole = int(exact)
    return max(0, whole + (exact > whole))
