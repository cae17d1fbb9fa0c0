"""The published state as the Go provider's JSON, with additions, and as its protobuf messages (operators.md §2.10,
§2.11).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from akash.inventory.v1 import types_pb2 as pb
from k8s.io.apimachinery.pkg.api.resource.generated_pb2 import Quantity

from provider.operators.inventory.quantity import ResourcePair
from provider.operators.inventory.registry import Gpu
from provider.operators.inventory.state import ClusterState, NodeState, StorageState

__all__ = ["cluster_document", "cluster_message", "node_document", "node_message", "storage_document"]

_NONE = ResourcePair()


def cluster_document(state: ClusterState) -> dict[str, Any]:
    """Empty lists are `[]`; an empty `info` is null, as Go writes a nil slice."""
    return {
        "nodes": [node_document(one) for one in state.nodes],
        "storage": [storage_document(one) for one in state.storage],
    }


def node_document(node: NodeState) -> dict[str, Any]:
    """One node. `hardware`, `conditions` and `taints` are additions (operators.md §8, rows 4 and 8)."""
    found = node.hardware
    cpus, modules = (found.cpus, found.memory) if found else ((), ())
    return {
        "name": node.name,
        "resources": {
            "cpu": {"quantity": node.cpu.document(), "info": [asdict(one) for one in cpus] or None},
            "memory": {"quantity": node.memory.document(), "info": [asdict(one) for one in modules] or None},
            "gpu": {"quantity": node.gpu.document(), "info": [_gpu_document(one) for one in node.gpus] or None},
            "ephemeral_storage": node.ephemeral.document(),
            "volumes_attached": _NONE.document(),
            "volumes_mounted": _NONE.document(),
        },
        "capabilities": {"storage_classes": list(node.classes)},
        **_additions(node),
    }


def _additions(node: NodeState) -> dict[str, Any]:
    others = dict(node.hardware.others or {}) if node.hardware else {}
    facts = node.facts
    return {
        "hardware": {**others, "unknown_gpus": [f"unknown GPU {':'.join(ids)}" for ids in node.unknown_gpus]},
        "conditions": dict(facts.conditions) if facts else {},
        "taints": [{"key": key, "effect": effect} for key, effect in facts.taints] if facts else [],
        "features": dict(facts.features) if facts else {},
    }


def _gpu_document(gpu: Gpu) -> dict[str, str]:
    return {
        "vendor": gpu.vendor,
        "vendor_id": gpu.vendor_id,
        "name": gpu.name,
        "model_id": gpu.model_id,
        "interface": gpu.interface,
        "memory_size": gpu.memory_size,
    }


def storage_document(storage: StorageState) -> dict[str, Any]:
    """One class. `class`, `size` and `provisioner` beside Go's fields are those of the documentation (§8, row 7)."""
    return {
        "quantity": storage.quantity.document(),
        "info": {"class": storage.name, "iops": storage.iops},
        "class": storage.name,
        "size": storage.quantity.document()["allocatable"],
        "provisioner": storage.provisioner,
    }


def cluster_message(state: ClusterState) -> Any:
    """`akash.inventory.v1.Cluster`."""
    nodes, storage = (node_message(one) for one in state.nodes), (_storage_message(one) for one in state.storage)
    return pb.Cluster(nodes=nodes, storage=storage)


def node_message(node: NodeState) -> Any:
    """`akash.inventory.v1.Node`."""
    found = node.hardware
    cpus, modules = (found.cpus, found.memory) if found else ((), ())
    resources = pb.NodeResources(
        cpu=pb.CPU(quantity=_pair(node.cpu), info=[pb.CPUInfo(**asdict(one)) for one in cpus]),
        memory=pb.Memory(quantity=_pair(node.memory), info=[pb.MemoryInfo(**asdict(one)) for one in modules]),
        gpu=pb.GPU(quantity=_pair(node.gpu), info=[_gpu_message(one) for one in node.gpus]),
        ephemeral_storage=_pair(node.ephemeral),
        volumes_attached=_pair(_NONE),
        volumes_mounted=_pair(_NONE),
    )
    capabilities = pb.NodeCapabilities(storage_classes=node.classes)
    return pb.Node(name=node.name, resources=resources, capabilities=capabilities)


def _gpu_message(gpu: Gpu) -> Any:
    fields = _gpu_document(gpu)
    return pb.GPUInfo(modelid=fields.pop("model_id"), **fields)


def _storage_message(storage: StorageState) -> Any:
    info = {"class": storage.name, "iops": storage.iops}
    return pb.Storage(quantity=_pair(storage.quantity), info=pb.StorageInfo(**info))


def _pair(pair: ResourcePair) -> Any:
    texts = pair.document()
    return pb.ResourcePair(
        allocatable=Quantity(string=texts["allocatable"]),
        allocated=Quantity(string=texts["allocated"]),
        capacity=Quantity(string=texts["capacity"]),
    )
