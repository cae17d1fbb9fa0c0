"""The quarantine: volumes of leases that have ended, kept until their time is over (docs/architecture.md §2 rule 2,
§10).

Each step follows from the volumes themselves and is done again after a crash at any line: a restart loses nothing. Only
its storage deletes a volume, when the volume is released and its policy is Delete again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog

from lease.ids import LeaseId, namespace_name
from provider.errors import ClusterError
from provider.kube.labels import MANAGED, managed_labels
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from provider.units import parse_quantity
from provider.volumes.marks import KeptVolume, claimed_from, expired, held, let_go, read_kept
from provider.waits import wait_for_event

__all__ = ["Quarantine", "Step", "next_step"]

_AGAIN_S = 10.0
_LONGEST_S = 60.0
"""A clock that was an hour behind and is put right must not leave the loop waiting for that hour."""
_SURE_S = 60.0
"""The time must stay over for so long: a clock that jumps ahead for a moment deletes nothing."""
_log = structlog.get_logger(__name__)


class Step(StrEnum):
    NOTHING = "nothing"
    LET_GO = "let go"
    EXPIRE = "expire"


def next_step(volume: KeptVolume, *, now: float) -> Step:
    """The step that is due for the volume at `now` (Unix seconds). A claim keeps its volume, whatever the time."""
    if volume.bound and volume.into is not None:
        return Step.LET_GO
    if now < volume.until or volume.going:
        return Step.NOTHING
    return Step.LET_GO if volume.bound else Step.EXPIRE


@dataclass(slots=True)
class _Known:
    """`over_since`: monotonic seconds at which the time of the volume was first seen to be over."""

    volume: KeptVolume
    over_since: float | None = None
    problem: str = ""


class Quarantine:
    """The quarantine of one provider; others may share the cluster. `duration_s` 0: no further volume is kept, and kept
    volumes keep their time.
    """

    def __init__(self, cluster: Cluster, clock: Clock, *, provider: str, duration_s: float = 0.0) -> None:
        self._cluster = cluster
        self._clock = clock
        self._provider = provider
        self._known: dict[str, _Known] = {}
        self._changed = asyncio.Event()
        self._listed = False
        self.duration_s = duration_s

    @property
    def volumes(self) -> tuple[KeptVolume, ...]:
        """All volumes in quarantine that the watch has reported, by name."""
        return tuple(sorted((known.volume for known in self._known.values()), key=lambda volume: volume.name))

    def problem(self, volume: KeptVolume) -> str:
        """Why the volume's next step failed, empty when it did not."""
        known = self._known.get(volume.name)
        return known.problem if known else ""

    async def keep(self, lease: LeaseId) -> None:
        """Mark the volumes of the lease's claims, so that they outlive its namespace. Raises `ClusterError`; then the
        namespace must stay.
        """
        if not self.duration_s:
            return
        space = namespace_name(lease)
        found = [obj for obj in await self._cluster.list(PERSISTENT_VOLUME) if _to_keep(obj, lease, space)]
        asked = await self._asked(space) if found else {}
        for obj in found:
            until = self._clock.now() + self.duration_s
            size = asked.get(obj["metadata"]["name"], 0)
            await self.write(held(obj, lease, until=until, asked_bytes=size))

    async def of(self, lease: LeaseId) -> tuple[KeptVolume, ...]:
        """As `left`, without a request when the watch has reported no volume. Raises `ClusterError`."""
        if self._listed and all(known.volume.lease != lease for known in self._known.values()):
            return ()
        return await self.left(lease)

    async def left(self, lease: LeaseId) -> tuple[KeptVolume, ...]:
        """The lease's volumes in quarantine, as the API server has them now. Raises `ClusterError`."""
        found = await self._cluster.list(PERSISTENT_VOLUME, labels=managed_labels(lease))
        volumes = tuple(volume for obj in found if (volume := _read(obj)) is not None)
        for name in {known.volume.name for known in self._known.values() if known.volume.lease == lease}:
            if name not in {volume.name for volume in volumes}:
                self._known.pop(name)  # it was deleted while no watch was open
        return volumes

    async def write(self, obj: dict[str, Any]) -> None:
        """Store a volume that was read before; `Conflict` when it has changed since, `ClusterError` otherwise."""
        await self._cluster.apply(obj)

    async def run(self, check: Callable[[LeaseId], None]) -> None:
        """Watch the volumes and do the steps that are due, until cancelled. Calls `check` for a lease whose volumes
        change.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(check))
            group.create_task(self._do_steps())

    async def _watch(self, check: Callable[[LeaseId], None]) -> None:
        while True:
            try:
                found = await self._begin()
                async for event in self._cluster.watch(PERSISTENT_VOLUME, labels=MANAGED, known=found):
                    self._note(event.object, gone=event.type == "DELETED", check=check)
            except ClusterError as error:
                _log.warning("volumes.unreadable", problem=str(error))
            await self._clock.sleep(_AGAIN_S)

    async def _begin(self) -> list[dict[str, Any]]:
        """List all volumes at once, so that a lease without kept volumes is known to have none."""
        found = await self._cluster.list(PERSISTENT_VOLUME, labels=MANAGED)
        volumes = [volume for obj in found if (volume := self._own(obj)) is not None]
        self._known = {volume.name: _Known(volume) for volume in volumes}
        self._listed = True
        self._changed.set()
        return found

    def _note(self, obj: dict[str, Any], *, gone: bool, check: Callable[[LeaseId], None]) -> None:
        name = obj["metadata"]["name"]
        before = self._known.pop(name, None)
        volume = None if gone else self._own(obj)
        if volume is not None:
            self._known[name] = _Known(volume, before.over_since if before else None)
        if volume != (before.volume if before else None):
            self._changed.set()
            for lease in {known.lease for known in (volume, before.volume if before else None) if known is not None}:
                check(lease)

    def _own(self, obj: dict[str, Any]) -> KeptVolume | None:
        volume = _read(obj)
        return volume if volume is not None and volume.lease.provider == self._provider else None

    async def _do_steps(self) -> None:
        while True:
            self._changed.clear()
            for known in list(self._known.values()):
                await self._step(known)
            await self._rest()

    async def _step(self, known: _Known) -> None:
        step = next_step(known.volume, now=self._clock.now())
        if step is not Step.EXPIRE:
            known.over_since = None
        elif known.over_since is None:
            known.over_since = self._clock.monotonic()
        if step is Step.NOTHING or (step is Step.EXPIRE and not self._sure(known)):
            return
        try:
            await self._do(known.volume, step)
            known.problem = ""
        except ClusterError as error:
            known.problem = str(error)
            _log.warning("volumes.not_written", volume=known.volume.name, step=step.value, problem=str(error))

    def _sure(self, known: _Known) -> bool:
        return known.over_since is not None and self._clock.monotonic() - known.over_since >= _SURE_S

    async def _do(self, volume: KeptVolume, step: Step) -> None:
        """Read the volume again, then do the step: an operator may have restored the volume a moment ago."""
        obj = await self._cluster.get(PERSISTENT_VOLUME, volume.name)
        newest = _read(obj) if obj is not None else None
        if obj is None or newest is None or next_step(newest, now=self._clock.now()) is not step:
            return
        await self.write(let_go(obj) if step is Step.LET_GO else expired(obj))
        _log.info("volumes.step", volume=volume.name, lease=str(volume.lease), step=step.value)

    async def _rest(self) -> None:
        """Wait until a volume changes or a step is due. Without volumes no step can become due."""
        await wait_for_event(self._changed, clock=self._clock, seconds=self._pause() if self._known else None)

    def _pause(self) -> float:
        if any(known.problem or known.over_since is not None for known in self._known.values()):
            return _AGAIN_S
        waiting = [known.volume.until for known in self._known.values() if not known.volume.going]
        return min(max(min(waiting, default=math.inf) - self._clock.now(), 1.0), _LONGEST_S)

    async def _asked(self, namespace: str) -> dict[str, int]:
        """The bytes that each claim asked for, by the name of its volume; a storage may give more."""
        claims = await self._cluster.list(PERSISTENT_VOLUME_CLAIM, namespace=namespace)
        return {
            str((claim.get("spec") or {}).get("volumeName", "")): asked for claim in claims if (asked := _size(claim))
        }


def _to_keep(obj: dict[str, Any], lease: LeaseId, namespace: str) -> bool:
    """Whether a claim of this namespace holds or held the volume, or the volume was to be restored into it."""
    known, reference = _read(obj), (obj.get("spec") or {}).get("claimRef") or {}
    if not claimed_from(obj, namespace) or obj["metadata"].get("deletionTimestamp"):
        return False
    if known is None:
        return bool(reference.get("uid"))
    return known.lease != lease or known.into is not None or (known.bound and known.going)


def _read(obj: dict[str, Any]) -> KeptVolume | None:
    """The kept volume in `obj`. A volume that cannot be read is ignored: it is not deleted and prevents nothing."""
    try:
        return read_kept(obj)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        _log.warning("volumes.malformed", name=str((obj.get("metadata") or {}).get("name")), problem=repr(error))
        return None


def _size(claim: dict[str, Any]) -> int:
    requests = ((claim.get("spec") or {}).get("resources") or {}).get("requests") or {}
    try:
        return int(parse_quantity(requests.get("storage", 0)))
    except ValueError:
        return 0
