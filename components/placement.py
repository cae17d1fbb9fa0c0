"""The nodes that a service may run on (kubernetes-objects.md §2.5.3), and the labels by which they are found (§1.3)."""

from __future__ import annotations

from components.checks import label_key, label_part
from components.errors import BuildError
from components.labels import AKASH, Object
from components.volumes import storage_classes
from lease.spec import GpuPlacement, ServiceSpec

__all__ = ["affinity", "gpu_resource"]

_CAPABILITIES = "akash.network/capabilities"
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}


def affinity(service: ServiceSpec) -> Object:
    """A required node affinity with one term: the provider's node, then the GPU, then each storage class."""
    expressions: list[Object] = [{"key": AKASH, "operator": "In", "values": ["true"]}]
    keys = _gpu_keys(service.gpu) if service.gpu else []
    keys += [f"{_CAPABILITIES}.storage.class.{name}" for name in storage_classes(service.volumes)]
    place = f"node label of service {service.name!r}"
    expressions += [{"key": label_key(place, key), "operator": "Gt", "values": ["0"]} for key in keys]
    terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def gpu_resource(service: ServiceSpec) -> str:
    """The extended resource that counts a service's GPUs."""
    vendor = service.gpu.vendor if service.gpu else ""
    if vendor not in _GPU_RESOURCES:
        raise BuildError(f"GPU vendor of service {service.name!r}", vendor, ", ".join(_GPU_RESOURCES))
    return _GPU_RESOURCES[vendor]


def _gpu_keys(gpu: GpuPlacement) -> list[str]:
    """Node labels of the card; memory and interface only where the tenant requested them (§10 Q2)."""
    vendor, model = label_part("GPU vendor", gpu.vendor), label_part("GPU model", gpu.model)
    card = f"{_CAPABILITIES}.gpu.vendor.{vendor}.model.{model}"
    keys = [card]
    if gpu.memory_size:
        keys.append(f"{card}.ram.{label_part('GPU memory', gpu.memory_size)}")
    if gpu.interface:
        keys.append(f"{card}.interface.{_interface(gpu.interface)}")
    return keys


def _interface(text: str) -> str:
    """The interface as nodes are labelled: lower case, `sxm` for every SXM generation (§1.3)."""
    lower = label_part("GPU interface", text).lower()
    return "sxm" if lower.startswith("sxm") else lower
