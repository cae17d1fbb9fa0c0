"""What the lease loop is told once, at start."""

from __future__ import annotations

from dataclasses import dataclass

from provider.units import AddressRange

__all__ = ["LifecycleConfig"]


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    """`records`: namespace of Manifests, claims and applied Secrets. Times in seconds.

    `preview_updates`: run a preview before every update of a running lease, for the record. `chain_id` empty: that of
    the first answer. `resync_s`: how often everything is looked at without an event.
    """

    provider: str
    chain_id: str = ""
    records: str = "lease"
    metallb_namespace: str = "metallb-system"
    blocked_hostnames: tuple[str, ...] = ()
    ip_ranges: tuple[AddressRange, ...] = ()
    confirmations: int = 2
    concurrency: int = 8
    preview_updates: bool = False
    resync_s: float = 300.0
