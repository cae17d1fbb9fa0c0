"""GPUs and other devices: a container has those that it rents, and no variable or class gives it more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lease.gpu_variables import LOADER_VARIABLES, PROVIDER_VARIABLES
from policies.pods import LONG_RUNNING, Hidden, all_containers, at, items, named, pod_of
from policies.quantities import positive, quantity
from policies.rules import Manifest, ObjectProblem, Objects, RuleScope, fence, of_each

__all__ = ["GPU_RESOURCES", "RULES"]

GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
_NONE = (None, "", "void", "none")
_CLASS = "nvidia"


def _devices(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        for part in ("limits", "requests"):
            for name in sorted(map(str, set(at(container, "resources", part)) - _PLAIN - GPU_RESOURCES)):
                yield f"{named(container)} takes the device {name}"
        if at(container, "resources").get("claims"):
            yield f"{named(container)} claims devices"


def _variables(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest):
        for variable in items(container, "env"):
            name = str(variable.get("name"))
            value = variable.get("value")
            if name in PROVIDER_VARIABLES and (_set(value, _NONE) or variable.get("valueFrom")):
                yield f"{named(container)} sets {name}, which chooses devices of the node"
            loaded = _set(value, (None, "")) or variable.get("valueFrom")
            if name in LOADER_VARIABLES and _cards(container) and loaded:
                yield f"{named(container)} sets {name}, which the GPU's runtime hook would load as root of the node"
        if container.get("envFrom"):
            yield f"{named(container)} takes variables of an object, which may choose devices of the node"


def _set(value: object, harmless: Collection[object]) -> bool:
    return not isinstance(value, Hidden) and value not in harmless


def _cards(container: Mapping[str, Any]) -> bool:
    limits = at(container, "resources", "limits")
    return any(positive(limits.get(name)) for name in GPU_RESOURCES)


def _whole(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest, LONG_RUNNING):
        limits, requests = (at(container, "resources", part) for part in ("limits", "requests"))
        for name in sorted(GPU_RESOURCES):
            if quantity(limits.get(name, 0)) != quantity(requests.get(name, limits.get(name, 0))):
                yield f"{named(container)} has a limit of {name} that is not its request"


def _runtime(manifest: Manifest) -> Iterator[str]:
    """An image of CUDA asks for every card of its node; only a variable of the pod takes that back."""
    if pod_of(manifest).get("runtimeClassName") != _CLASS:
        return
    for container in all_containers(manifest, LONG_RUNNING):
        values = {str(variable.get("name")): variable.get("value") for variable in items(container, "env")}
        value = values.get("NVIDIA_VISIBLE_DEVICES")
        if not _cards(container) and _set(value, ("void", "none")):
            yield f"{named(container)} has the runtime class nvidia without a card or NVIDIA_VISIBLE_DEVICES=void"


def _rented(objects: Objects) -> Iterator[ObjectProblem]:
    services = objects.lease.services if objects.lease else {}
    for workload in objects.of_kinds("Deployment", "StatefulSet"):
        rented = services.get(str(at(workload, "metadata").get("name")))
        if rented is None or rented.kept:
            continue
        pod = pod_of(workload)
        if str(pod.get("runtimeClassName") or "") != rented.runtime_class:
            yield ObjectProblem(workload, f"its runtime class is {pod.get('runtimeClassName')}")
        limits = [at(container, "resources", "limits") for container in all_containers(workload, LONG_RUNNING)]
        cards = [quantity(each.get(name, 0)) for each in limits for name in sorted(GPU_RESOURCES)]
        if None in cards or sum(card for card in cards if card is not None) != rented.gpus:
            yield ObjectProblem(workload, f"it does not take the {rented.gpus} cards that its service rents")


RULES = (
    fence(
        "known-devices",
        of_each(_devices),
        reason="An extended resource is a device of the node, such as /dev/kvm or a network card.",
        remedy="Use cpu, memory, ephemeral-storage, nvidia.com/gpu and amd.com/gpu.",
    ),
    fence(
        "own-gpu-variables",
        of_each(_variables),
        reason="The GPU vendors' runtimes give a container the devices that its variables name.",
        remedy="Remove the variable; the provider sets it.",
        form=2,
    ),
    fence(
        "gpus-are-whole",
        of_each(_whole),
        reason="A card cannot be overcommitted.",
        remedy="Set the same number as limit and request.",
    ),
    fence(
        "gpu-runtime-with-a-card",
        of_each(_runtime),
        reason="The runtime class of the cards gives a container without a card those that its image names.",
        remedy="Remove runtimeClassName, or set NVIDIA_VISIBLE_DEVICES to void.",
        form=2,
    ),
    fence(
        "rented-gpus",
        _rented,
        reason="Cards beyond the reservation are another tenant's.",
        remedy="Take as many cards as the service rents, with the runtime class of the settings.",
        scope=RuleScope.STACK,
    ),
)
