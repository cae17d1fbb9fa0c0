"""The load of an engine, for status and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stacks.common.priority import Priority

__all__ = ["Load"]


@dataclass(frozen=True, slots=True)
class Load:
    """`waiting`, `busy`: operations. `oldest_s`: seconds that the longest waiting operation has waited, 0 when none
    waits. `workers`: how many may run at once.
    """

    waiting: Mapping[Priority, int]
    oldest_s: float
    busy: int
    workers: int
