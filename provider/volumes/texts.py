"""Volumes in quarantine as an operator reads them (pure)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from provider.volumes.marks import KeptVolume

__all__ = ["amount", "kept_text", "volume_document", "volume_state"]

_GIB = 2**30


def kept_text(volumes: Sequence[KeptVolume], *, problem: Callable[[KeptVolume], str]) -> str:
    """The volumes of one lease in a line, each with its problem if it has one."""
    size = sum(volume.size_bytes for volume in volumes)
    noun = "volume" if len(volumes) == 1 else "volumes"
    each = "; ".join(f"{volume.claim} {volume_state(volume, problem(volume))}" for volume in volumes)
    return f"{len(volumes)} {noun}, {amount(size)}: {each}"


def volume_state(volume: KeptVolume, problem: str = "") -> str:
    if volume.going:
        state = "waits for its storage to delete it"
    elif volume.into is not None:
        state = f"waits until {when(volume.until)} for its claim in lease {volume.into}"
    else:
        state = f"kept until {when(volume.until)}"
    return ": ".join(filter(None, (state, problem or volume.message)))


def volume_document(volume: KeptVolume, problem: str = "") -> dict[str, Any]:
    """A JSON document for programs. `until` null: the label cannot be read, and the volume is kept until an operator
    corrects it.
    """
    return {
        "volume": volume.name,
        "lease": str(volume.lease),
        "claim": volume.claim,
        "storage_class": volume.storage_class,
        "size_bytes": volume.size_bytes,
        "until": None if math.isinf(volume.until) else when(volume.until),
        "into": None if volume.into is None else str(volume.into),
        "state": volume_state(volume, problem),
    }


def amount(size_bytes: int) -> str:
    return f"{size_bytes / _GIB:.4g} GiB"


def when(seconds: float) -> str:
    if math.isinf(seconds):
        return "its label is corrected"
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
