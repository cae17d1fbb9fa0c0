"""Amounts of CPU, memory, disk and pods that can be added; GPU cards; overcommit."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from lease.spec import GpuPlacement

__all__ = ["Capacity", "Card", "Overcommit"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """CPU in milli-cores, memory and ephemeral storage in bytes, and the number of pods (a kubelet takes 110 by
    default).
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    ephemeral_bytes: int = 0
    pods: int = 0

    def plus(self, other: Capacity) -> Capacity:
        return Capacity(
            self.cpu_milli + other.cpu_milli,
            self.memory_bytes + other.memory_bytes,
            self.ephemeral_bytes + other.ephemeral_bytes,
            self.pods + other.pods,
        )

    def minus(self, other: Capacity) -> Capacity:
        """Never below zero."""
        return Capacity(
            max(0, self.cpu_milli - other.cpu_milli),
            max(0, self.memory_bytes - other.memory_bytes),
            max(0, self.ephemeral_bytes - other.ephemeral_bytes),
            max(0, self.pods - other.pods),
        )

    def times(self, count: int) -> Capacity:
        return Capacity(
            self.cpu_milli * count, self.memory_bytes * count, self.ephemeral_bytes * count, self.pods * count
        )

    def holds(self, need: Capacity) -> bool:
        return (
            self.cpu_milli >= need.cpu_milli
            and self.memory_bytes >= need.memory_bytes
            and self.ephemeral_bytes >= need.ephemeral_bytes
            and self.pods >= need.pods
        )

    def how_many(self, need: Capacity) -> int:
        """How many times `need` fits; a large number when it is zero."""
        most = 1_000_000
        for have, want in (
            (self.cpu_milli, need.cpu_milli),
            (self.memory_bytes, need.memory_bytes),
            (self.ephemeral_bytes, need.ephemeral_bytes),
            (self.pods, need.pods),
        ):
            if want:
                most = min(most, have // want)
        return most


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU, as the labels of its node describe it (kubernetes-objects.md §1.3). Empty: not in the
    labels.
    """

    vendor: str
    model: str
    memory_size: str = ""
    interface: str = ""

    def placement(self) -> GpuPlacement:
        return GpuPlacement(vendor=self.vendor, model=self.model)


@dataclass(frozen=True, slots=True)
class Overcommit:
    """By how many percent more is leased than there is: 50 means 150 % in all.

    A true percentage, not the Go provider's whole hundreds (bidding.md §4.2 and §9). GPUs are never overcommitted.
    """

    cpu: int = 0
    memory: int = 0
    storage: int = 0

    def cpu_milli(self, rented: int) -> int:
        return _committed(rented, self.cpu)

    def memory_bytes(self, rented: int) -> int:
        return _committed(rented, self.memory)

    def storage_bytes(self, rented: int) -> int:
        """Ephemeral disk and RAM volumes; a persistent claim always takes its full size (kubernetes-objects.md
        §2.5.2).
        """
        return _committed(rented, self.storage)


def _committed(rented: int, percent: int) -> int:
    """Half away from zero and at least 1, as pod requests are computed (bidding.md §4.2)."""
    if percent <= 0 or rented <= 0:
        return rented
    exact = Decimal(rented) * 100 / (100 + percent)
    return max(1, int(exact.to_integral_value(ROUND_HALF_UP)))
