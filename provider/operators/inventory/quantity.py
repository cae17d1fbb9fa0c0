"""Amounts of the published state: Kubernetes quantities in canonical form, and pairs of what there is and what is taken
(operators.md §2.10).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["MAX_INT64", "ResourcePair", "canonical"]

MAX_INT64 = 2**63 - 1
_UNLIMITED = -1
_DECIMAL = ("m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass(frozen=True, slots=True)
class ResourcePair:
    """An amount of a node or of a storage class, in whole units or, with `milli`, in thousandths. `binary`: the sum of
    what is allocated is written with Ki, Mi, Gi.
    """

    capacity: int = 0
    allocatable: int = 0
    allocated: int = 0
    milli: bool = False
    binary: bool = False

    @property
    def available(self) -> int:
        """What is free, never below zero. An allocatable amount of -1 is unlimited."""
        if self.allocatable == _UNLIMITED:
            return MAX_INT64 - self.allocated
        return max(0, self.allocatable - self.allocated)

    def take(self, amount: int) -> ResourcePair | None:
        """The pair after `amount` was taken; None if it is not free."""
        return replace(self, allocated=self.allocated + amount) if amount <= self.available else None

    def document(self) -> dict[str, str]:
        """The pair in the JSON form of the Go provider."""
        return {
            "allocatable": canonical(self.allocatable, milli=self.milli),
            "allocated": canonical(self.allocated, milli=self.milli, binary=self.binary),
            "capacity": canonical(self.capacity, milli=self.milli),
        }


def canonical(amount: int, *, milli: bool = False, binary: bool = False) -> str:
    """A quantity with the largest suffix that needs no fraction: 119800 m → "119800m", 64000 m → "64",
    33554432000 → "33554432k"; binary 536870912 → "512Mi". A binary amount below 1024 is written in decimal form.
    """
    if binary and not milli and abs(amount) >= 1024:
        return _with_suffix(amount, 1024, _BINARY)
    return _with_suffix(amount if milli else amount * 1000, 1000, _DECIMAL)


def _with_suffix(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    if amount == 0:
        return "0"
    power = 0
    while amount % base == 0 and power < len(suffixes) - 1:
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"
