"""The decision which lease may use a hostname (kubernetes-objects.md §6). The ProviderHost objects are the claims.

The decision is pure. A lease keeps a hostname until it gives it back or the hostname is moved. Meanwhile the hostname
is *withheld* from other leases of the same owner and refused to other owners. The oseq and the provider do not count:
an order that is won again keeps its hostnames.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lease.ids import GroupId, LeaseId
from lease.spec import HostnameSpec
from provider.errors import ProviderError
from provider.kube.labels import lease_of, managed_labels
from provider.protocols.cluster import PROVIDER_HOST

__all__ = [
    "HostnameClaim",
    "HostnameRefusedError",
    "check_hostnames",
    "check_transfer",
    "host_claims",
    "host_object",
    "withheld_from",
]


class HostnameRefusedError(ProviderError):
    """A hostname may not be used: blocked here, or held by another owner. The texts are the Go provider's."""


@dataclass(frozen=True, slots=True)
class HostnameClaim:
    """One ProviderHost: `hostname` lower-cased, its holder, and the service and port its requests go to."""

    hostname: str
    lease: LeaseId
    service: str
    external_port: int

    @property
    def holder(self) -> GroupId:
        return self.lease.group


def host_claims(objects: Iterable[Mapping[str, Any]]) -> dict[str, HostnameClaim]:
    """The claims by hostname; an object without a complete lease id claims nothing (the Go provider skips it too)."""
    claims = {}
    for obj in objects:
        spec, lease = obj.get("spec") or {}, lease_of(obj)
        hostname = str(spec.get("hostname") or obj["metadata"]["name"]).lower()
        if lease is not None:
            claims[hostname] = HostnameClaim(
                hostname, lease, str(spec.get("service_name", "")), int(spec.get("external_port") or 0)
            )
    return claims


def check_hostnames(
    hostnames: Iterable[str], owner: str, *, claims: Mapping[str, HostnameClaim], blocked: Sequence[str]
) -> None:
    """Raises `HostnameRefusedError` for the first name that is blocked or held by another owner; claims nothing."""
    for hostname in map(str.lower, hostnames):
        problem = _blocked(hostname, blocked)
        if not problem and (claim := claims.get(hostname)) is not None and claim.lease.owner != owner:
            problem = f'host "{hostname}" in use'
        if problem:
            raise HostnameRefusedError(f"hostname not allowed: {problem}")


def withheld_from(
    lease: LeaseId, hostnames: Iterable[str], *, claims: Mapping[str, HostnameClaim], blocked: Sequence[str] = ()
) -> frozenset[str]:
    """The hostnames that another deployment or group of the same owner keeps. Claims nothing. Raises as
    `check_hostnames`.
    """
    wanted = [hostname.lower() for hostname in hostnames]
    check_hostnames(wanted, lease.owner, claims=claims, blocked=blocked)
    return frozenset(host for host in wanted if host in claims and claims[host].holder != lease.group)


def check_transfer(hostnames: Iterable[str], lease: LeaseId, *, claims: Mapping[str, HostnameClaim]) -> None:
    """Check that hostnames may move to `lease`: unclaimed ones may. Raises `HostnameRefusedError` for a hostname of
    another owner.
    """
    for hostname in map(str.lower, hostnames):
        if (claim := claims.get(hostname)) is not None and claim.lease.owner != lease.owner:
            raise HostnameRefusedError(f'host "{hostname}" in use')


def host_object(lease: LeaseId, host: HostnameSpec, *, namespace: str) -> dict[str, Any]:
    """The ProviderHost to apply; dseq is an integer here. It has no timestamp, so the same claim again changes
    nothing.
    """
    return {
        "apiVersion": PROVIDER_HOST.api_version,
        "kind": PROVIDER_HOST.kind,
        "metadata": {"name": host.hostname.lower(), "namespace": namespace, "labels": managed_labels(lease)},
        "spec": {
            "owner": lease.owner,
            "provider": lease.provider,
            "hostname": host.hostname.lower(),
            "dseq": lease.dseq,
            "gseq": lease.gseq,
            "oseq": lease.oseq,
            "service_name": host.service,
            "external_port": host.external_port,
        },
    }


def _blocked(hostname: str, blocked: Sequence[str]) -> str:
    """Why `hostname` is blocked, empty when it is not. A plain entry blocks that hostname; an entry with a leading dot
    blocks the bare domain and everything under it.
    """
    for entry in map(str.lower, blocked):
        if entry.startswith(".") and (hostname == entry[1:] or hostname.endswith(entry)):
            return f'domain "{hostname}" is blocked by this provider'
        if hostname == entry:
            return f'"{hostname}" is blocked by this provider'
    return ""
