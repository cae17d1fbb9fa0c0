"""What a node's hardware server answered, reduced to what is published (operators.md §2.4, §8 row 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from provider.operators.inventory.registry import PciId

__all__ = ["Cpu", "Hardware", "MemoryModule", "hardware"]

_GPU_VENDORS = ("10de", "1002", "8086")
_GIB = 1024**3
_MOST_THREADS = 2**32 - 1
"""Of the message's field."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """One processor. `vcores`: its hardware threads."""

    id: str
    vendor: str
    model: str
    vcores: int


@dataclass(frozen=True, slots=True)
class MemoryModule:
    vendor: str
    type: str
    total_size: str
    speed: str


@dataclass(frozen=True, slots=True)
class Hardware:
    """One node's hardware. `gpus` has the ids of every card; `others` is published as it was answered."""

    cpus: tuple[Cpu, ...] = ()
    gpus: tuple[PciId, ...] = ()
    memory: tuple[MemoryModule, ...] = ()
    others: Mapping[str, Any] | None = None


def hardware(answers: Mapping[str, Any]) -> Hardware:
    """The answers by kind (`cpu`, `gpu`, `memory`, `block`, `network`, `features`); a kind may be missing. Raises
    ValueError for an answer of another form.
    """
    try:
        return Hardware(
            cpus=tuple(_cpu(one) for one in _items(answers, "cpu", "processors")),
            gpus=tuple(_gpu_ids(_items(answers, "gpu", "cards"))),
            memory=tuple(_module(one) for one in _items(answers, "memory", "modules")),
            others={
                "disks": _items(answers, "block", "disks"),
                "network_interfaces": _items(answers, "network", "nics"),
                "gpu_features": dict(answers.get("features") or {}),
            },
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"an answer of the hardware server has another form: {error!r}") from error


def _items(answers: Mapping[str, Any], kind: str, name: str) -> list[Any]:
    return list((answers.get(kind) or {}).get(name) or ())


def _cpu(one: Mapping[str, Any]) -> Cpu:
    threads = one.get("total_hardware_threads") or one.get("total_threads") or 0
    return Cpu(
        str(one["id"]), str(one.get("vendor", "")), str(one.get("model", "")), min(max(0, int(threads)), _MOST_THREADS)
    )


def _gpu_ids(cards: Sequence[Mapping[str, Any]]) -> list[PciId]:
    """The primary ids: those of the board's vendor say nothing of the card (field problem B1)."""
    found = [card["pci"] for card in cards if card.get("pci")]
    ids = [(str(one["vendor"]["id"]).lower(), str(one["product"]["id"]).lower()) for one in found]
    return [one for one in ids if one[0] in _GPU_VENDORS]


def _module(one: Mapping[str, Any]) -> MemoryModule:
    size, speed = int(one.get("size_bytes") or 0), int(one.get("speed_mts") or 0)
    text = f"{size // _GIB}Gi" if size and size % _GIB == 0 else str(size)
    return MemoryModule(str(one.get("vendor", "")), str(one.get("type", "")), text, f"{speed} MT/s" if speed else "")
