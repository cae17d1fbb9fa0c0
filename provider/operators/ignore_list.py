"""Leases whose events an operator ignores, since too many of them have failed (operators.md §1.5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from akash.lessor.v1 import operator_pb2

from lease.ids import LeaseId, namespace_name
from provider.protocols import Clock

__all__ = ["IgnoreLimits", "IgnoreList", "go_time", "lease_document"]


@dataclass(frozen=True, slots=True)
class IgnoreLimits:
    """`failures`: so many errors flag a lease. `entries` and `age_s`: beyond so many entries the older ones go."""

    failures: int = 3
    entries: int = 131_072
    age_s: float = 2_613_600.0


@dataclass(slots=True)
class _Entry:
    count: int = 0
    failed_at: float = 0.0
    error: str = ""
    kind: str = ""
    extras: set[str] = field(default_factory=set)


class IgnoreList:
    """Errors by lease. Add and update events of a flagged lease are dropped; delete events never are.

    `succeeded` drops an entry: the Go provider's entries never expire by success (operators.md §9 item 10).
    """

    def __init__(self, limits: IgnoreLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._entries: dict[LeaseId, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def add_error(self, lease: LeaseId, error: Exception, extras: Iterable[str] = ()) -> None:
        entry = self._entries.setdefault(lease, _Entry())
        entry.count += 1
        entry.failed_at, entry.error, entry.kind = self._clock.now(), str(error), type(error).__name__
        entry.extras |= set(extras)

    def is_flagged(self, lease: LeaseId) -> bool:
        entry = self._entries.get(lease)
        return entry is not None and entry.count >= self._limits.failures

    def succeeded(self, lease: LeaseId) -> bool:
        """Forget the errors of a lease. Returns whether there were any."""
        return self._entries.pop(lease, None) is not None

    def prune(self) -> bool:
        """Drop entries that are too old or too many. Returns whether any was dropped. Age counts below the limit of
        entries too (operators.md §9 item 10).
        """
        before, oldest = len(self._entries), self._clock.now() - self._limits.age_s
        self._entries = {lease: entry for lease, entry in self._entries.items() if entry.failed_at >= oldest}
        by_age = sorted(self._entries, key=lambda lease: self._entries[lease].failed_at)
        for lease in by_age[: max(0, len(by_age) - self._limits.entries)]:
            del self._entries[lease]
        return len(self._entries) < before

    def message(self) -> operator_pb2.IgnoredLeases:
        """For gRPC."""
        leases = [
            operator_pb2.IgnoredLease(
                lease=str(lease),
                failures=entry.count,
                error=entry.error,
                names=sorted(entry.extras),
                failed_at=entry.failed_at,
            )
            for lease, entry in self._entries.items()
        ]
        return operator_pb2.IgnoredLeases(leases=leases)

    def document(self) -> dict[str, dict[str, Any]]:
        """By lease id text."""
        return {
            str(lease): {
                "hostnames": sorted(entry.extras) or None,
                "last-error": entry.error,
                "last-error-type": entry.kind,
                "failed-at": go_time(entry.failed_at),
                "failure-count": entry.count,
                "namespace": namespace_name(lease),
            }
            for lease, entry in self._entries.items()
        }


def go_time(seconds: float) -> str:
    """A time in the form of Go's `Time.String`, UTC: `2024-01-02 03:04:05.000006 +0000 UTC`."""
    moment = datetime.fromtimestamp(seconds, UTC)
    fraction = f".{moment.microsecond:06}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"


def lease_document(lease: LeaseId) -> dict[str, Any]:
    """A lease id in HTTP bodies (operators.md §1.1)."""
    return {
        "owner": lease.owner,
        "dseq": lease.dseq,
        "gseq": lease.gseq,
        "oseq": lease.oseq,
        "provider": lease.provider,
        "bseq": 0,
    }
