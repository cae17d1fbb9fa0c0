"""What is kept of a lease beside its runs, as text and as JSON: accepted manifests, hostnames and addresses, states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provider.cli.output import table_lines, utc_time
from provider.store import Database
from provider.store.claims import StoredClaim, claims_of
from provider.store.leases import StoredState, states_of
from provider.store.manifests import StoredManifest, manifests_of

__all__ = ["LeaseRecords", "claim_text", "lease_records", "manifest_text", "records_json", "records_lines"]

_HASH = 12


@dataclass(frozen=True, slots=True)
class LeaseRecords:
    """Each of them newest first."""

    manifests: Sequence[StoredManifest] = ()
    claims: Sequence[StoredClaim] = ()
    states: Sequence[StoredState] = ()


async def lease_records(database: Database, stack: str, *, limit: int) -> LeaseRecords:
    """The newest `limit` records of each kind. Raises `StoreError`."""
    return LeaseRecords(
        await manifests_of(database, stack, limit=limit),
        await claims_of(database, stack, limit=limit),
        await states_of(database, stack, limit=limit),
    )


def records_lines(records: LeaseRecords) -> list[str]:
    """A section for each kind of which something is kept."""
    sections = (
        ("manifests accepted", [(utc_time(one.accepted_at), manifest_text(one)) for one in records.manifests]),
        ("hostnames and addresses", [(utc_time(one.given_at), _until(one), claim_text(one)) for one in records.claims]),
        ("states", [(utc_time(one.at), _state(one)) for one in records.states]),
    )
    return [
        line for name, rows in sections if rows for line in ("", name, *(f"    {each}" for each in table_lines(rows)))
    ]


def manifest_text(one: StoredManifest) -> str:
    more = f"; {one.times} times, last {utc_time(one.last_at)}" if one.times > 1 else ""
    hashes = f"version {one.version[:_HASH]}, manifest {one.manifest_hash[:_HASH]}"
    return f"{hashes}, {one.services} services, {one.size} bytes{more}"


def claim_text(one: StoredClaim) -> str:
    claim = one.claim
    name = f"{claim.name} {claim.port}".strip()
    return f"{claim.kind.value} {name} → {claim.service}" if claim.service else f"{claim.kind.value} {name}"


def records_json(records: LeaseRecords) -> dict[str, Any]:
    return {
        "manifests": [
            {
                "accepted_at": utc_time(one.accepted_at),
                "last_at": utc_time(one.last_at),
                "times": one.times,
                "version": one.version,
                "manifest_hash": one.manifest_hash,
                "bytes": one.size,
                "services": one.services,
            }
            for one in records.manifests
        ],
        "claims": [
            {
                "kind": one.claim.kind.value,
                "name": one.claim.name,
                "port": one.claim.port,
                "service": one.claim.service,
                "given_at": utc_time(one.given_at),
                "released_at": None if one.released_at is None else utc_time(one.released_at),
            }
            for one in records.claims
        ],
        "states": [{"at": utc_time(one.at), "state": one.phase, "reason": one.reason} for one in records.states],
    }


def _until(one: StoredClaim) -> str:
    return "now" if one.released_at is None else utc_time(one.released_at)


def _state(one: StoredState) -> str:
    return " ".join(f"{one.phase}: {one.reason}".split()) if one.reason else one.phase
