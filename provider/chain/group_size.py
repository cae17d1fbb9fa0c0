"""The size of a group, counted on its protobuf message before anything is converted.

Anybody may send a group: a tenant for the price of a transaction, a caller of `BidScreening` for nothing. Converting
ten thousand units keeps everything else waiting, so a group above these limits is never converted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["MOST_PARTS", "MOST_TEXT", "MOST_UNITS", "oversize"]

MOST_UNITS = 100
"""The chain takes whatever fits into a transaction. Comparing ten thousand units or patterns with every node would keep
all other orders waiting, for a cent of fee. Five times what the chain once meant to allow (chain.md §4.3).
"""
MOST_PARTS = 2000
"""Attributes, auditors, volumes and endpoints in all."""
MOST_TEXT = 32 * 1024
"""Characters of all attributes and auditors, and of all names."""


def oversize(spec: Any) -> str:
    """Why the `GroupSpec` message is too large to be converted, as a text for its tenant; empty when it is not.

    The work is bounded: lengths of lists are read without their elements, and texts only below the other limits.
    """
    if len(spec.resources) > MOST_UNITS:
        return f"the order has {len(spec.resources)} units, at most {MOST_UNITS} are allowed"
    parts = _parts(spec)
    if parts > MOST_PARTS:
        return f"the order has {parts} attributes, auditors, volumes and endpoints, at most {MOST_PARTS} are allowed"
    text = sum(map(len, _texts(spec)))
    return f"the order's texts have {text} characters, at most {MOST_TEXT} are allowed" if text > MOST_TEXT else ""


def _parts(spec: Any) -> int:
    """Attributes, auditors, volumes and endpoints. Attributes of volumes are not counted beyond too many volumes."""
    wanted = spec.requirements
    count = len(wanted.attributes) + len(wanted.signed_by.all_of) + len(wanted.signed_by.any_of)
    for unit in spec.resources:
        one = unit.resource
        count += len(one.storage) + len(one.endpoints)
        count += len(one.cpu.attributes) + len(one.memory.attributes) + len(one.gpu.attributes)
        if count > MOST_PARTS:
            return count
        count += sum(len(volume.attributes) for volume in one.storage)
    return count


def _texts(spec: Any) -> Iterable[str | bytes]:
    wanted = spec.requirements
    yield spec.name
    yield from wanted.signed_by.all_of
    yield from wanted.signed_by.any_of
    yield from _attribute_texts(wanted.attributes)
    for unit in spec.resources:
        yield unit.price.denom
        yield unit.price.amount
        yield from _resource_texts(unit.resource)


def _resource_texts(one: Any) -> Iterable[str | bytes]:
    for measure, value in ((one.cpu, one.cpu.units), (one.memory, one.memory.quantity), (one.gpu, one.gpu.units)):
        yield value.val
        yield from _attribute_texts(measure.attributes)
    for volume in one.storage:
        yield volume.name
        yield volume.quantity.val
        yield from _attribute_texts(volume.attributes)


def _attribute_texts(attributes: Any) -> Iterable[str]:
    for item in attributes:
        yield item.key
        yield item.value
