"""The decision which lease may use a hostname (kubernetes-objects.md §6). The ProviderHost objects are the claims.

The decision is pure. A lease keeps a hostname until it gives it back or the hostname is moved. Meanwhile the hostname
is *withheld* from other leases of the same owner and refused to other owners. The oseq and the provider do not count:
an order that is won again keeps its hostnames.

The provider's own names are refused to every tenant: its public hostname, and its ingress domain with all names below.
A lease's automatic names are below that domain, so only that lease can claim them, from its first block on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lease.go_quote import go_quote
from lease.hostnames import covers, is_wildcard, overlapping, route_name
from lease.ids import GroupId, LeaseId, auto_hostname
from lease.manifest import Group
from lease.spec import HostnameSpec
from provider.claims.foreign_routes import NO_ROUTES, ForeignRoutes
from provider.claims.moves import NO_MOVE, Move, read_move
from provider.claims.released import NOTHING_RELEASED, Release, cooling_text
from provider.errors import ProviderError
from provider.kube.labels import lease_of, managed_labels
from provider.protocols.cluster import PROVIDER_HOST
from provider.settings import Settings

__all__ = [
    "HostnameClaim",
    "HostnameRefusedError",
    "HostnameRules",
    "automatic_names",
    "check_hostnames",
    "check_transfer",
    "host_claims",
    "host_object",
    "hostname_rules",
    "other_owner",
    "withheld_from",
]


class HostnameRefusedError(ProviderError):
    """A hostname may not be used: blocked here, or held by another owner. The texts are the Go provider's."""


@dataclass(frozen=True, slots=True)
class HostnameClaim:
    """One ProviderHost: `hostname` lower-cased, its holder, the service and port its requests go to, and its
    migrations.
    """

    hostname: str
    lease: LeaseId
    service: str
    external_port: int
    move: Move = NO_MOVE

    @property
    def holder(self) -> GroupId:
        return self.lease.group


@dataclass(frozen=True, slots=True)
class HostnameRules:
    """Hostnames that no tenant may claim. `blocked`: the operator's entries, for new claims and old ones. `public` and
    `domain`: the provider's public hostname and ingress domain, which are refused to new claims only: an upgrade takes
    no hostname from a lease that has it. `static`: services get automatic names. `cooldown_s`: how long after a release
    no other owner may take a hostname. `wildcards`: hostnames of the form `*.example.com` may be claimed.
    """

    blocked: Sequence[str] = ()
    public: str = ""
    domain: str = ""
    static: bool = False
    cooldown_s: float = 0.0
    wildcards: bool = False

    @property
    def reserved(self) -> tuple[str, ...]:
        """The provider's own names, in the form of `blocked`."""
        own = (self.public, f".{self.domain}" if self.domain else "")
        return tuple(name for name in own if name)


def hostname_rules(settings: Settings) -> HostnameRules:
    """The rules of this provider's settings."""
    return HostnameRules(
        blocked=settings.blocked_hostnames,
        public=settings.public_hostname.lower(),
        domain=settings.ingress_domain.lower(),
        static=settings.ingress_static_hosts,
        cooldown_s=settings.hostname_cooldown,
        wildcards=settings.wildcard_hostnames,
    )


def automatic_names(lease: LeaseId, group: Group, rules: HostnameRules) -> frozenset[str]:
    """The names below the ingress domain that belong to `lease` alone: one for each HTTP service."""
    if not rules.static:
        return frozenset()
    http = [service.name for service in group.services or () if any(e.is_ingress for e in service.expose or ())]
    return frozenset(auto_hostname(lease, name, rules.domain).lower() for name in http)


def host_claims(objects: Iterable[Mapping[str, Any]]) -> dict[str, HostnameClaim]:
    """The claims by hostname; an object without a complete lease id claims nothing (the Go provider skips it too)."""
    claims = {}
    for obj in objects:
        spec, lease = obj.get("spec") or {}, lease_of(obj)
        hostname = str(spec.get("hostname") or obj["metadata"]["name"]).lower()
        if lease is not None:
            service, port = str(spec.get("service_name", "")), spec.get("external_port")
            port = port if isinstance(port, int) else 0
            claims[hostname] = HostnameClaim(hostname, lease, service, port, read_move(obj))
    return claims


def check_hostnames(
    hostnames: Iterable[str],
    owner: str,
    *,
    claims: Mapping[str, HostnameClaim],
    rules: HostnameRules,
    automatic: Collection[str] = (),
    routes: ForeignRoutes = NO_ROUTES,
    releases: Mapping[str, Release] = NOTHING_RELEASED,
) -> None:
    """Raises `HostnameRefusedError` for the first name that is blocked, reserved, served by a route of somebody else in
    the cluster, held by another owner, or released by one lately; claims nothing. `automatic`: the lease's automatic
    names, which are not reserved from it.
    """
    for hostname in map(str.lower, hostnames):
        claim = claims.get(hostname)
        problem = _blocked(hostname, rules.blocked)
        if not problem and claim is None:
            problem = _reserved(hostname, rules, automatic) or _served(hostname, routes, automatic)
            problem = problem or cooling_text(hostname, owner, releases)
        if not problem and other_owner(hostname, owner, claims) is not None:
            problem = f"host {go_quote(hostname)} in use"
        if problem:
            raise HostnameRefusedError(f"hostname not allowed: {problem}")


def other_owner(hostname: str, owner: str, claims: Mapping[str, HostnameClaim]) -> HostnameClaim | None:
    """The claim of another owner that keeps the hostname from `owner`: on the hostname itself; when nobody has that, on
    a wildcard above it or on a name below it. Who comes first keeps what is claimed; one owner may have both.
    """
    claim = claims.get(hostname)
    found = (claim,) if claim is not None else (claims[name] for name in overlapping(hostname, claims))
    return next((one for one in found if one.lease.owner != owner), None)


def withheld_from(
    lease: LeaseId,
    hostnames: Iterable[str],
    *,
    claims: Mapping[str, HostnameClaim],
    rules: HostnameRules = HostnameRules(),
    automatic: Collection[str] = (),
    routes: ForeignRoutes = NO_ROUTES,
    releases: Mapping[str, Release] = NOTHING_RELEASED,
) -> frozenset[str]:
    """The hostnames that `lease` asks for and does not get, although its other hostnames are served: listed ones that
    another deployment or group of the same owner keeps, and automatic ones that any other group holds or a foreign
    route serves. Claims nothing. Raises as `check_hostnames`, for listed hostnames only: a tenant cannot choose its
    automatic names.
    """
    wanted = {hostname.lower() for hostname in hostnames}
    listed = sorted(wanted - set(automatic))
    check_hostnames(listed, lease.owner, claims=claims, rules=rules, routes=routes, releases=releases)
    held = {host for host in wanted | set(automatic) if host in claims and claims[host].holder != lease.group}
    return frozenset(held | {host for host in automatic if host not in claims and routes.serve(host)})


def check_transfer(hostnames: Iterable[str], lease: LeaseId, *, claims: Mapping[str, HostnameClaim]) -> None:
    """Check that hostnames may move to `lease`: unclaimed ones may. Raises `HostnameRefusedError` for a hostname of
    another owner.
    """
    for hostname in map(str.lower, hostnames):
        if (claim := claims.get(hostname)) is not None and claim.lease.owner != lease.owner:
            raise HostnameRefusedError(f"host {go_quote(hostname)} in use")


def host_object(
    lease: LeaseId, host: HostnameSpec | HostnameClaim, *, namespace: str, move: Move = NO_MOVE
) -> dict[str, Any]:
    """The ProviderHost to apply; dseq is an integer here. It has no timestamp, so the same claim again changes
    nothing.
    """
    name = route_name(host.hostname.lower())
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "labels": managed_labels(lease)}
    if move.annotations:
        meta["annotations"] = move.annotations
    return {
        "apiVersion": PROVIDER_HOST.api_version,
        "kind": PROVIDER_HOST.kind,
        "metadata": meta,
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


def _reserved(hostname: str, rules: HostnameRules, automatic: Collection[str]) -> str:
    if hostname in automatic:
        return ""
    if "*" in hostname and not (rules.wildcards and is_wildcard(hostname)):
        return f"{go_quote(hostname)} is a wildcard, which this provider does not serve"
    if "." not in hostname:
        return f"{go_quote(hostname)} has one label only, which no public DNS serves"
    return _blocked(hostname, rules.reserved)


def _served(hostname: str, routes: ForeignRoutes, automatic: Collection[str]) -> str:
    """A wildcard of the operator's often covers the ingress domain, so it takes no automatic name."""
    found = routes.serve(hostname) if hostname in automatic else routes.cover(hostname)
    return f"host {go_quote(hostname)} in use" if found else ""


def _blocked(hostname: str, blocked: Sequence[str]) -> str:
    """Why `hostname` is blocked, empty when it is not. A plain entry blocks that hostname; an entry with a leading dot
    blocks the bare domain and everything under it. Both block a wildcard that covers them.
    """
    for entry in map(str.lower, blocked):
        if entry.startswith(".") and (hostname == entry[1:] or hostname.endswith(entry)):
            return f"domain {go_quote(hostname)} is blocked by this provider"
        if hostname == entry or covers(hostname, entry.removeprefix(".")):
            return f"{go_quote(hostname)} is blocked by this provider"
    return ""
