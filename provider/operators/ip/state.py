"""The state of leased addresses: the ports of each lease, the use of the ranges, and what the load balancers of a lease
serve (operators.md §3.7, §3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lease.ids import LeaseId, namespace_name
from provider.claims.leased_ips import AddressClaim, address_claims
from provider.operators.ignore_list import go_time, lease_document
from provider.protocols import Clock
from provider.protocols.cluster import WatchEvent

__all__ = ["AddressState", "PendingAddressError", "lease_status"]


class PendingAddressError(Exception):
    """A Service has no address yet."""


@dataclass(slots=True)
class AddressState:
    """`claims`: by name, with the time of their last event. `total`: addresses that can be leased at all."""

    clock: Clock
    changed: Callable[[], None] = field(default=lambda: None)
    total: int = 0
    claims: dict[str, tuple[AddressClaim, float]] = field(default_factory=dict)

    def take_claim(self, event: WatchEvent) -> None:
        """A ProviderLeasedIP was made, changed or deleted. An object that cannot be read claims nothing."""
        name = str(event.object["metadata"]["name"])
        found = address_claims([event.object]).get(name)
        if event.type == "DELETED" or found is None:
            if self.claims.pop(name, None) is not None:
                self.changed()
        elif self.claims.get(name, (None, 0.0))[0] != found:
            self.claims[name] = found, self.clock.now()
            self.changed()

    def set_total(self, total: int) -> None:
        if total != self.total:
            self.total = total
            self.changed()

    @property
    def in_use(self) -> int:
        """Distinct addresses that claims have."""
        return len({claim.address for claim, _ in self.claims.values() if claim.address})

    def usage(self) -> dict[str, int]:
        """`/usage`. `Available` is the total, as the Go provider's clients read it."""
        return {"Available": self.total, "InUse": self.in_use}

    def document(self) -> Mapping[str, Any]:
        """`/state`: the ports of each lease."""
        found: dict[str, list[dict[str, Any]]] = {}
        for name in sorted(self.claims):
            claim, at = self.claims[name]
            found.setdefault(str(claim.lease), []).append(_port(claim, at))
        return found


def _port(claim: AddressClaim, at: float) -> dict[str, Any]:
    return {
        "last-event-time": go_time(at),
        "lease-id": lease_document(claim.lease),
        "namespace": namespace_name(claim.lease),
        "port": claim.port,
        "external-port": claim.external_port,
        "service-name": claim.service,
        "sharing-key": claim.key,
    }


def lease_status(services: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`/ip-lease-status`: one item for each LoadBalancer Service of a lease that has its address.

    A Service without one is left out: in the Go provider one pending address makes the whole answer an error
    (operators.md §9 item 8). Raises `PendingAddressError` when no Service has one.
    """
    found = [item for service in services for item in _served(service)]
    if services and not found:
        raise PendingAddressError("no Service of the lease has an address yet")
    return found


def _served(service: Mapping[str, Any]) -> list[dict[str, Any]]:
    spec, labels = service.get("spec") or {}, (service.get("spec") or {}).get("selector") or {}
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    addresses = [str(item["ip"]) for item in ingress if item.get("ip")]
    return [
        {
            "Port": int(port.get("targetPort") or port["port"]),
            "ExternalPort": int(port["port"]),
            "ServiceName": str(labels.get("akash.network/manifest-service", "")),
            "IP": addresses[0],
            "Protocol": str(port.get("protocol") or "TCP"),
        }
        for port in spec.get("ports") or ()
        if addresses
    ]


def lease_in(values: Mapping[str, str], provider: str) -> LeaseId:
    """The lease in a path. Raises ValueError for a malformed number."""
    numbers = [values[name] for name in ("dseq", "gseq", "oseq")]
    if not all(text.isascii() and text.isdigit() and len(text) <= 20 for text in numbers):
        raise ValueError(f"no lease: {'/'.join(numbers)[:80]}")
    dseq, gseq, oseq = map(int, numbers)
    return LeaseId(values["owner"], dseq, gseq, oseq, provider)
