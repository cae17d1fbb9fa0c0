"""Opened updates: a lease is won and its manifest is still to come, so the engine may begin with `SpecMaker.opening`.

A lease is offered to the engine once: one that was not taken or was given up is applied the ordinary way. A lease that
ran before (its manifest is lost, its stack perhaps too) is never offered: its stack must take over all that runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import LeaseId, namespace_name
from provider.lifecycle.parts import Parts
from provider.protocols.cluster import NAMESPACE, SECRET
from provider.records.applied import applied_name

__all__ = ["Opening", "offer", "withdraw"]


@dataclass(slots=True)
class Opening:
    """Whether a lease was offered to the engine, and whether the engine has taken it.

    A restart forgets both: an update that was given up before the restart has a stack, and the engine declines such a
    lease.
    """

    offered: bool = False
    taken: bool = False


async def offer(parts: Parts, lease: LeaseId, opening: Opening) -> None:
    """Offer a lease that waits for its manifest to the engine. Raises `ClusterError`; then the next check offers it."""
    spec = parts.specs.opening(lease)
    if spec is None or opening.offered:
        return
    untouched = await _untouched(parts, lease)
    opening.offered = True
    if untouched and await parts.engine.open(spec):
        opening.taken = True


async def withdraw(parts: Parts, lease: LeaseId, opening: Opening) -> None:
    """Give up the opened update of a lease that does not look alive any more."""
    if opening.taken:
        opening.taken = False
        await parts.engine.give_up(namespace_name(lease))


async def _untouched(parts: Parts, lease: LeaseId) -> bool:
    """Whether nothing was ever made for the lease. Raises `ClusterError`."""
    if await parts.cluster.get(SECRET, applied_name(lease), namespace=parts.config.records) is not None:
        return False
    return await parts.cluster.get(NAMESPACE, namespace_name(lease)) is None
