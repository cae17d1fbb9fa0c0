"""The public topics of the provider: its status in parts and as a whole, and the state of each lease (gateway.md §9.2).

Each topic has the Go provider's name and that of the public documentation (bidding.md §10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pydantic import JsonValue

from provider.errors import ProviderError
from provider.lifecycle.state import LEASE_STATE, LeaseStatus
from provider.observe.narration import Mask
from provider.protocols import Bus, Clock
from provider.protocols.bus import Topic

__all__ = ["LEASES_STATUS", "PUBLIC_TOPICS", "STATUS_PARTS", "publish_status"]

Document = dict[str, JsonValue]
_PAUSE_S = 5.0
"""The Go provider publishes at each round of its inventory, which takes as long."""


def _public(part: str, kind: type[Any] = Document) -> Topic[Any]:
    return Topic(f"{part}-status", f"akash.provider.{part}.status", shared=kind)


LEASES_STATUS: Topic[LeaseStatus] = _public("leases", LeaseStatus)
"""The state of a lease when it changes, without its tenant's secrets. The Go provider reserves the name."""
STATUS_PARTS: Mapping[str, Topic[Document]] = {
    part: _public(part) for part in ("provider", "cluster", "inventory", "bidengine", "manifest")
}
"""The document of `GET /status`, and its parts. Retained."""
PUBLIC_TOPICS: tuple[Topic[Any], ...] = (LEASES_STATUS, *STATUS_PARTS.values())


async def publish_status(bus: Bus, status: Callable[[], Document], *, mask: Mask, clock: Clock) -> None:
    """Publish until cancelled: the state of a lease at once, a part of the status within five seconds of its change.
    `status`: the document of `GET /status`; raises `ProviderError` while it cannot be made.
    """
    async with asyncio.TaskGroup() as group:
        group.create_task(_publish_leases(bus, mask))
        group.create_task(_publish_parts(bus, status, clock))


async def _publish_leases(bus: Bus, mask: Mask) -> None:
    async with bus.subscribe(LEASE_STATE) as changes:
        async for change in changes:
            if isinstance(change, LeaseStatus):
                bus.publish(LEASES_STATUS, replace(change, reason=mask(change.lease, change.reason)))


async def _publish_parts(bus: Bus, status: Callable[[], Document], clock: Clock) -> None:
    known: dict[str, Document] = {}
    while True:
        with suppress(ProviderError):
            for part, value in _parts(status()).items():
                if known.get(part) != value:
                    known[part] = value
                    bus.publish(STATUS_PARTS[part], value, retain=True)
        await clock.sleep(_PAUSE_S)


def _parts(document: Document) -> dict[str, Document]:
    cluster = document["cluster"]
    inventory = cluster["inventory"] if isinstance(cluster, dict) else None
    parts = {"provider": document, "cluster": cluster, "inventory": inventory}
    parts |= {name: document[name] for name in ("bidengine", "manifest")}
    return {name: value for name, value in parts.items() if isinstance(value, dict)}
