"""Kubernetes objects → the facts that the inventory operator keeps of them. An amount that cannot be read counts as
0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provider.inventory.capacity import Capacity
from provider.inventory.reading import CARDS, scheduled_pod, takes_pods
from provider.operators.inventory.labels import is_managed
from provider.units import parse_quantity

__all__ = [
    "GPU_RESOURCES",
    "Amounts",
    "NodeFacts",
    "PodFacts",
    "StorageClassFacts",
    "Volume",
    "node_facts",
    "pod_facts",
    "storage_class",
    "volume",
]

GPU_RESOURCES: Mapping[str, str] = {
    "nvidia.com/gpu": "nvidia",
    "amd.com/gpu": "amd",
    "gpu.intel.com/i915": "intel",
    "gpu.intel.com/xe": "intel",
}
"""What device plugins call their cards → the vendor."""
_FEATURES = ("nvidia.com/cuda.", "nvidia.com/gpu.compute.", "nvidia.com/gpu.memory", "nvidia.com/mig.")
_IOPS = "akash.network/iops"


@dataclass(frozen=True, slots=True)
class Amounts:
    """CPU in milli-cores, memory and ephemeral storage in bytes, cards by vendor."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    gpus: tuple[tuple[str, int], ...] = ()

    @property
    def gpu_count(self) -> int:
        return sum(count for _, count in self.gpus)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node. `takes_pods`: ready, not cordoned and without a taint that keeps tenants' pods away."""

    name: str
    takes_pods: bool
    ready: bool
    allocatable: Amounts
    capacity: Amounts
    labels: tuple[tuple[str, str], ...]
    """The managed ones that the node has."""
    cards: str = ""
    """The annotation with the cards that the node has."""
    conditions: tuple[tuple[str, str], ...] = ()
    taints: tuple[tuple[str, str], ...] = ()
    features: tuple[tuple[str, str], ...] = ()
    """Labels of NVIDIA's feature discovery."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What one pod takes from its node. `binary`: whether memory and ephemeral storage are written with Ki, Mi, Gi."""

    node: str
    requests: Capacity
    gpu_units: int
    binary: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class StorageClassFacts:
    """`managed`: labelled `akash.network`, so that it may be offered."""

    name: str
    provisioner: str
    managed: bool
    pool: str = ""
    cluster_id: str = ""
    replicas: int = 1
    iops: str = ""


@dataclass(frozen=True, slots=True)
class Volume:
    storage_class: str
    size_bytes: int


def node_facts(obj: Mapping[str, Any]) -> NodeFacts:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    labels = meta.get("labels") or {}
    conditions = tuple(sorted((str(c.get("type")), str(c.get("status"))) for c in status.get("conditions") or ()))
    return NodeFacts(
        name=meta["name"],
        takes_pods=takes_pods(obj),
        ready=("Ready", "True") in conditions,
        allocatable=_amounts(status.get("allocatable") or {}),
        capacity=_amounts(status.get("capacity") or {}),
        labels=tuple(sorted((key, value) for key, value in labels.items() if is_managed(key))),
        cards=str((meta.get("annotations") or {}).get(CARDS, "")),
        conditions=conditions,
        taints=tuple(sorted((str(t.get("key")), str(t.get("effect"))) for t in spec.get("taints") or ())),
        features=tuple(sorted((key, value) for key, value in labels.items() if key.startswith(_FEATURES))),
    )


def _amounts(resources: Mapping[str, Any]) -> Amounts:
    """Cards of two device plugins of one vendor add up, and so do those of two vendors."""
    gpus: dict[str, int] = {}
    for name, vendor in GPU_RESOURCES.items():
        if name in resources:
            gpus[vendor] = gpus.get(vendor, 0) + _whole(resources, name)
    return Amounts(
        cpu_milli=_whole(resources, "cpu", scale=1000),
        memory_bytes=_whole(resources, "memory"),
        ephemeral_bytes=_whole(resources, "ephemeral-storage"),
        gpus=tuple(sorted(gpus.items())),
    )


def _whole(resources: Mapping[str, Any], name: str, *, scale: int = 1) -> int:
    try:
        return max(0, int(parse_quantity(resources.get(name, 0)) * scale))
    except ValueError:
        return 0


def pod_facts(obj: Mapping[str, Any]) -> PodFacts | None:
    """What a pod takes; None without a node and after its end. In-memory volumes count once a pod, as far as the
    containers' requests do not cover them.
    """
    pod = scheduled_pod(obj)
    if pod is None:
        return None
    requests = pod.requests.plus(Capacity(memory_bytes=_unrequested_memory(obj["spec"])))
    return PodFacts(pod.node, requests, _cards(obj["spec"], pod.gpu_units), _binary(obj["spec"]))


def _cards(spec: Mapping[str, Any], units: int) -> int:
    """The cards of NVIDIA and AMD as the market counts them, and Intel's."""
    intel = ("gpu.intel.com/i915", "gpu.intel.com/xe")
    return units + sum(_requested(one, name) for one in spec.get("containers") or () for name in intel)


def _unrequested_memory(spec: Mapping[str, Any]) -> int:
    """What in-memory volumes may take beyond the requests: such a volume's pages count for the limits of the pod's
    containers, so a pod whose requests are its limits has asked for them already.
    """
    volumes = (one.get("emptyDir") or {} for one in spec.get("volumes") or ())
    sizes = sum(_whole(one, "sizeLimit") for one in volumes if one.get("medium") == "Memory")
    containers = spec.get("containers") or ()
    limits = [_limit(one) for one in containers]
    if not sizes or 0 in limits:
        return sizes
    return min(sizes, max(0, sum(limits) - sum(_requested(one, "memory") for one in containers)))


def _limit(container: Mapping[str, Any]) -> int:
    return _whole((container.get("resources") or {}).get("limits") or {}, "memory")


def _requested(container: Mapping[str, Any], name: str) -> int:
    resources = container.get("resources") or {}
    requests = resources.get("requests") or {}
    return _whole(requests if name in requests else resources.get("limits") or {}, name)


def _binary(spec: Mapping[str, Any]) -> tuple[bool, bool]:
    first: Mapping[str, Any] = next(iter(spec.get("containers") or ()), {})
    requests = (first.get("resources") or {}).get("requests") or {}
    memory, ephemeral = (str(requests.get(name, "")).endswith("i") for name in ("memory", "ephemeral-storage"))
    return memory, ephemeral


def storage_class(obj: Mapping[str, Any]) -> StorageClassFacts:
    meta, parameters = obj["metadata"], obj.get("parameters") or {}
    replicas = str(parameters.get("numberOfReplicas", ""))
    return StorageClassFacts(
        name=meta["name"],
        provisioner=str(obj.get("provisioner", "")),
        managed=str((meta.get("labels") or {}).get("akash.network", "")).lower() in ("true", "t", "1"),
        pool=str(parameters.get("pool", "")),
        cluster_id=str(parameters.get("clusterID", "")),
        replicas=int(replicas) if replicas.isdigit() and int(replicas) else 1,
        iops=str((meta.get("annotations") or {}).get(_IOPS, "")),
    )


def volume(obj: Mapping[str, Any]) -> Volume | None:
    """A PersistentVolume of a class; its phase does not matter, as the storage holds it until it is gone."""
    spec = obj.get("spec") or {}
    name = spec.get("storageClassName")
    return Volume(name, _whole(spec.get("capacity") or {}, "storage")) if name else None
