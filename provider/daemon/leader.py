"""The daemon as one of several: it waits until it leads, and ends when it leads no longer. Off by default."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from secrets import token_hex

import structlog

from provider.kube.client import KubeCluster
from provider.leadership import Leadership, led
from provider.protocols.clock import SystemClock
from provider.settings import Settings
from stacks.common import forget_term, write_term

__all__ = ["Leading", "leading"]

_log = structlog.get_logger("lessor")


@dataclass(frozen=True, slots=True)
class Leading:
    """`holding` ends with `TermOver` when the term is over."""

    leadership: Leadership
    holding: asyncio.Task[None]

    async def hold(self) -> None:
        """Raise `TermOver` when the term is over."""
        await asyncio.shield(self.holding)


@asynccontextmanager
async def leading(settings: Settings) -> AsyncIterator[Leading | None]:
    """Wait until this process leads; None, at once, where LESSOR_LEADER_LEASE is not set."""
    engine = settings.home / "engine"
    if not settings.leader_lease:
        await asyncio.to_thread(forget_term, engine)
        yield None
        return
    cluster = KubeCluster(settings.kubeconfig)
    leadership = Leadership(
        cluster,
        name=settings.leader_lease,
        namespace=settings.manifest_namespace,
        identity=f"{socket.gethostname()}-{token_hex(4)}",
        clock=SystemClock(),
        seconds=settings.leader_term,
        span=settings.tx_timeout_blocks,
        note_term=partial(write_term, engine),
    )
    _log.info("leader.waits", lease=settings.leader_lease)
    try:
        async with led(leadership) as holding:
            yield Leading(leadership, holding)
    finally:
        await cluster.aclose()
