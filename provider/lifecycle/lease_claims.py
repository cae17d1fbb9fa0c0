"""The claims of a lease on hostnames and addresses: taken before its stack runs, migrated to another lease of its
owner, given back after it (docs/architecture.md §5).

Claims are objects in the cluster. One lock guards all decisions about them: two leases never choose the same address,
and a hostname is never given to two leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from lease.hostnames import route_name
from lease.ids import LeaseId
from lease.spec import FoundObject, LeaseSpec
from provider.claims.edge import AskEdge, asked_name, route_accepted, serves
from provider.claims.foreign_routes import foreign_routes
from provider.claims.handing_back import handed_back
from provider.claims.hostnames import (
    HostnameClaim,
    HostnameRefusedError,
    check_hostnames,
    check_transfer,
    host_claims,
    host_object,
    other_owner,
)
from provider.claims.leased_ips import AddressClaim, address_claims, leased_ip_object
from provider.claims.moves import NO_MOVE, PendingMove, end_move, next_move, read_move
from provider.claims.ownership import OwnershipProofs
from provider.claims.pools import remove_unused_pools
from provider.claims.released import released_hostnames, releases_object
from provider.errors import ClusterError, Conflict, ProviderError
from provider.kube.labels import lease_of, managed_labels
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.lease_hosts import WantedHosts, host_moves, new_hosts, spec_hosts, wanted_hosts
from provider.lifecycle.lease_ports import port_moves, spec_addresses, wanted_ports, without_ports
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.metrics import DEPLOYMENTS
from provider.protocols import Clock, Cluster
from provider.protocols.clock import SystemClock
from provider.protocols.cluster import HTTP_ROUTE, INGRESS, PROVIDER_HOST, PROVIDER_LEASED_IP, Kind

__all__ = ["ClaimedSpec", "LeaseClaims", "NotTransferredError", "without_claims"]

_SETTLE_S = 3.0
"""How long the edge must have answered before the old route goes: Traefik takes up to two seconds to use a new one."""


class NotTransferredError(ProviderError):
    """One claim of a migration could not be written; those before it were."""

    def __init__(self, name: str, error: ClusterError) -> None:
        super().__init__(f"{name}: {error}")
        self.name = name
        self.error = error


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
    `moved`: the names of claims that were migrated away from the lease, which it does not take back by itself. `moves`:
    the migrations that go on.
    """

    spec: LeaseSpec
    withheld: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    waits_for: frozenset[str] = frozenset()
    soon: bool = False
    moved: frozenset[str] = frozenset()
    moves: tuple[PendingMove, ...] = ()


class LeaseClaims:
    """All claims of one provider in one cluster. Raises `ClusterError` throughout. `ask` asks the edge for a hostname;
    without it a new route counts as served when it has been there for a while. `proofs`: what a tenant proves before it
    gets a new hostname.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: LifecycleConfig,
        *,
        clock: Clock | None = None,
        ask: AskEdge | None = None,
        proofs: OwnershipProofs | None = None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock or SystemClock()
        self._ask = ask
        self._proofs = proofs
        self._one_at_a_time = asyncio.Lock()
        self._served_since: dict[tuple[str, int], float] = {}

    async def take(self, inputs: SpecInputs, specs: SpecMaker) -> ClaimedSpec:
        """Claim what the manifest asks for and make its spec. `withheld` of `inputs`, the hostnames that were withheld
        at the last time, and `addresses` are replaced by what is claimed.

        Raises `HostnameRefusedError`, `AddressesExhaustedError` or `SpecRefused`; then nothing new was claimed.
        """
        unproved = await self._unproved(inputs)
        async with self._one_at_a_time, _counted():
            now = self._clock.now()
            hosts = await wanted_hosts(self._cluster, inputs, self._config, now=now, unproved=unproved)
            ports = await wanted_ports(self._cluster, inputs, self._config)
            withheld = frozenset(hosts.withheld)
            spec = specs.make(replace(inputs, withheld=withheld, addresses=ports.addresses, pools=ports.pools))
            served = {claim.name for claim in ports.mine}
            spec = without_ports(spec, set(spec_addresses(spec)) - served)
            _never_overwrite(spec, hosts)
            for claim in ports.mine:
                await self._write_address(claim)
            await self._write_hosts(spec, hosts)
            remarks = [f"hostname {host} is not served: {why}" for host, why in sorted(hosts.withheld.items())]
            return ClaimedSpec(
                spec,
                withheld,
                (*remarks, *ports.remarks.values()),
                withheld | ports.waits_for | hosts.kept,
                soon=hosts.soon or ports.soon,
                moved=hosts.moved | ports.moved,
                moves=(*hosts.moves, *ports.moves),
            )

    async def _unproved(self, inputs: SpecInputs) -> Mapping[str, str]:
        """The new hostnames of the manifest whose owner is not proved. Asks DNS, so it must not hold the lock."""
        if self._proofs is None:
            return {}
        claims = host_claims(await self._cluster.list(PROVIDER_HOST, namespace=self._config.records))
        lease, group = inputs.record.lease, inputs.record.group
        return await self._proofs.unproved(lease.owner, new_hosts(group, lease, self._config, claims=claims))

    async def match(self, spec: LeaseSpec) -> bool:
        """Whether the lease holds exactly the claims of `spec`, and no migration to it goes on."""
        labels, namespace = managed_labels(spec.lease), self._config.records
        hosts = await self._cluster.list(PROVIDER_HOST, namespace=namespace, labels=labels)
        addresses = await self._cluster.list(PROVIDER_LEASED_IP, namespace=namespace, labels=labels)
        if any(read_move(obj).source is not None for obj in (*hosts, *addresses)):
            return False
        given = {obj["metadata"]["name"]: str((obj.get("status") or {}).get("address") or "") for obj in addresses}
        names = {route_name(host) for host in spec_hosts(spec)}
        return {obj["metadata"]["name"] for obj in hosts} == names and given == spec_addresses(spec)

    async def migrated(self, spec: LeaseSpec) -> tuple[frozenset[str], tuple[PendingMove, ...]]:
        """The names of the claims of `spec`, which runs, that were migrated to another lease and must be given up now,
        and the migrations to the lease of what `spec` serves.
        """
        namespace, overlap = self._config.records, self._config.routes_overlap
        hosts = host_claims(await self._cluster.list(PROVIDER_HOST, namespace=namespace)) if spec.hostnames else {}
        gone, moves = host_moves(spec, hosts, overlap=overlap)
        if not spec.leased_ips:
            return gone, moves
        ports = address_claims(await self._cluster.list(PROVIDER_LEASED_IP, namespace=namespace))
        gone_ports, moves_of_ports = port_moves(spec, ports)
        return gone | gone_ports, (*moves, *moves_of_ports)

    async def keep_only(self, spec: LeaseSpec, *, moves: Sequence[PendingMove] = ()) -> None:
        """Give back the claims that a completely applied `spec` does not use, and the pools that no lease uses then.
        A claim that is migrating to the lease is kept.
        """
        hosts, addresses = await self._held(spec.lease)
        arriving = {move.name for move in moves if move.arriving}
        await self._release_hosts(spec.lease, hosts - spec_hosts(spec) - arriving)
        await self._release(PROVIDER_LEASED_IP, addresses - set(spec_addresses(spec)) - arriving, spec.lease)
        if addresses - set(spec_addresses(spec)):
            await self.remove_unused_pools()

    async def release_all(self, lease: LeaseId) -> None:
        """Give back all claims of a lease that ends."""
        hosts, addresses = await self._held(lease)
        await self._release_hosts(lease, hosts)
        await self._release(PROVIDER_LEASED_IP, addresses, lease)

    async def remove_unused_pools(self) -> tuple[str, ...]:
        """Delete the pools that no claim uses. Returns their names."""
        async with self._one_at_a_time:
            config = self._config
            return await remove_unused_pools(
                self._cluster, claims_namespace=config.records, metallb_namespace=config.metallb_namespace
            )

    async def migrate_hosts(self, lease: LeaseId, hosts: Sequence[HostnameClaim]) -> None:
        """Give hostnames to `lease`, which asks for them in its manifest. What it holds already stays as it is.

        Raises `HostnameRefusedError` for a hostname of another owner; then nothing was changed. Raises
        `NotTransferredError` for the first one that could not be written.
        """
        await self._check_proofs(lease, {host.hostname for host in hosts})
        async with self._one_at_a_time:
            claims = host_claims(await self._cluster.list(PROVIDER_HOST, namespace=self._config.records))
            check_transfer((host.hostname for host in hosts), lease, claims=claims)
            new = [host.hostname for host in hosts if host.hostname not in claims]
            await self._check_unclaimed(lease, new, claims=claims)
            for host in hosts:
                before, move = claims.get(host.hostname), NO_MOVE
                if before is not None and before.holder == lease.group:
                    continue
                if before is not None:
                    overlap = self._config.routes_overlap
                    move = next_move(before.move, holder=before.lease, destination=lease, overlap=overlap)
                obj = host_object(lease, host, namespace=self._config.records, move=move)
                await self._transfer(host.hostname, obj)

    async def _check_proofs(self, lease: LeaseId, hostnames: set[str]) -> None:
        """Raises `HostnameRefusedError` for an unclaimed hostname whose owner is not proved."""
        if self._proofs is None:
            return
        claims = host_claims(await self._cluster.list(PROVIDER_HOST, namespace=self._config.records))
        for hostname, why in (await self._proofs.unproved(lease.owner, hostnames - claims.keys())).items():
            raise HostnameRefusedError(f"hostname not allowed: {hostname}: {why}")

    async def _check_unclaimed(
        self, lease: LeaseId, hostnames: list[str], *, claims: Mapping[str, HostnameClaim]
    ) -> None:
        """Raises `HostnameRefusedError` for an unclaimed hostname that the lease's manifest would not get either."""
        if not hostnames:
            return
        rules, now, namespace = self._config.hostnames, self._clock.now(), self._config.records
        routes = await foreign_routes(self._cluster)
        cooldown_s = rules.cooldown_s
        releases = await released_hostnames(self._cluster, namespace=namespace, now=now, cooldown_s=cooldown_s)
        check_hostnames(hostnames, lease.owner, claims=claims, rules=rules, routes=routes, releases=releases)

    async def migrate_ports(self, lease: LeaseId, ports: Sequence[AddressClaim]) -> None:
        """Give ports on leased addresses to `lease`, which asks for them in its manifest. The address stays with the
        sharing key. A port that nobody has is claimed when the lease is checked. Raises as `migrate_hosts`.
        """
        async with self._one_at_a_time:
            stored = address_claims(await self._cluster.list(PROVIDER_LEASED_IP, namespace=self._config.records))
            for port in ports:
                before = stored.get(port.name)
                if before is not None and before.lease != lease:
                    move = next_move(before.move, holder=before.lease, destination=lease, overlap=False)
                    obj = leased_ip_object(replace(port, move=move), namespace=self._config.records)
                    await self._transfer(port.name, obj)

    async def end_moves(self, newest: ClaimedSpec, *, runs: bool) -> tuple[str, ...]:
        """End the migrations that have reached the completely applied `newest`; a text for each that goes on. `runs`:
        whether the workloads of the lease are ready.
        """
        going_on = []
        for move in newest.moves:
            served = move.name in spec_hosts(newest.spec) or move.name in spec_addresses(newest.spec)
            if served is not move.arriving:
                continue  # the next version has it, or does not have it any more
            if why := await self._unserved(move, newest.spec, runs=runs):
                going_on.append(f"hostname {move.name} is still served by the lease that had it: {why}")
                continue
            async with self._one_at_a_time:
                await end_move(self._cluster, move, namespace=self._config.records)
            self._served_since.pop((move.name, move.sequence), None)
        return tuple(going_on)

    async def _unserved(self, move: PendingMove, spec: LeaseSpec, *, runs: bool) -> str:
        """Why the lease that had a hostname must go on serving it; empty when it need not, or does not."""
        if not move.arriving or move.kind is not PROVIDER_HOST or not self._config.routes_overlap:
            return ""
        why = "" if runs else "this lease does not run yet"
        why = why or await self._route_problem(move.name, spec)
        key, now = (move.name, move.sequence), self._clock.monotonic()
        if why:
            self._served_since.pop(key, None)
            return why
        waited = now - self._served_since.setdefault(key, now)
        return "" if waited >= _SETTLE_S else "the edge is about to use the new route"

    async def _route_problem(self, host: str, spec: LeaseSpec) -> str:
        """Why the edge does not serve the route of this lease, as far as one can see: the old route serves too."""
        if self._config.gateway_api:
            route = await self._cluster.get(HTTP_ROUTE, route_name(host), namespace=spec.namespace)
            if route is None or not route_accepted(route):
                return "the gateway has not accepted the new route yet"
        answer = await self._ask(asked_name(host)) if self._ask is not None else None
        if answer is None or serves(answer):
            return ""
        return answer.problem or f"the edge answers {answer.status}"

    async def _transfer(self, name: str, obj: dict[str, object]) -> None:
        try:
            await self._cluster.apply(obj)
        except ClusterError as error:
            raise NotTransferredError(name, error) from error

    async def _write_hosts(self, spec: LeaseSpec, hosts: WantedHosts) -> None:
        for host in spec.hostnames:
            name = host.hostname.lower()
            if name in hosts.kept:
                continue
            move = hosts.claims[name].move if name in hosts.claims else NO_MOVE
            await self._cluster.apply(host_object(spec.lease, host, namespace=self._config.records, move=move))

    async def _write_address(self, claim: AddressClaim) -> None:
        """Write the spec, then the status: a claim whose status was lost keeps its key, and its pool keeps its
        address.
        """
        namespace = self._config.records
        await self._cluster.apply(leased_ip_object(claim, namespace=namespace))
        await self._cluster.apply(leased_ip_object(claim, namespace=namespace, status=True), status=True)

    async def _held(self, lease: LeaseId) -> tuple[set[str], set[str]]:
        """The hostnames that the lease has, and the names of its ProviderLeasedIPs."""
        labels, namespace = managed_labels(lease), self._config.records
        hosts = await self._cluster.list(PROVIDER_HOST, namespace=namespace, labels=labels)
        addresses = await self._cluster.list(PROVIDER_LEASED_IP, namespace=namespace, labels=labels)
        return {_hostname_of(obj) for obj in hosts}, {obj["metadata"]["name"] for obj in addresses}

    async def _release_hosts(self, lease: LeaseId, names: set[str]) -> None:
        """Give hostnames back, to the lease that still publishes one where there is such a lease. The release is noted
        first: a crash in between forgets nothing.
        """
        if not names:
            return
        route, records = HTTP_ROUTE if self._config.gateway_api else INGRESS, self._config.records
        async with self._one_at_a_time:
            back = {
                name
                for name in sorted(names)
                if await handed_back(self._cluster, name, lease, namespace=records, route=route)
            }
        names -= back
        rules, now, namespace = self._config.hostnames, self._clock.now(), self._config.records
        own = f".{rules.domain}"
        noted = sorted(name for name in names if not (rules.domain and name.endswith(own)))
        if noted and rules.cooldown_s:
            async with self._one_at_a_time:
                cluster, until = self._cluster, now + rules.cooldown_s
                before = await released_hostnames(cluster, namespace=namespace, now=now, cooldown_s=rules.cooldown_s)
                await cluster.apply(releases_object(before, noted, lease.owner, until=until, namespace=namespace))
        await self._release(PROVIDER_HOST, names, lease)

    async def _release(self, kind: Kind, names: Iterable[str], lease: LeaseId) -> None:
        for name in sorted(names):
            await self._release_one(kind, route_name(name), lease)

    async def _release_one(self, kind: Kind, name: str, lease: LeaseId, *, tries: int = 5) -> None:
        """Delete the claim if it belongs to the lease still: it may be migrating at this moment. It is read again when
        it has changed meanwhile, as its status may. Raises `Conflict` when it changes all the time.
        """
        namespace = self._config.records
        claim = await self._cluster.get(kind, name, namespace=namespace)
        holder = lease_of(claim) if claim is not None else None
        if claim is None or holder is None or holder.group != lease.group:
            return
        version = claim["metadata"]["resourceVersion"]
        try:
            await self._cluster.delete(kind, name, namespace=namespace, resource_version=version)
        except Conflict:
            if tries == 1:
                raise
            await self._release_one(kind, name, lease, tries=tries - 1)


def _hostname_of(claim: Mapping[str, Any]) -> str:
    """The hostname after which a ProviderHost is named; the object's name when it is named after nothing."""
    name, hostname = str(claim["metadata"]["name"]), str((claim.get("spec") or {}).get("hostname") or "").lower()
    return hostname if route_name(hostname) == name else name


def without_claims(spec: LeaseSpec, names: frozenset[str]) -> LeaseSpec:
    """The version without these hostnames and these ports of leased addresses."""
    kept = tuple(host for host in spec.hostnames if host.hostname.lower() not in names)
    if kept != spec.hostnames:
        found = tuple(item for item in spec.found if not _of_host(item, names))
        spec = spec.model_copy(update={"hostnames": kept, "found": found})
    return without_ports(spec, names)


def _of_host(item: FoundObject, names: Collection[str]) -> bool:
    """Whether an object of an adopted lease is the route of one of the hostnames."""
    found = item.manifest
    return found["kind"] in (INGRESS.kind, HTTP_ROUTE.kind) and found["metadata"]["name"] in names


def _never_overwrite(spec: LeaseSpec, hosts: WantedHosts) -> None:
    """The last check before claims are written, whatever gave the spec its hostnames. Raises `HostnameRefusedError`."""
    for hostname in sorted(spec_hosts(spec) - hosts.kept):
        claim = hosts.claims.get(hostname) or other_owner(hostname, spec.lease.owner, hosts.claims)
        if claim is not None and claim.holder != spec.lease.group:
            raise HostnameRefusedError(f'hostname not allowed: host "{hostname}" in use')
