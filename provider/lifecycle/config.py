"""The configuration of the lease loop, read once at the start."""

from __future__ import annotations

from dataclasses import dataclass

from policies.book import RuleBook
from provider.claims.hostnames import HostnameRules
from provider.units import AddressRange

__all__ = ["LifecycleConfig"]


@dataclass(frozen=True, slots=True)
class LifecycleConfig:
    """`records`: namespace of Manifests, claims and applied Secrets. Times in seconds.

    `preview_updates`: run a preview before every update of a running lease, for the record. `chain_id` empty: that of
    the first answer. `resync_s`: how often every lease is checked without an event. `repair_drift`: undo what was
    changed by hand, else only report it. `gateway_api`: HTTPRoutes exist in this cluster. `unstable_after_s`: how long
    a tenant's application may be seen not to run before its lease is closed, 0 for no limit (kubernetes-objects.md
    §4.4). `manifest_timeout_s`: how long a lease may wait for its first manifest before it is given up, 0 for no limit.
    `brake_leases` and `brake_percent`: how many that one node alone calls closed may go within `brake_window_s`.
    `volume_quarantine_s`: how long the volumes of a lease are kept after its end, 0 for not at all. `policies`:
    the rules that judge what is new to a lease. `routes_overlap`: the edge takes two routes of one hostname, so that a
    migration leaves no gap.
    `ip_pools`: the operator's pools whose addresses are leased too. `ignored_options`: names of the HTTP options that
    the edge does not apply.
    """

    provider: str
    chain_id: str = ""
    records: str = "lease"
    metallb_namespace: str = "metallb-system"
    hostnames: HostnameRules = HostnameRules()  # noqa: RUF009 (frozen)
    ip_ranges: tuple[AddressRange, ...] = ()
    ip_pools: tuple[str, ...] = ()
    confirmations: int = 2
    concurrency: int = 8
    preview_updates: bool = False
    resync_s: float = 300.0
    repair_drift: bool = True
    gateway_api: bool = False
    unstable_after_s: float = 0.0
    manifest_timeout_s: float = 0.0
    brake_leases: int = 10
    brake_percent: float = 100.0
    brake_window_s: float = 3600.0
    volume_quarantine_s: float = 0.0
    policies: RuleBook = RuleBook()  # noqa: RUF009 (frozen)
    routes_overlap: bool = False
    ignored_options: frozenset[str] = frozenset()
