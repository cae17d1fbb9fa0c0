"""The labels of a node: what its workloads select by, in the Go provider's spelling and in that of the public
documentation (operators.md §2.7).

Only the managed labels are written, by a merge patch that names each of them: labels of others are never touched.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lease.kubernetes_names import is_label_name
from provider.inventory.reading import CARDS
from provider.operators.inventory.registry import Gpu

__all__ = ["healthy", "is_managed", "label_changes", "node_labels"]

_AKASH = "akash.network"
_GPU, _CLASS = f"{_AKASH}/capabilities.gpu", f"{_AKASH}/capabilities.storage.class"
_NVIDIA = "nvidia.com/gpu.present"


def is_managed(key: str) -> bool:
    """Whether the operator owns the label: it removes one of these that it does not set."""
    return key in (_AKASH, _NVIDIA) or key.startswith(f"{_AKASH}/")


def node_labels(gpus: Sequence[Gpu], classes: Iterable[str], *, present: Iterable[str]) -> dict[str, str]:
    """The managed labels of a node that is offered. `gpus`: the cards that can be rented. `present`: the vendors of all
    cards; NVIDIA's device plugin runs where that vendor's label is, before it has offered a card.

    A key that cannot be one is left out, since the API server would refuse all labels for it: the public registry says
    what memory and interface a card has.
    """
    labels = {_AKASH: "true", **{f"{_CLASS}.{name}": "1" for name in classes}}
    if "nvidia" in present:
        labels[_NVIDIA] = "true"
    counts = Counter(key for gpu in gpus for key in _counted(gpu))
    labels |= {key: str(count) for key, count in counts.items()}
    labels |= {key: "true" for gpu in gpus for key in (f"{_GPU}.vendor.{gpu.vendor}", f"{_GPU}.model.{gpu.name}")}
    return {key: value for key, value in sorted(labels.items()) if is_label_name(key.rpartition("/")[2])}


def _counted(gpu: Gpu) -> Iterable[str]:
    model = f"{_GPU}.vendor.{gpu.vendor}.model.{gpu.name}"
    yield model
    if gpu.memory_size:
        yield f"{model}.ram.{gpu.memory_size}"
    if gpu.interface:
        yield f"{model}.interface.{_interface(gpu)}"


def _interface(gpu: Gpu) -> str:
    name = gpu.interface.lower()
    return "sxm" if name.startswith("sxm") else name


def healthy(gpus: Sequence[Gpu], allocatable: Mapping[str, int]) -> tuple[Gpu, ...]:
    """The cards that the device plugins of the node offer.

    Where a plugin offers fewer cards of a vendor than there are, any of the vendor's models may be the one that is
    missing, so each model counts that many less: a card that is ill is never offered.
    """
    found = Counter(gpu.vendor for gpu in gpus)
    missing = {vendor: max(0, count - allocatable.get(vendor, 0)) for vendor, count in found.items()}
    seen: Counter[tuple[str, str]] = Counter()
    kept = []
    for gpu in gpus:
        seen[gpu.vendor, gpu.name] += 1
        if seen[gpu.vendor, gpu.name] > missing[gpu.vendor]:
            kept.append(gpu)
    return tuple(kept)


def label_changes(
    have: Mapping[str, str], want: Mapping[str, str], *, cards: Sequence[Gpu] | None, have_cards: str
) -> dict[str, Any] | None:
    """The merge patch of a node: managed labels that differ, and None for those that go. Returns None if nothing
    differs. `cards` of None leaves the annotation as it is.
    """
    labels: dict[str, str | None] = {key: value for key, value in want.items() if have.get(key) != value}
    labels |= {key: None for key in have if is_managed(key) and key not in want}
    text = have_cards if cards is None else _cards_text(cards)
    metadata: dict[str, Any] = {"labels": labels} if labels else {}
    if text != have_cards:
        metadata["annotations"] = {CARDS: text or None}
    return {"metadata": metadata} if metadata else None


def _cards_text(cards: Sequence[Gpu]) -> str:
    if not cards:
        return ""
    found = Counter((gpu.vendor, gpu.name, gpu.memory_size, _interface(gpu)) for gpu in cards)
    names = ("vendor", "model", "memory_size", "interface")
    return json.dumps([dict(zip(names, one, strict=True)) | {"count": n} for one, n in sorted(found.items())])
