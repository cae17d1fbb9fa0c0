"""The state of every hostname claim: the lease, service and port that it leads to, from the claim and the lease's
manifest (operators.md §4.2, §4.4).

The operator writes no tenant's object: a lease's stack makes its routes (docs/architecture.md §5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from lease.ids import LeaseId, namespace_name
from lease.manifest import Expose, Group
from provider.claims.hostnames import HostnameClaim, host_claims
from provider.errors import ProviderError
from provider.operators.ignore_list import IgnoreList, go_time, lease_document
from provider.protocols import Clock
from provider.protocols.cluster import WatchEvent
from provider.records.manifests import BadRecordError, read_manifest

__all__ = ["HostnameState", "ManagedHostname", "ResourceNotFoundError", "exposed"]

_ZERO = "0001-01-01 00:00:00 +0000 UTC"
_log = structlog.get_logger(__name__)


class ResourceNotFoundError(ProviderError):
    """The manifest of a lease, or a service or port in it, that a claim names does not exist."""


@dataclass(frozen=True, slots=True)
class ManagedHostname:
    """A claim whose service and port the manifest has."""

    claim: HostnameClaim
    expose: Expose
    updated_at: float

    def document(self) -> dict[str, Any]:
        lease = self.claim.lease
        return {
            "LeaseID": lease_document(lease),
            "Namespace": namespace_name(lease),
            "ExternalPort": self.claim.external_port,
            "ServiceName": self.claim.service,
            "LastUpdate": go_time(self.updated_at) if self.updated_at else _ZERO,
        }


def exposed(group: Group, claim: HostnameClaim) -> Expose:
    """The first global expose of the claim's service on its port. Raises `ResourceNotFoundError`."""
    services = (service for service in group.services or () if service.name == claim.service and service.count > 0)
    service = next(services, None)
    if service is None:
        raise ResourceNotFoundError(f"resource not found: service {claim.service}")
    for expose in service.expose or ():
        if expose.global_ and expose.effective_port == claim.external_port:
            return expose
    raise ResourceNotFoundError(f"resource not found: service expose {claim.service}:{claim.external_port}")


@dataclass(slots=True)
class HostnameState:
    """`managed`: by hostname. `changed` is called after each change that a reader of the state can notice.

    A claim whose manifest does not exist is tried again when the manifest appears or changes, until its lease is
    flagged; the end of a claim is always taken in.
    """

    clock: Clock
    ignored: IgnoreList
    changed: Callable[[], None] = field(default=lambda: None)
    managed: dict[str, ManagedHostname] = field(default_factory=dict)
    claims: dict[str, HostnameClaim] = field(default_factory=dict)
    _groups: dict[LeaseId, Group] = field(default_factory=dict)

    def take_manifest(self, event: WatchEvent) -> None:
        """A Manifest was made, changed or deleted."""
        try:
            record = read_manifest(event.object)
        except BadRecordError as error:
            _log.warning("hostname.manifest_unreadable", problem=str(error))
            return
        if event.type == "DELETED":
            self._groups.pop(record.lease, None)
            return
        self._groups[record.lease] = record.group
        self._connect(claim for claim in list(self.claims.values()) if claim.lease == record.lease)

    def take_claim(self, event: WatchEvent) -> None:
        """A ProviderHost was made, changed or deleted. An object without a complete lease id claims nothing."""
        for claim in host_claims([event.object]).values():
            if event.type == "DELETED":
                self.claims.pop(claim.hostname, None)
                if self.managed.pop(claim.hostname, None) is not None:
                    self.changed()
            elif self.claims.get(claim.hostname) != claim or claim.hostname not in self.managed:
                self.claims[claim.hostname] = claim
                self._connect([claim])

    def _connect(self, claims: Iterable[HostnameClaim]) -> None:
        for claim in claims:
            if self.ignored.is_flagged(claim.lease):
                continue
            try:
                self._connect_one(claim)
            except ResourceNotFoundError as error:
                self.ignored.add_error(claim.lease, error, [claim.hostname])
                self.changed()

    def _connect_one(self, claim: HostnameClaim) -> None:
        group = self._groups.get(claim.lease)
        if group is None:
            raise ResourceNotFoundError(f"resource not found: manifest {namespace_name(claim.lease)}")
        expose, before = exposed(group, claim), self.managed.get(claim.hostname)
        self.ignored.succeeded(claim.lease)
        if before is None or (before.claim, before.expose) != (claim, expose):
            self.managed[claim.hostname] = ManagedHostname(claim, expose, self.clock.now())
            self.changed()

    def document(self) -> Mapping[str, Any]:
        """`/managed-hostnames`."""
        return {hostname: self.managed[hostname].document() for hostname in sorted(self.managed)}
