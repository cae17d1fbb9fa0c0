"""Classes that tenants and the provider's own processes use: storage, runtime and priority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pulumi import ResourceOptions
from pulumi_kubernetes.meta.v1 import ObjectMetaArgs, ObjectMetaPatchArgs
from pulumi_kubernetes.node.v1 import RuntimeClass
from pulumi_kubernetes.scheduling.v1 import PriorityClass
from pulumi_kubernetes.storage.v1 import StorageClassPatch

from stacks.cluster.settings import TAKEN_OVER

__all__ = ["label_storage_classes", "make_priority_class", "make_runtime_classes"]

_LABEL = {"akash.network": "true"}
_ABOVE_TENANTS = 1_000_000
"""Tenants' pods have the priority 0, and the system's own pods 2,000,000,000."""


def label_storage_classes(names: Iterable[str]) -> None:
    """Label the existing classes that are rented out. The classes themselves stay when the stack is destroyed."""
    for name in names:
        meta = ObjectMetaPatchArgs(name=name, labels=_LABEL, annotations=TAKEN_OVER)
        StorageClassPatch(f"storage-{name}", metadata=meta)


def make_runtime_classes(handlers: Mapping[str, str], labels: Mapping[str, str], *, opts: ResourceOptions) -> None:
    """One RuntimeClass for each handler of the nodes' container runtime. Tenants' pods name them."""
    for name, handler in handlers.items():
        meta = ObjectMetaArgs(name=name, labels=dict(labels), annotations=TAKEN_OVER)
        RuntimeClass(f"runtime-{name}", metadata=meta, handler=handler, opts=opts)


def make_priority_class(name: str, labels: Mapping[str, str]) -> None:
    """The priority of the provider's own processes, above all tenants."""
    PriorityClass(
        f"priority-{name}",
        metadata=ObjectMetaArgs(name=name, labels=dict(labels), annotations=TAKEN_OVER),
        value=_ABOVE_TENANTS,
        description="The provider and its operators: evicted after every tenant.",
    )
