"""The migration of a claim from one lease to another lease of the same owner, as annotations of the claim's object.

The spec of a claim names its holder. The sequence number rises with each change of the holder, and `claim.from` names
the lease that served the claim before, until the migration has ended. The annotations are all that is known of a
migration: a restart goes on with it, and a second migration in the other direction reverses it (field problem J2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lease.hostnames import route_name
from lease.ids import LeaseId, parse_lease_id
from provider.errors import Conflict
from provider.protocols import Cluster
from provider.protocols.cluster import Kind

__all__ = ["NO_MOVE", "SEQUENCE", "SOURCE", "Move", "PendingMove", "end_move", "next_move", "read_move"]

SEQUENCE = "akash.network/claim.sequence"
SOURCE = "akash.network/claim.from"


@dataclass(frozen=True, slots=True)
class Move:
    """`sequence`: 1 for the first holder of a claim. `source`: the lease that serves the claim until its new holder
    does; None when no migration is going on.
    """

    sequence: int = 1
    source: LeaseId | None = None

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the claim's object; none for a claim that was never migrated."""
        sequence = {SEQUENCE: str(self.sequence)} if self.sequence > 1 else {}
        return sequence | ({SOURCE: str(self.source)} if self.source is not None else {})

    def is_from(self, lease: LeaseId) -> bool:
        """Whether the claim is leaving `lease`; the oseq does not count."""
        return self.source is not None and self.source.group == lease.group

    def arrives_at(self, lease: LeaseId) -> bool:
        """Whether `lease`, the holder, does not serve the claim yet."""
        return self.source is not None and self.source.group != lease.group


NO_MOVE = Move()


@dataclass(frozen=True, slots=True)
class PendingMove:
    """A migration that goes on, of one claim, to (`arriving`) or from the lease that is checked. `name`: the hostname,
    or the name of the ProviderLeasedIP.
    """

    kind: Kind
    name: str
    sequence: int
    arriving: bool


def read_move(obj: Mapping[str, Any]) -> Move:
    """The migration in the annotations of a claim. What cannot be read counts as no migration."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    sequence = str(annotations.get(SEQUENCE, ""))
    try:
        source = parse_lease_id(str(annotations[SOURCE])) if SOURCE in annotations else None
    except ValueError:
        source = None
    return Move(int(sequence) if sequence.isascii() and sequence.isdigit() and len(sequence) < 19 else 1, source)


def next_move(before: Move, *, holder: LeaseId, destination: LeaseId, overlap: bool) -> Move:
    """The migration from `holder` to `destination`. `overlap`: the edge takes two routes of one hostname.

    The source of a migration that has not ended stays the source: the lease in between may serve nothing yet. On the
    way back to that source nothing is waited for with `overlap`, since the source still serves; without, the lease in
    between must give the claim up first.
    """
    source: LeaseId | None = before.source or holder
    if before.source is not None and before.source.group == destination.group:
        source = None if overlap else holder
    return Move(before.sequence + 1, source)


async def end_move(cluster: Cluster, move: PendingMove, *, namespace: str) -> None:
    """Remove `claim.from`, if the claim still has this sequence number. Raises `ClusterError`."""
    name = route_name(move.name)
    obj = await cluster.get(move.kind, name, namespace=namespace)
    if obj is None or read_move(obj).sequence != move.sequence or read_move(obj).source is None:
        return
    version = obj["metadata"]["resourceVersion"]
    changes = {"metadata": {"annotations": {SOURCE: None}, "resourceVersion": version}}
    try:
        await cluster.patch(move.kind, name, changes, namespace=namespace)
    except Conflict:
        return  # a watch reports what has changed, and the next check decides again
