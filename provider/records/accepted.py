"""What is announced of an accepted manifest for the history: its hashes and sizes, never its contents."""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import LeaseId
from provider.protocols.bus import Topic

__all__ = ["MANIFEST_STORED", "AcceptedManifest"]


@dataclass(frozen=True, slots=True)
class AcceptedManifest:
    """`version`: the hash of the whole manifest, which the chain has, as hex. `manifest_hash`: of the lease's group, as
    runs name it. `size`: bytes of the manifest as it was sent; `services`: of the lease's group. `at`: Unix seconds.
    """

    lease: LeaseId
    at: float
    version: str
    manifest_hash: str
    size: int
    services: int


MANIFEST_STORED: Topic[AcceptedManifest] = Topic("manifest.stored")
"""A manifest was accepted and is in the cluster."""
