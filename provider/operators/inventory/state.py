"""The state of the cluster that is published: nodes, hardware answers and pods → what there is and what is taken
(operators.md §2.6, §2.10). Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from provider.operators.inventory.answers import Hardware
from provider.operators.inventory.config import InventoryConfig
from provider.operators.inventory.facts import NodeFacts, PodFacts
from provider.operators.inventory.labels import healthy, is_managed, node_labels
from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.registry import Gpu, GpuRegistry, PciId, recognised

__all__ = ["ClusterState", "NodeState", "StorageState", "Verdict", "judge", "node_state"]


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node that is offered."""

    name: str
    cpu: ResourcePair
    memory: ResourcePair
    gpu: ResourcePair
    ephemeral: ResourcePair
    classes: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    unknown_gpus: tuple[PciId, ...] = ()
    """Cards that the registry does not know: shown, and not offered."""
    hardware: Hardware | None = None
    facts: NodeFacts | None = None


@dataclass(frozen=True, slots=True)
class StorageState:
    """One storage class that is offered. `driver`: `ceph`, `longhorn` or `rancher`."""

    name: str
    quantity: ResourcePair
    driver: str = ""
    provisioner: str = ""
    iops: str = ""


@dataclass(frozen=True, slots=True)
class ClusterState:
    nodes: tuple[NodeState, ...] = ()
    storage: tuple[StorageState, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows for a node: whether it is offered, its managed labels, and the cards that can be rented. `cards` is
    None until the node's hardware was read; until then its labels about cards stay as they are.
    """

    offered: bool
    labels: Mapping[str, str]
    classes: tuple[str, ...] = ()
    cards: tuple[Gpu, ...] | None = ()


def judge(node: NodeFacts, hardware: Hardware | None, *, config: InventoryConfig, registry: GpuRegistry) -> Verdict:
    """`config`: its classes are those that exist. A node that takes no pods or is excluded loses every managed
    label.
    """
    if not node.takes_pods or config.excludes(node.name):
        return Verdict(offered=False, labels={})
    classes = config.classes_of(node.name)
    if hardware is None:
        kept = {key: value for key, value in node.labels if _is_about_gpus(key)}
        return Verdict(True, node_labels((), classes, present=()) | kept, classes, None)
    gpus = recognised(hardware.gpus, registry)
    rentable = healthy(gpus, dict(node.allocatable.gpus))
    labels = node_labels(rentable, classes, present={gpu.vendor for gpu in gpus})
    return Verdict(True, labels, classes, rentable)


def _is_about_gpus(key: str) -> bool:
    return is_managed(key) and "gpu" in key


def node_state(
    node: NodeFacts,
    hardware: Hardware | None,
    pods: Iterable[PodFacts],
    *,
    verdict: Verdict,
    registry: GpuRegistry,
) -> NodeState:
    """A node that is offered with what its pods take."""
    cpu, memory, ephemeral, gpu, binary = _taken(pods)
    total, there = node.capacity, node.allocatable
    ids = hardware.gpus if hardware else ()
    return NodeState(
        name=node.name,
        cpu=ResourcePair(total.cpu_milli, there.cpu_milli, cpu, milli=True),
        memory=ResourcePair(total.memory_bytes, there.memory_bytes, memory, binary=binary[0]),
        gpu=ResourcePair(total.gpu_count, there.gpu_count, gpu),
        ephemeral=ResourcePair(total.ephemeral_bytes, there.ephemeral_bytes, ephemeral, binary=binary[1]),
        classes=verdict.classes,
        gpus=recognised(ids, registry),
        unknown_gpus=tuple(one for one in ids if one not in registry),
        hardware=hardware,
        facts=node,
    )


def _taken(pods: Iterable[PodFacts]) -> tuple[int, int, int, int, tuple[bool, bool]]:
    """The sums, and whether the first pod with memory and the first with storage write theirs in binary form: a sum
    takes the form of its first part.
    """
    cpu = memory = ephemeral = gpu = 0
    forms: list[bool | None] = [None, None]
    for pod in pods:
        for index, amount in enumerate((pod.requests.memory_bytes, pod.requests.ephemeral_bytes)):
            if amount and forms[index] is None:
                forms[index] = pod.binary[index]
        cpu += pod.requests.cpu_milli
        memory += pod.requests.memory_bytes
        ephemeral += pod.requests.ephemeral_bytes
        gpu += pod.gpu_units
    return cpu, memory, ephemeral, gpu, (bool(forms[0]), bool(forms[1]))
