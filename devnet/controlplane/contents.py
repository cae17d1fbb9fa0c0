"""The initial objects of the cluster: nodes, storage classes, MetalLB's CRDs and a runtime class."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = [
    "DEFAULT_NODES",
    "PROVISIONER",
    "SIMULATED",
    "STORAGE_CLASSES",
    "NodeSpec",
    "base_objects",
    "default_nodes",
    "node_object",
    "storage_labels",
    "surplus_nodes",
]

SIMULATED = ("kwok.x-k8s.io/node", "fake")
"""The annotation of the nodes that kwok simulates; a real node does not have it."""
STORAGE_CLASSES = ("beta1", "beta2", "beta3", "default")
PROVISIONER = "devnet.lessor.example/volume"
_CAPABILITIES = "akash.network/capabilities"


@dataclass(frozen=True)
class NodeSpec:
    """A simulated node: whole CPUs, memory and storage in GiB, and `gpus` NVIDIA cards of `gpu_model`."""

    name: str
    cpus: int = 32
    memory_gib: int = 128
    storage_gib: int = 1024
    gpus: int = 0
    gpu_model: str = ""
    gpu_ram: str = "80Gi"
    gpu_interface: str = "sxm"


def default_nodes(count: int) -> tuple[NodeSpec, ...]:
    """`node-1` … `node-<count>`; the last one also has eight `a100`."""
    plain = [NodeSpec(f"node-{number}") for number in range(1, count)]
    return (*plain, NodeSpec(f"node-{count}", gpus=8, gpu_model="a100"))


DEFAULT_NODES = default_nodes(3)


def node_object(spec: NodeSpec) -> dict[str, Any]:
    """The Node, with the labels that workloads depend on (kubernetes-objects.md §1.3)."""
    resources = {
        "cpu": str(spec.cpus),
        "memory": f"{spec.memory_gib}Gi",
        "ephemeral-storage": f"{spec.storage_gib}Gi",
        "pods": "110",
    }
    if spec.gpus:
        resources["nvidia.com/gpu"] = str(spec.gpus)
    about = {
        "architecture": "amd64",
        "operatingSystem": "linux",
        "kubeletVersion": "v1.36.3",
        "containerRuntimeVersion": "kwok://0.8.0",
        "osImage": "devnet",
        "kernelVersion": "devnet",
        **dict.fromkeys(("bootID", "machineID", "systemUUID", "kubeProxyVersion"), ""),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": _labels(spec), "annotations": dict([SIMULATED])},
        "status": {"capacity": resources, "allocatable": resources, "nodeInfo": about},
    }


def surplus_nodes(items: Sequence[Mapping[str, Any]], wanted: Collection[str], *, real: bool) -> list[dict[str, Any]]:
    """The nodes of an earlier start in the same folder that are not among the `wanted` names. `real`: a real node
    registers itself, so that only simulated ones can be surplus.
    """
    key, value = SIMULATED
    names = [item["metadata"]["name"] for item in items if not real or _annotation(item, key) == value]
    return [{"kind": "Node", "metadata": {"name": name}} for name in names if name not in wanted]


def _annotation(item: Mapping[str, Any], key: str) -> object:
    return (item["metadata"].get("annotations") or {}).get(key)


def _labels(spec: NodeSpec) -> dict[str, str]:
    labels = {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "akash.network": "true",
        **storage_labels(),
    }
    if spec.gpus:
        model = f"{_CAPABILITIES}.gpu.vendor.nvidia.model.{spec.gpu_model}"
        keys = (model, f"{model}.ram.{spec.gpu_ram}", f"{model}.interface.{spec.gpu_interface}")
        labels |= dict.fromkeys(keys, str(spec.gpus)) | {"nvidia.com/gpu.present": "true"}
    return labels


def storage_labels() -> dict[str, str]:
    """The labels of a node that has every storage class."""
    return {f"{_CAPABILITIES}.storage.class.{name}": "1" for name in STORAGE_CLASSES}


def base_objects(crds: Path) -> Iterator[dict[str, Any]]:
    """All initial objects except nodes. `crds`: the folder of MetalLB's definitions. Leases make the IPAddressPools."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "metallb-system"}}
    yield {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},  # the API server refuses pods that name a missing class
        "handler": "nvidia",
    }
    yield from (_storage_class(name) for name in STORAGE_CLASSES)
    for path in sorted(crds.glob("*.yaml")):
        yield from _definitions(path)


def _definitions(path: Path) -> Sequence[dict[str, Any]]:
    return [document for document in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader) if document]


def _storage_class(name: str) -> dict[str, Any]:
    is_default = {"storageclass.kubernetes.io/is-default-class": "true"} if name == "default" else {}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "labels": {"akash.network": "true"}, "annotations": is_default},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }
