"""GPU requests: the meaning of an attribute such as `vendor/nvidia/model/a100/ram/80Gi/interface/sxm` (bidding.md
§4.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from lease.resources import Attribute

__all__ = ["GpuRequest", "gpu_key", "parse_gpu_request", "parse_gpu_requests", "whole_gibibytes"]

_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_NUMBER = re.compile(r"(\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE]([-+]?\d{1,2}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """`model` `*` is any model of the vendor. `memory_size` ("80Gi") and `interface` ("pcie", "sxm") are empty when not
    requested.
    """

    vendor: str
    model: str
    memory_size: str = ""
    interface: str = ""


def whole_gibibytes(text: str) -> str | None:
    """A size in whole Gi: `80Gi` for `81920Mi`, `1Gi` for `1.5Gi`, `0Gi` for `80` (bytes); None for text that is no
    number with a binary suffix or without one.
    """
    suffix = text[-2:] if text[-2:] in _UNITS else ""
    number = _NUMBER.fullmatch(text.removesuffix(suffix))
    if number is None:
        return None
    value = Fraction(number[1]) * Fraction(10) ** int(number[2] or 0) * _UNITS.get(suffix, 1)
    return f"{int(value) // 2**30}Gi" if value < 2**64 else None


def gpu_key(request: GpuRequest) -> str:
    """The attribute key of a request; its value is always `true`."""
    key = f"vendor/{request.vendor}/model/{request.model}"
    key += f"/ram/{request.memory_size}" if request.memory_size else ""
    return key + (f"/interface/{request.interface}" if request.interface else "")


def parse_gpu_request(key: str) -> GpuRequest | None:
    """The request in an attribute key; None where the Go provider ignores the key: another vendor, a bad size or
    interface, an odd number of parts.

    Unknown further pairs are ignored. A size is given in whole Gi.
    """
    parts = key.split("/")
    if len(parts) < 4 or len(parts) % 2 or parts[0] != "vendor" or parts[2] != "model" or not parts[3]:
        return None
    extra = dict(zip(parts[4::2], parts[5::2], strict=True))
    memory, interface = extra.get("ram", ""), extra.get("interface", "")
    size = whole_gibibytes(memory) if memory.endswith("i") else None
    if parts[1] not in ("nvidia", "amd") or (memory and size is None) or interface not in ("", "pcie", "sxm"):
        return None
    return GpuRequest(parts[1], parts[3], size or "", interface)


def parse_gpu_requests(attributes: Iterable[Attribute]) -> tuple[GpuRequest, ...] | None:
    """All requests of a unit in order; None when one cannot be read, so that no node fits."""
    requests = tuple(parse_gpu_request(item.key) for item in attributes)
    if any(request is None for request in requests):
        return None
    return tuple(request for request in requests if request is not None)
