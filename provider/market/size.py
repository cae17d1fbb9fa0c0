"""How large an order may be to be looked at. The chain takes whatever fits into a transaction; comparing ten thousand
units or patterns with every node would keep all other work waiting, for one tenant's cent of fee.
"""

from __future__ import annotations

from collections.abc import Iterator

from lease.groups import GroupSpec
from lease.resources import Attribute, Resources

__all__ = ["MOST_PARTS", "MOST_TEXT", "MOST_UNITS", "size_reasons"]

MOST_UNITS = 100
"""Five times what the chain once meant to allow (chain.md §4.3)."""
MOST_PARTS = 2000
"""Attributes, auditors, volumes and endpoints in all."""
MOST_TEXT = 32 * 1024
"""Characters of all attributes and auditors."""


def size_reasons(spec: GroupSpec) -> Iterator[str]:
    """Why the order is not looked at any further; nothing for one of a sensible size."""
    if len(spec.units) > MOST_UNITS:
        yield f"the order has {len(spec.units)} units, at most {MOST_UNITS} are served"
        return
    signed_by, required = spec.requirements.signed_by, spec.requirements.attributes or ()
    auditors = (*(signed_by.all_of or ()), *(signed_by.any_of or ()))
    resources = [unit.resources for unit in spec.units]
    attributes = (*required, *(item for one in resources for item in _attributes(one)))
    parts = len(attributes) + len(auditors) + sum(map(_things, resources))
    if parts > MOST_PARTS:
        yield f"the order has {parts} attributes, auditors, volumes and endpoints, at most {MOST_PARTS} are looked at"
    text = sum(len(item.key) + len(item.value) for item in attributes) + sum(map(len, auditors))
    if text > MOST_TEXT:
        yield f"the order's attributes and auditors have {text} characters, at most {MOST_TEXT} are looked at"


def _attributes(item: Resources) -> Iterator[Attribute]:
    yield from (*item.cpu_attributes, *item.memory_attributes, *item.gpu_attributes)
    for volume in item.storage or ():
        yield from volume.attributes


def _things(item: Resources) -> int:
    return len(item.storage or ()) + len(item.endpoints or ())
