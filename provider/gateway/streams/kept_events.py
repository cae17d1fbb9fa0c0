"""What happened in each lease, for a week: the API server forgets an event after an hour (field problem K7).

Events are kept as the watch reported them, and the ends of containers, of which Kubernetes makes no event. The record
is bounded, and a file in the home keeps it over a restart. It holds what a tenant may read of its own lease anyway.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from provider.protocols import Cluster
from provider.protocols.cluster import EVENT, NAMESPACE, Kind, WatchEvent

__all__ = ["EVENTS_FILE", "KeptEvents", "follow_events"]

EVENTS_FILE = "lease-events.jsonl"
"""The file in the home, written by the process that serves tenants."""

_KEPT_S = 7 * 86400.0
_OF_LEASE, _OF_ALL = 200, 20_000
_NAMESPACE_LENGTH = 45
"""Namespaces of leases have names of this length; those of the cluster's own programs have shorter ones."""
_LONGEST = 2000
_log = structlog.get_logger("gateway")


@dataclass(frozen=True, slots=True)
class _Kept:
    at: float
    event: Mapping[str, Any]


class KeptEvents:
    """`now`: Unix seconds. A `file` that cannot be read or written costs the record of before, and nothing else."""

    def __init__(self, file: Path | None, now: Callable[[], float]) -> None:
        self._file = file
        self._now = now
        self._leases: dict[str, dict[str, _Kept]] = {}
        self._count = 0
        self._lines = 0
        for line in _lines(file):
            self._load(line)
        self._rewrite()

    def of(self, namespace: str) -> list[Mapping[str, Any]]:
        """The events of a lease's namespace that are no older than a week, the oldest first."""
        since = self._now() - _KEPT_S
        kept = sorted(self._leases.get(namespace, {}).values(), key=lambda each: each.at)
        return [each.event for each in kept if each.at >= since]

    def note(self, kind: Kind, event: WatchEvent) -> None:
        """Take a report of a watch. A namespace that is deleted is forgotten; an event that is deleted is kept."""
        meta = event.object["metadata"]
        if kind is NAMESPACE and event.type == "DELETED":
            self._forget(str(meta["name"]))
        elif event.type == "DELETED" or len(str(meta.get("namespace", ""))) != _NAMESPACE_LENGTH:
            return
        elif kind is EVENT:
            self._keep(str(meta["namespace"]), str(meta["name"]), _slim(event.object), _time(event.object))
        elif event.object.get("kind") == "Pod":
            for name, ended, at in _ends(event.object):
                self._keep(str(meta["namespace"]), name, ended, at)

    def mark(self, kind: Kind, current: bool) -> None:
        """An observer of watches; whether they are current does not matter here."""

    def _keep(self, namespace: str, name: str, event: Mapping[str, Any], at: float) -> None:
        before = self._leases.get(namespace, {}).get(name)
        if before is not None and before.event == event:
            return
        row = {"namespace": namespace, "name": name, "at": at, "event": event}
        self._put(row)
        self._append(row)

    def _put(self, row: Mapping[str, Any]) -> None:
        lease = self._leases.setdefault(row["namespace"], {})
        self._count -= lease.pop(row["name"], None) is not None
        while len(lease) >= _OF_LEASE:
            del lease[next(iter(lease))]
            self._count -= 1
        lease[row["name"]] = _Kept(row["at"], row["event"])
        self._count += 1
        while self._count > _OF_ALL:
            largest = max(self._leases.values(), key=len)
            del largest[next(iter(largest))]
            self._count -= 1

    def _forget(self, namespace: str) -> None:
        if (gone := self._leases.pop(namespace, None)) is not None:
            self._count -= len(gone)
            self._rewrite()

    def _load(self, line: bytes) -> None:
        with suppress(ValueError, KeyError, TypeError):
            row = json.loads(line)
            if float(row["at"]) >= self._now() - _KEPT_S and isinstance(row["event"], dict):
                self._put({"namespace": str(row["namespace"]), "name": str(row["name"]), **row})

    def _append(self, row: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        if self._lines > 2 * self._count + _OF_LEASE:
            self._rewrite()
            return
        self._write(lambda file: file.open("ab"), [row])

    def _rewrite(self) -> None:
        """Write the file anew, without what is no longer kept."""
        if self._file is None:
            return
        rows = [
            {"namespace": space, "name": name, "at": kept.at, "event": kept.event}
            for space, lease in self._leases.items()
            for name, kept in lease.items()
        ]
        self._lines = 0
        aside = self._file.with_suffix(".new")
        if self._write(lambda _: aside.open("wb"), rows):
            with suppress(OSError):
                aside.replace(self._file)

    def _write(self, opened: Callable[[Path], Any], rows: list[Any]) -> bool:
        assert self._file is not None  # noqa: S101
        try:
            with opened(self._file) as file:
                os.fchmod(file.fileno(), 0o600)
                for row in rows:
                    file.write(json.dumps(row, separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            _log.warning("gateway.events_not_kept", file=str(self._file), problem=error.strerror)
            self._file = None
            return False
        self._lines += len(rows)
        return True


async def follow_events(cluster: Cluster, kept: KeptEvents) -> None:
    """Watch the events of all namespaces, for ever."""
    async for event in cluster.watch(EVENT):
        try:
            kept.note(EVENT, event)
        except (KeyError, TypeError, ValueError, AttributeError):
            _log.exception("gateway.object_unreadable", kind=EVENT.kind)
        await asyncio.sleep(0)


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None or not file.exists():
        return
    try:
        with file.open("rb") as opened:
            yield from opened
    except OSError as error:
        _log.warning("gateway.events_unreadable", file=str(file), problem=error.strerror)


def _slim(event: Mapping[str, Any]) -> dict[str, Any]:
    """What a stream shows of an event (`lease_events.event_json`), and its count."""
    parts = ("type", "reportingController", "reportingInstance", "reason")
    regarding = event.get("regarding") or {}
    count = (event.get("series") or {}).get("count") or event.get("deprecatedCount") or 1
    return {
        **{part: event[part] for part in parts if event.get(part)},
        "note": str(event.get("note") or "")[:_LONGEST],
        "regarding": {part: regarding[part] for part in ("kind", "namespace", "name") if regarding.get(part)},
        "count": count,
    }


def _time(event: Mapping[str, Any]) -> float:
    """When it happened last, Unix seconds."""
    series = event.get("series") or {}
    texts = (series.get("lastObservedTime"), event.get("eventTime"), event.get("deprecatedLastTimestamp"))
    text = next((each for each in texts if each), event["metadata"].get("creationTimestamp"))
    return _seconds(text)


def _seconds(text: object) -> float:
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()


def _ends(pod: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], float]]:
    """For each container that ended and was started again: the name, an event, and the time."""
    meta = pod["metadata"]
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("lastState") or {}).get("terminated")
        if not ended or not ended.get("finishedAt"):
            continue
        name, code, count = status["name"], ended.get("exitCode", 0), status.get("restartCount", 0)
        note = f"container {name} ended with exit code {code} and was started again; restarts so far: {count}"
        event = {
            "type": "Warning" if code else "Normal",
            "reason": ended.get("reason") or "Ended",
            "note": note,
            "regarding": {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"]},
            "count": count,
        }
        yield f"{meta['name']}/{name}", event, _seconds(ended["finishedAt"])
