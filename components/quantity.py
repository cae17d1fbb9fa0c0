"""Kubernetes quantities in the form that the API server writes, so that a live object never differs by spelling.

The Go provider's quantities are decimal: 2000 millicores are `2`, 1048576000 bytes are `1048576k`, 10^9 bytes are `1G`
(recorded: size-decimal-suffix, services-eight-persistent).
"""

from __future__ import annotations

__all__ = ["decimal", "milli"]

_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")


def decimal(value: int) -> str:
    """The quantity of a whole number: the largest power of 1000 that divides it becomes the suffix."""
    index = 0
    while value and value % 1000 == 0 and index + 1 < len(_SUFFIXES):
        value //= 1000
        index += 1
    return f"{value}{_SUFFIXES[index]}"


def milli(value: int) -> str:
    """The quantity of a number of thousandths, as CPU is counted."""
    return decimal(value // 1000) if value % 1000 == 0 else f"{value}m"
