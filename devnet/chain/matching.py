"""Whether a provider may bid on an order: attributes, auditors, storage and GPU capabilities (bidding.md §3.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from devnet.chain.context import Context
from devnet.chain.wire import Message

__all__ = ["attributes_match", "capabilities_match"]

_GPU, _STORAGE = "capabilities/gpu/", "capabilities/storage/"


def attributes_match(ctx: Context, provider: Message, requirements: Message) -> bool:
    """Whether the provider's attributes, and those signed by the required auditors, contain the required ones."""
    if not _subset(requirements.attributes, provider.attributes):
        return False
    signed = requirements.signed_by
    if not all(_signed(ctx, auditor, provider.owner, requirements) for auditor in signed.all_of):
        return False
    return not signed.any_of or any(_signed(ctx, auditor, provider.owner, requirements) for auditor in signed.any_of)


def _signed(ctx: Context, auditor: str, owner: str, requirements: Message) -> bool:
    row = ctx.get("audit", owner, auditor)
    return row is not None and _subset(requirements.attributes, row.attributes)


def capabilities_match(provider: Message, spec: Message) -> bool:
    """Whether each volume with attributes fits a storage class, and the provider has a GPU attribute of each unit."""
    return all(_storage_fits(provider, unit.resource) and _gpu_fits(provider, unit.resource) for unit in spec.resources)


def _storage_fits(provider: Message, resource: Message) -> bool:
    classes: dict[str, list[tuple[str, str]]] = {}
    for attribute in provider.attributes:
        parts = attribute.key.removeprefix(_STORAGE).split("/")
        if attribute.key.startswith(_STORAGE) and len(parts) == 2:
            classes.setdefault(parts[0], []).append((parts[1], attribute.value))
    demanding = [volume for volume in resource.storage if volume.attributes]
    return all(any(_covers(offered, volume.attributes) for offered in classes.values()) for volume in demanding)


def _gpu_fits(provider: Message, resource: Message) -> bool:
    wanted = resource.gpu.attributes
    if not wanted or resource.gpu.units.val in (b"", b"0"):
        return True
    rows = [row for row in provider.attributes if row.key.startswith(_GPU)]
    offered = [(row.key.removeprefix(_GPU), row.value) for row in rows]
    return any(_covers(offered, [attribute]) for attribute in wanted)


def _subset(wanted: Iterable[Message], offered: Iterable[Message]) -> bool:
    return _covers([(row.key, row.value) for row in offered], wanted)


def _covers(offered: Iterable[tuple[str, str]], wanted: Iterable[Message]) -> bool:
    offered = list(offered)
    return all(any(_matches(row.key, key) and row.value == value for key, value in offered) for row in wanted)


def _matches(pattern: str, key: str) -> bool:
    compiled = _compiled(pattern)
    return bool(compiled and compiled.fullmatch(key))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Match as for file paths: `*` and `?` stop at `/`, `[…]` is a class; an invalid pattern matches nothing."""
    parts = re.split(r"(\[\^?[^\]/]+\]|\*|\?)", pattern)
    if any(bracket in part for part in parts[::2] for bracket in "[]"):
        return None
    glob = {"*": "[^/]*", "?": "[^/]"}
    text = "".join(re.escape(part) if index % 2 == 0 else glob.get(part, part) for index, part in enumerate(parts))
    try:
        return re.compile(text)
    except re.error:
        return None
