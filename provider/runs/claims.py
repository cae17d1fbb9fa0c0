"""The history of hostnames and addresses: what the watches report of the claims, written to the store.

The claims in the cluster are what counts; the rows follow them. What changed while the provider was stopped, or while
the store could not be written, is found when the watches have reported all that there is.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import structlog

from provider.claims.hostnames import host_claims
from provider.claims.leased_ips import address_claims
from provider.claims.moves import read_move
from provider.errors import StoreError
from provider.protocols import Clock
from provider.protocols.cluster import PROVIDER_HOST, PROVIDER_LEASED_IP, Kind, WatchEvent
from provider.repeats import Repeats
from provider.store import Database
from provider.store.claims import Claim, ClaimKind, note_claims, open_claims

__all__ = ["ClaimHistory"]

_KINDS = {PROVIDER_HOST: ClaimKind.HOSTNAME, PROVIDER_LEASED_IP: ClaimKind.ADDRESS}
_SETTLE_S = 0.5
"""Claims of one lease are written one after another; their rows share a transaction."""
_RETRY_S = 30.0
_log = structlog.get_logger("lessor")


class ClaimHistory:
    """An observer of the lease loop's watches (`lifecycle.watches.Observer`). `run` writes for ever. Claims of other
    providers in the cluster are ignored.
    """

    def __init__(self, database: Database, clock: Clock, *, provider: str) -> None:
        self._database = database
        self._clock = clock
        self._provider = provider
        self._held: dict[tuple[Kind, str], tuple[Claim, float]] = {}
        self._released: dict[tuple[str, str, str, str], float] = {}
        self._listed: set[Kind] = set()
        self._news = asyncio.Event()
        self._repeats = Repeats(clock.monotonic)

    def note(self, kind: Kind, event: WatchEvent) -> None:
        if kind not in _KINDS:
            return
        name = (kind, str(event.object["metadata"]["name"]))
        before, now = self._held.pop(name, None), self._clock.now()
        claim = None if event.type == "DELETED" else self._claim(kind, event.object)
        if claim is not None:
            same = before is not None and before[0].key == claim.key
            self._held[name] = (claim, before[1] if same and before else _given_at(event, now))
            self._released.pop(claim.key, None)
        if before is not None and (claim is None or claim.key != before[0].key):
            self._released[before[0].key] = now
        if before is None or claim is None or claim.key != before[0].key:
            self._news.set()

    def mark(self, kind: Kind, current: bool) -> None:
        if kind in _KINDS and current and kind not in self._listed:
            self._listed.add(kind)
            self._news.set()

    def again(self) -> None:
        """Compare all of it with the store: the store is another one."""
        self._news.set()

    async def run(self) -> None:
        while True:
            await self._news.wait()
            await self._clock.sleep(_SETTLE_S)
            self._news.clear()
            try:
                await self.write()
                self._repeats.ended("store")
            except StoreError as error:
                if self._repeats.is_news("store", str(error)):
                    _log.warning("store.unwritable", problem=str(error), what="history of hostnames and addresses")
                self._news.set()
                await self._clock.sleep(_RETRY_S)

    async def write(self) -> None:
        """Make the open rows those of the claims that are held. Kinds of which the watch has not reported all lose no
        row. Raises `StoreError`.
        """
        listed = {_KINDS[kind].value for kind in self._listed}
        held = {claim.key: (claim, at) for claim, at in self._held.values()}
        rows = await open_claims(self._database)
        now, times = self._clock.now(), dict(self._released)
        gone = [(rows[key], times.get(key, now)) for key in rows.keys() - held.keys() if key[0] in listed]
        await note_claims(self._database, [held[key] for key in sorted(held.keys() - rows.keys())], gone)
        for key, at in times.items():
            if self._released.get(key) == at:
                del self._released[key]

    def _claim(self, kind: Kind, obj: dict[str, Any]) -> Claim | None:
        """The claim of an object; None for one that claims nothing, has no address yet, or is another provider's."""
        claim = _hostname(obj) if kind is PROVIDER_HOST else _address(obj)
        return claim if claim is not None and claim.lease.provider == self._provider else None


def _hostname(obj: dict[str, Any]) -> Claim | None:
    for found in host_claims([obj]).values():
        return Claim(ClaimKind.HOSTNAME, found.hostname, "", found.lease, f"{found.service}:{found.external_port}")
    return None


def _address(obj: dict[str, Any]) -> Claim | None:
    for found in address_claims([obj]).values():
        port, service = f"{found.external_port}/{found.proto}", f"{found.service}:{found.port}"
        return Claim(ClaimKind.ADDRESS, found.address, port[:16], found.lease, service) if found.address else None
    return None


def _given_at(event: WatchEvent, now: float) -> float:
    """Unix seconds. A claim that no migration has given to its lease was given when its object was made."""
    try:
        made = datetime.fromisoformat(event.object["metadata"]["creationTimestamp"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return now
    return min(made, now) if event.type == "ADDED" and read_move(event.object).sequence == 1 else now
