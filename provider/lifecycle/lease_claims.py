"""The claims of a lease on hostnames and addresses: taken before its stack runs, given back after it
(docs/architecture.md §5).

Claims are objects in the cluster. One lock guards all decisions about them: two leases never choose the same address,
and a hostname is never given to two leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from lease.addresses import leased_ip_name, pool_name
from lease.ids import LeaseId
from lease.manifest import Group
from lease.spec import LeasedIpSpec, LeaseSpec
from provider.claims.addresses import choose_address, pool_addresses
from provider.claims.foreign_routes import NO_ROUTES, foreign_routes, leaving_hosts
from provider.claims.hostnames import (
    HostnameClaim,
    HostnameRefusedError,
    automatic_names,
    host_claims,
    host_object,
    withheld_from,
)
from provider.claims.leased_ips import AddressClaim, address_claims, leased_ip_object, wanted_addresses
from provider.claims.pools import list_pools, remove_unused_pools
from provider.kube.labels import managed_labels
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.metrics import DEPLOYMENTS
from provider.protocols import Cluster
from provider.protocols.cluster import PROVIDER_HOST, PROVIDER_LEASED_IP, Kind
from provider.units import AddressRange

__all__ = ["ClaimedSpec", "LeaseClaims"]


@asynccontextmanager
async def _counted() -> AsyncIterator[None]:
    try:
        yield
    except HostnameRefusedError:
        DEPLOYMENTS.labels("reserve-hostnames", "err").inc()
        raise
    DEPLOYMENTS.labels("reserve-hostnames", "success").inc()


@dataclass(frozen=True, slots=True)
class ClaimedSpec:
    """A spec of which every hostname and address is claimed for its lease. `withheld`: hostnames that the manifest asks
    for and the spec does not have. `remarks`: a text for each part of the manifest that the spec lacks, for tenant and
    operator. `waits_for`: the names of the claims that hold these parts. `soon`: one of them is being given back.
    """

    spec: LeaseSpec
    withheld: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    waits_for: frozenset[str] = frozenset()
    soon: bool = False


class LeaseClaims:
    """All claims of one provider in one cluster. Raises `ClusterError` throughout."""

    def __init__(self, cluster: Cluster, config: LifecycleConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._one_at_a_time = asyncio.Lock()

    async def take(self, inputs: SpecInputs, specs: SpecMaker) -> ClaimedSpec:
        """Claim what the manifest asks for and make its spec. `withheld` of `inputs`, the hostnames that were withheld
        at the last time, and `addresses` are replaced by what is claimed.

        Raises `HostnameRefusedError`, `AddressesExhaustedError` or `SpecRefused`; then nothing new was claimed.
        """
        lease, group = inputs.record.lease, inputs.record.group
        async with self._one_at_a_time, _counted():
            claims = host_claims(await self._cluster.list(PROVIDER_HOST, namespace=self._config.records))
            withheld = await self._withheld(lease, group, claims)
            free = (inputs.withheld & _wanted_hosts(group)) - withheld.keys()
            leaving = await leaving_hosts(self._cluster, free, lease)
            withheld |= dict.fromkeys(leaving, "the lease that had it is still giving it back")
            wanted = await self._addresses(lease, group)
            mine = [claim for claim in wanted if claim.lease == lease]
            addresses = {claim.key: claim.address for claim in wanted}
            spec = specs.make(replace(inputs, withheld=frozenset(withheld), addresses=addresses))
            spec = _without_foreign(spec, mine)
            _never_overwrite(spec, claims)
            for claim in mine:
                await self._write_address(claim)
            for host in spec.hostnames:
                await self._cluster.apply(host_object(lease, host, namespace=self._config.records))
            foreign = _foreign_ports(lease, group, wanted)
            remarks = [f"hostname {host} is not served: {why}" for host, why in sorted(withheld.items())]
            return ClaimedSpec(
                spec,
                frozenset(withheld),
                (*remarks, *foreign.values()),
                frozenset(withheld) | foreign.keys(),
                soon=bool(leaving),
            )

    async def match(self, spec: LeaseSpec) -> bool:
        """Whether the lease holds exactly the claims of `spec`: no claim was moved, lost or left over."""
        hosts, addresses = await self._held(spec.lease)
        return set(hosts) == _hosts(spec) and addresses == _addresses(spec)

    async def keep_only(self, spec: LeaseSpec) -> None:
        """Give back the claims that a completely applied `spec` does not use, and the pools that no lease uses then."""
        hosts, addresses = await self._held(spec.lease)
        await self._release(PROVIDER_HOST, set(hosts) - _hosts(spec))
        await self._release(PROVIDER_LEASED_IP, set(addresses) - set(_addresses(spec)))
        if set(addresses) - set(_addresses(spec)):
            await self.remove_unused_pools()

    async def release_all(self, lease: LeaseId) -> None:
        """Give back all claims of a lease that ends."""
        hosts, addresses = await self._held(lease)
        await self._release(PROVIDER_HOST, hosts)
        await self._release(PROVIDER_LEASED_IP, addresses)

    async def remove_unused_pools(self) -> tuple[str, ...]:
        """Delete the pools that no claim uses. Returns their names."""
        async with self._one_at_a_time:
            config = self._config
            return await remove_unused_pools(
                self._cluster, claims_namespace=config.records, metallb_namespace=config.metallb_namespace
            )

    async def _withheld(self, lease: LeaseId, group: Group, claims: Mapping[str, HostnameClaim]) -> dict[str, str]:
        """Each withheld hostname and why."""
        rules, automatic = self._config.hostnames, automatic_names(lease, group, self._config.hostnames)
        wanted = _wanted_hosts(group) | automatic
        mine = {host for host, claim in claims.items() if claim.holder == lease.group}
        routes = await foreign_routes(self._cluster) if wanted - mine else NO_ROUTES
        taken = withheld_from(lease, wanted, claims=claims, rules=rules, automatic=automatic, routes=routes)
        return {host: _holder(lease, claims.get(host)) for host in taken}

    async def _addresses(self, lease: LeaseId, group: Group) -> list[AddressClaim]:
        """The wanted claims with their addresses. An endpoint that another lease holds appears as that lease's
        claim.
        """
        wanted = wanted_addresses(lease, group)
        if not wanted:
            return []
        stored = address_claims(await self._cluster.list(PROVIDER_LEASED_IP, namespace=self._config.records))
        pools = await list_pools(self._cluster, namespace=self._config.metallb_namespace)
        known = {claim.key: claim.address for claim in stored.values() if claim.address}
        claims = [stored[claim.name] if _foreign(claim, stored) else claim for claim in wanted]
        for key in sorted({claim.key for claim in claims} - known.keys()):
            own = [pool for pool in pools if pool["metadata"]["name"] == pool_name(key)]
            held = pool_addresses(own)
            known[key] = held[0].at(0) if held else self._choose(key, known, pool_addresses(pools))
        return [claim.at(known[claim.key]) for claim in claims]

    def _choose(self, key: str, known: Mapping[str, str], pools: Sequence[AddressRange]) -> str:
        return choose_address(key, ranges=self._config.ip_ranges, taken=known.values(), pools=pools)

    async def _write_address(self, claim: AddressClaim) -> None:
        """Write the spec, then the status: a claim whose status was lost keeps its key, and its pool keeps its
        address.
        """
        namespace = self._config.records
        await self._cluster.apply(leased_ip_object(claim, namespace=namespace))
        await self._cluster.apply(leased_ip_object(claim, namespace=namespace, status=True), status=True)

    async def _held(self, lease: LeaseId) -> tuple[tuple[str, ...], dict[str, str]]:
        """The names of the lease's ProviderHosts, and the addresses of its ProviderLeasedIPs by name."""
        labels, namespace = managed_labels(lease), self._config.records
        hosts = await self._cluster.list(PROVIDER_HOST, namespace=namespace, labels=labels)
        addresses = await self._cluster.list(PROVIDER_LEASED_IP, namespace=namespace, labels=labels)
        named = {obj["metadata"]["name"]: str((obj.get("status") or {}).get("address") or "") for obj in addresses}
        return tuple(obj["metadata"]["name"] for obj in hosts), named

    async def _release(self, kind: Kind, names: Iterable[str]) -> None:
        for name in names:
            await self._cluster.delete(kind, name, namespace=self._config.records)


def _wanted_hosts(group: Group) -> set[str]:
    exposes = (expose for service in group.services or () for expose in service.expose or () if expose.is_ingress)
    return {host.lower() for expose in exposes for host in expose.hosts or ()}


def _holder(lease: LeaseId, claim: HostnameClaim | AddressClaim | None) -> str:
    """Who has what `lease` does not get; the leases of other owners are not named."""
    if claim is None:
        return "something else in the cluster serves it"
    if claim.lease.owner != lease.owner:
        return "another lease has it"
    return f"lease {claim.lease.dseq}/{claim.lease.gseq}/{claim.lease.oseq} has it"


def _foreign_ports(lease: LeaseId, group: Group, found: Sequence[AddressClaim]) -> dict[str, str]:
    """Claim → a text, for each port of a leased address that another lease of the owner has. `found`: the claims, in
    the order of the wanted ones.
    """
    pairs = zip(wanted_addresses(lease, group), found, strict=False)
    return {
        claim.name: f"port {mine.external_port}/{mine.proto} of service {mine.service} has no address: "
        f"{_holder(lease, claim)} on the same IP endpoint"
        for mine, claim in pairs
        if claim.lease != lease
    }


def _foreign(claim: AddressClaim, stored: Mapping[str, AddressClaim]) -> bool:
    return claim.name in stored and stored[claim.name].lease != claim.lease


def _never_overwrite(spec: LeaseSpec, claims: Mapping[str, HostnameClaim]) -> None:
    """The last check before claims are written, whatever gave the spec its hostnames. Raises `HostnameRefusedError`."""
    for hostname in sorted(_hosts(spec)):
        if hostname in claims and claims[hostname].holder != spec.lease.group:
            raise HostnameRefusedError(f'hostname not allowed: host "{hostname}" in use')


def _without_foreign(spec: LeaseSpec, mine: Iterable[AddressClaim]) -> LeaseSpec:
    """Drop exposes on an address whose port another lease of the owner already serves."""
    names = {claim.name for claim in mine}
    kept = tuple(leased for leased in spec.leased_ips if _name(leased) in names)
    return spec if kept == spec.leased_ips else spec.model_copy(update={"leased_ips": kept})


def _name(leased: LeasedIpSpec) -> str:
    return leased_ip_name(leased.sharing_key, proto=leased.proto.upper() or "TCP", external_port=leased.external_port)


def _hosts(spec: LeaseSpec) -> set[str]:
    return {host.hostname.lower() for host in spec.hostnames}


def _addresses(spec: LeaseSpec) -> dict[str, str]:
    return {_name(leased): leased.address for leased in spec.leased_ips}
