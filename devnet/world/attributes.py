"""The attributes that a provider registers on the chain for the devnet's nodes (bidding.md §3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from devnet.controlplane import STORAGE_CLASSES, NodeSpec
from lease.resources import Attribute

__all__ = ["provider_attributes"]

_GENERAL = {"host": "akash", "region": "devnet", "tier": "community", "organization": "lessor-devnet"}


def provider_attributes(nodes: Iterable[NodeSpec]) -> list[Attribute]:
    """The attributes, sorted by key; each storage class is a separate group, also that of RAM volumes."""
    pairs = dict(_GENERAL)
    classes = [(name, "true") for name in STORAGE_CLASSES] + [("ram", "false")]
    for number, (name, persistent) in enumerate(classes, start=1):
        pairs |= {f"capabilities/storage/{number}/class": name, f"capabilities/storage/{number}/persistent": persistent}
    pairs |= {key: "true" for node in nodes if node.gpus for key in _cards(node)}
    return [Attribute(key, value) for key, value in sorted(pairs.items())]


def _cards(node: NodeSpec) -> Iterator[str]:
    model = f"capabilities/gpu/vendor/nvidia/model/{node.gpu_model}"
    yield model
    yield f"{model}/ram/{node.gpu_ram}"
    yield f"{model}/interface/{node.gpu_interface}"
    yield f"{model}/ram/{node.gpu_ram}/interface/{node.gpu_interface}"
