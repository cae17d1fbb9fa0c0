"""The intake of manifests: a manifest is checked, written and announced, or refused with nothing changed
(gateway.md §3.4).

The Manifest object is the durable record: when a tenant reads 200, the accepted manifest is in the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import structlog

from lease.errors import ManifestRefused
from lease.ids import DeploymentId, LeaseId, namespace_name
from lease.manifest import Group, Manifest
from lease.manifest_decode import manifest_from_json
from lease.manifest_json import manifest_version
from lease.spec import GpuPlacement
from lease.validation import check_for_provider, check_version, cross_validate, group_hostnames, validate_manifest
from provider.budgets import Budget, PeerBudgets
from provider.bus import MANIFEST_ACCEPTED
from provider.claims.foreign_routes import ForeignRoutes, foreign_routes
from provider.claims.hostnames import HostnameClaim, HostnameRefusedError, automatic_names, check_hostnames, host_claims
from provider.claims.released import released_hostnames
from provider.gateway.answer_cache import CachedAnswer
from provider.gateway.config import GatewayConfig
from provider.gateway.errors import RequestError
from provider.gateway.refusals import Refusals
from provider.gateway.rented_deployments import LIVE, Rented
from provider.gateway.trial_build import TrialBuild
from provider.precedence import Precedence
from provider.protocols import Bus, Chain, Clock, Cluster
from provider.protocols.chain import Deployment, Lease, LeaseAnswer, LeaseState
from provider.protocols.cluster import MANIFEST, PROVIDER_HOST
from provider.records.accepted import MANIFEST_STORED, AcceptedManifest
from provider.records.manifests import BadRecordError, ManifestRecord, manifest_object, read_manifest
from stacks.common import KeyedLocks

__all__ = ["Intake", "IntakeChain", "ManifestIntake", "Placements"]

Placements: TypeAlias = Callable[[LeaseId], Awaitable[Mapping[int, GpuPlacement | None] | None]]
"""The placement in a lease's reservation, by resource id (None: no GPU); None when no reservation is known."""

_RATE, _BURST = 10.0, 100.0
_OWNER_RATE, _OWNER_BURST = 1.0, 20.0
"""Limits for accounts without a lease: manifests a second and at once, for all accounts and for one account."""
_UNKNOWN = "rpc error: code = NotFound desc = Deployment not found: key not found"
_MOST_WAITING = 50
"""Requests that wait for the node's next block at one time; beyond that they are refused at once."""
_SMALL_BYTES, _SMALL_ITEMS = 16 * 1024, 500
"""A manifest of less is read without a thread, within 20 ms at worst: six services or so."""
_ANNOUNCED_S = 1.0
"""An accepted manifest is applied after the manifests that are being checked, but no later than this."""
_T = TypeVar("_T")
_log = structlog.get_logger("gateway.intake")


class Intake(Protocol):
    """What takes the manifests: `ManifestIntake`, or the way to it from another process."""

    async def require_lease(self, owner: str, dseq: int) -> None: ...

    async def accept_manifest(self, owner: str, dseq: int, body: bytes) -> None: ...


class IntakeChain(Protocol):
    """The queries of `protocols.Chain` that say whether there is a lease."""

    async def deployment(self, deployment: DeploymentId) -> Deployment | None: ...

    async def leases(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId | None = None
    ) -> Sequence[Lease]: ...

    async def leases_on_each_node(
        self, *, provider: str, states: Sequence[LeaseState], deployment: DeploymentId
    ) -> Sequence[Lease]: ...

    async def lease(self, lease: LeaseId) -> LeaseAnswer: ...


class ManifestIntake:
    """Accepts manifests, one at a time per deployment. A manifest for which `build` returns a problem is refused.

    `strangers` answers whether an account that `is_tenant` does not know has a lease, within a budget; by default
    `chain` does. `rented` is what is known of a deployment without a query. What waits for `precedence` waits until no
    manifest is being checked.
    """

    def __init__(
        self,
        config: GatewayConfig,
        *,
        chain: Chain,
        cluster: Cluster,
        bus: Bus,
        clock: Clock,
        placements: Placements,
        build: TrialBuild,
        strangers: IntakeChain | None = None,
        is_tenant: Callable[[str], bool] = lambda _: False,
        refusals: Refusals | None = None,
        rented: Callable[[DeploymentId], Rented | None] = lambda _: None,
        precedence: Precedence | None = None,
    ) -> None:
        self._config = config
        self._chain = chain
        self._strangers = strangers or chain
        self._is_tenant = is_tenant
        self._refusals = refusals or Refusals()
        self._rented = rented
        self._precedence = precedence or Precedence(clock)
        self._budget = Budget(rate=_RATE, burst=_BURST, now=clock.monotonic)
        self._of_owner = PeerBudgets(rate=_OWNER_RATE, burst=_OWNER_BURST, now=clock.monotonic)
        self._clock = clock
        self._waiting = 0
        self._cluster = cluster
        self._bus = bus
        self._placements = placements
        self._build = build
        self._hostnames = CachedAnswer(self._read_hostnames, clock, seconds=0.0, failed_seconds=0.0)
        self._locks = KeyedLocks[DeploymentId]()
        self._accepting = 0
        self._accepted: list[AcceptedManifest] = []

    async def accept_manifest(self, owner: str, dseq: int, body: bytes) -> None:
        """Check the manifest and write it to the Manifest object of every live lease of the deployment. The same
        manifest again changes no object; a version that was refused is tried again.

        Raises `RequestError` (nothing was changed), `ChainError` or `ClusterError`.
        """
        self._accepting += 1
        try:
            with self._precedence.request():
                await self._accept_in_turn(DeploymentId(owner, dseq), body)
        except ManifestRefused as error:
            raise RequestError(422, str(error)) from error
        except TimeoutError as error:
            raise RequestError(500, "context deadline exceeded") from error
        finally:
            self._accepting -= 1
            if not self._accepting:
                self._announce()

    async def _accept_in_turn(self, id_: DeploymentId, body: bytes) -> None:
        async with asyncio.timeout(self._config.limits.manifest_seconds), self._locks.hold(id_):
            await self._accept(id_, body)

    def _announce(self) -> None:
        """Have the accepted manifests applied and noted in the store. A tenant that sends many at once gets its answers
        before the engine takes the processors; the watch of the Manifest objects, and a start, find what was not
        announced.
        """
        accepted, self._accepted = self._accepted, []
        for each in accepted:
            self._bus.publish(MANIFEST_ACCEPTED, each.lease)
            self._bus.publish(MANIFEST_STORED, each)

    async def require_lease(self, owner: str, dseq: int) -> None:
        """Raise `RequestError` 404 without a live lease of the deployment here, 429 for an account that asks too often.
        A body is read after that only. Accounts that `is_tenant` knows are not asked about.
        """
        if self._is_tenant(owner):
            return
        if not (self._of_owner.take(owner) and self._budget.take()):
            self._refusals.count("manifests of accounts that are no tenants", peer=owner)
            raise RequestError(429, "too many manifests of accounts without a lease; try again later")
        await self._leases(self._strangers, DeploymentId(owner, dseq))

    async def _leases(self, chain: IntakeChain, id_: DeploymentId) -> Sequence[Lease]:
        """The live leases of the deployment. Of a known deployment, they are awaited: a lease may be in a block that
        the node does not have yet.
        """

        async def ask() -> Sequence[Lease] | None:
            return await chain.leases(provider=self._config.provider, states=LIVE, deployment=id_) or None

        if leases := await ask():
            return leases
        if await chain.deployment(id_) is None:
            raise RequestError(404, _UNKNOWN)
        if leases := await self._ask_later(ask) or await self._leases_elsewhere(chain, id_):
            return leases
        raise RequestError(404, "no lease for deployment")

    async def _leases_elsewhere(self, chain: IntakeChain, id_: DeploymentId) -> Sequence[Lease]:
        """The live leases of the deployment that another node reports and the node in use does not know at all.

        A lease that the node in use knows as ended is ended, whatever a node that is behind reports.
        """
        found = await chain.leases_on_each_node(provider=self._config.provider, states=LIVE, deployment=id_)
        each = {lease.id: lease for lease in found if lease.id.deployment == id_}
        return [lease for lease in each.values() if (await chain.lease(lease.id)).lease is None]

    async def _newest(self, first: Deployment, version: bytes) -> Deployment:
        """The deployment with the hash `version` as soon as a node has it; with another hash when none has it within
        some seconds. `first`: what the node reported before.
        """
        if first.hash == version:
            return first

        async def ask() -> Deployment | None:
            found = await self._known_deployment(first.id)
            return found if found.hash == version else None

        if found := await self._ask_later(ask):
            return found
        others = await self._chain.deployment_on_each_node(first.id)
        return next((each for each in others if each.hash == version), first)

    async def _known_deployment(self, id_: DeploymentId) -> Deployment:
        deployment = await self._chain.deployment(id_)
        if deployment is None:
            raise RequestError(404, _UNKNOWN)
        return deployment

    async def _ask_later(self, ask: Callable[[], Awaitable[_T | None]]) -> _T | None:
        """The first result of `ask` that is not None. `ask` is called again after pauses, at most until the node is two
        blocks further; then None is returned. None is returned at once when too many requests wait.
        """
        if self._waiting >= _MOST_WAITING or not self._config.limits.behind_pauses:
            return None
        self._waiting += 1
        try:
            first = (await self._chain.head()).height
            for pause in self._config.limits.behind_pauses:
                await self._clock.sleep(pause)
                height = (await self._chain.head()).height
                if (found := await ask()) is not None or height > first + 1:
                    return found
            return None
        finally:
            self._waiting -= 1

    async def _accept(self, id_: DeploymentId, body: bytes) -> None:
        """The chain is asked first: a document is read for a deployment with a lease here only, and in a thread."""
        rented = self._rented(id_)
        leases, known = (rented.leases, rented.deployment) if rented else await self._asked(id_)
        read = _at_once if _is_small(body) else asyncio.to_thread
        manifest, version = await read(_valid_manifest, body, self._config.hostnames.wildcards)
        if rented and known.hash != version:
            leases, known = await self._asked(id_)
        deployment = await self._newest(known, version)
        await read(_check_against, deployment, manifest, version)
        leased = [(lease.id, _group_of(lease, deployment, manifest)) for lease in leases]
        await self._check_leased(leased)
        records = [ManifestRecord(lease, group, await self._placed(lease)) for lease, group in leased]
        for record in records:
            if problem := await self._build(record):
                raise RequestError(422, f"manifest rejected: {problem}")
        for record in records:
            await self._cluster.apply(manifest_object(record, namespace=self._config.manifest_namespace))
            if not self._accepted:
                asyncio.get_running_loop().call_later(_ANNOUNCED_S, self._announce)
            self._accepted.append(self._accepted_manifest(record, version=version, size=len(body)))
            _log.info("gateway.manifest_accepted", lease=str(record.lease))

    def _accepted_manifest(self, record: ManifestRecord, *, version: bytes, size: int) -> AcceptedManifest:
        return AcceptedManifest(
            record.lease,
            self._clock.now(),
            version.hex(),
            record.content_hash(),
            size,
            len(record.group.services or ()),
        )

    async def _asked(self, id_: DeploymentId) -> tuple[Sequence[Lease], Deployment]:
        return await asyncio.gather(self._leases(self._chain, id_), self._known_deployment(id_))

    async def _placed(self, lease: LeaseId) -> dict[int, GpuPlacement]:
        """The GPUs of the reservation; without one (for example after a lost disk) those of the last
        accepted manifest.
        """
        placements = await self._placements(lease)
        if placements is None:
            name, namespace = namespace_name(lease), self._config.manifest_namespace
            placements = _stored_placements(await self._cluster.get(MANIFEST, name, namespace=namespace))
        return {resource: gpu for resource, gpu in placements.items() if gpu is not None}

    async def _read_hostnames(self) -> tuple[Mapping[str, HostnameClaim], ForeignRoutes]:
        """The hostnames of all leases, and those that the edge serves for others. Manifests that are checked at one
        time share the eight lists.
        """
        claims = self._cluster.list(PROVIDER_HOST, namespace=self._config.manifest_namespace)
        listed, routes = await asyncio.gather(claims, foreign_routes(self._cluster))
        return host_claims(listed), routes

    async def _check_leased(self, leased: Sequence[tuple[LeaseId, Group]]) -> None:
        """Checks for the groups that are leased here only: this provider's settings, and hostnames that the owner may
        use.
        """
        for _, group in leased:
            check_for_provider(group, require_hosts=not self._config.static_hosts)
        if not any(group_hostnames(group) for _, group in leased):
            return
        (claims, routes), rules = await self._hostnames.get(), self._config.hostnames
        now, records = self._clock.now(), self._config.manifest_namespace
        asked = {name.lower() for _, group in leased for name in group_hostnames(group)}
        cooldown_s = rules.cooldown_s if asked - claims.keys() else 0.0
        releases = await released_hostnames(self._cluster, namespace=records, now=now, cooldown_s=cooldown_s)
        try:
            for lease, group in leased:
                automatic = automatic_names(lease, group, rules)
                names = group_hostnames(group)
                check_hostnames(
                    names,
                    lease.owner,
                    claims=claims,
                    rules=rules,
                    automatic=automatic,
                    routes=routes,
                    releases=releases,
                )
        except HostnameRefusedError as refused:
            raise RequestError(422, str(refused)) from None


def _is_small(body: bytes) -> bool:
    return len(body) <= _SMALL_BYTES and sum(map(body.count, (b"{", b"[", b","))) <= _SMALL_ITEMS


async def _at_once(work: Callable[..., _T], *arguments: Any) -> _T:
    return work(*arguments)


def _valid_manifest(body: bytes, wildcards: bool) -> tuple[Manifest, bytes]:
    """The manifest in `body` and its hash. Raises `ManifestRefused` for its structure."""
    manifest = manifest_from_json(body)
    validate_manifest(manifest, wildcards=wildcards)
    return manifest, manifest_version(manifest)


def _check_against(deployment: Deployment, manifest: Manifest, version: bytes) -> None:
    """Check the hash, then the groups on chain: the order decides which of several faults is named. Raises
    `ManifestRefused`.
    """
    check_version(version, deployment.hash)
    cross_validate(manifest, deployment.groups)


def _group_of(lease: Lease, deployment: Deployment, manifest: Manifest) -> Group:
    """The manifest's group for a lease, found by its name on chain; cross-validation made sure that it exists.

    Raises `RequestError` 404 when the node, queried at two heights, reports a lease of a group that the deployment does
    not have.
    """
    if not 1 <= lease.id.gseq <= len(deployment.groups):
        raise RequestError(404, f"the deployment has no group {lease.id.gseq}, which the lease names; try again")
    name = deployment.groups[lease.id.gseq - 1].name
    return next(group for group in manifest if group.name == name)


def _stored_placements(manifest: dict[str, Any] | None) -> Mapping[int, GpuPlacement | None]:
    try:
        return read_manifest(manifest).placements if manifest else {}
    except BadRecordError:
        return {}
