"""The intake of manifests: a manifest is checked, written and announced, or refused with nothing changed
(gateway.md §3.4).

The Manifest object is the durable record: when a tenant reads 200, the accepted manifest is in the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import structlog

from lease.errors import ManifestRefused
from lease.ids import DeploymentId, LeaseId, namespace_name
from lease.manifest import Group, Manifest
from lease.manifest_decode import manifest_from_json
from lease.spec import GpuPlacement
from lease.validation import check_for_provider, check_version, cross_validate, group_hostnames, validate_manifest
from provider.bus import MANIFEST_ACCEPTED
from provider.claims.foreign_routes import foreign_routes
from provider.claims.hostnames import HostnameRefusedError, automatic_names, check_hostnames, host_claims
from provider.gateway.config import GatewayConfig
from provider.gateway.errors import RequestError
from provider.gateway.trial_build import TrialBuild
from provider.protocols import Bus, Chain, Cluster
from provider.protocols.chain import Deployment, Lease, LeaseState
from provider.protocols.cluster import MANIFEST, PROVIDER_HOST
from provider.records.manifests import BadRecordError, ManifestRecord, read_manifest, write_manifest
from stacks.common import KeyedLocks

__all__ = ["ManifestIntake", "Placements"]

Placements: TypeAlias = Callable[[LeaseId], Awaitable[Mapping[int, GpuPlacement | None] | None]]
"""The placement in a lease's reservation, by resource id (None: no GPU); None when no reservation is known."""

_UNKNOWN = "rpc error: code = NotFound desc = Deployment not found: key not found"
_LIVE = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
_log = structlog.get_logger("gateway.intake")


class ManifestIntake:
    """Accepts manifests, one at a time per deployment. A manifest for which `build` returns a problem is refused."""

    def __init__(
        self,
        config: GatewayConfig,
        *,
        chain: Chain,
        cluster: Cluster,
        bus: Bus,
        placements: Placements,
        build: TrialBuild,
    ) -> None:
        self._config = config
        self._chain = chain
        self._cluster = cluster
        self._bus = bus
        self._placements = placements
        self._build = build
        self._locks = KeyedLocks[DeploymentId]()

    async def accept_manifest(self, owner: str, dseq: int, body: bytes) -> None:
        """Check the manifest and write it to the Manifest object of every live lease of the deployment. The same
        manifest again changes nothing.

        Raises `RequestError` (nothing was changed), `ChainError` or `ClusterError`.
        """
        try:
            async with asyncio.timeout(self._config.limits.manifest_seconds):
                manifest = manifest_from_json(body)
                deployment = DeploymentId(owner, dseq)
                async with self._locks.hold(deployment):
                    await self._accept(deployment, manifest)
        except ManifestRefused as error:
            raise RequestError(422, str(error)) from error
        except TimeoutError as error:
            raise RequestError(500, "context deadline exceeded") from error

    async def _accept(self, id_: DeploymentId, manifest: Manifest) -> None:
        deployment = await self._chain.deployment(id_)
        if deployment is None:
            raise RequestError(404, _UNKNOWN)
        _check_document(manifest, deployment)
        leases = await self._chain.leases(provider=self._config.provider, states=_LIVE, deployment=id_)
        leased = [(lease.id, _group_of(lease, deployment, manifest)) for lease in leases]
        await self._check_leased(leased)
        if not leased:
            raise RequestError(404, "no lease for deployment")
        records = [ManifestRecord(lease, group, await self._placed(lease)) for lease, group in leased]
        for record in records:
            if problem := await self._build(record):
                raise RequestError(422, f"manifest rejected: {problem}")
        for record in records:
            await write_manifest(self._cluster, record, namespace=self._config.manifest_namespace)
            self._bus.publish(MANIFEST_ACCEPTED, record.lease)
            _log.info("gateway.manifest_accepted", lease=str(record.lease))

    async def _placed(self, lease: LeaseId) -> dict[int, GpuPlacement]:
        """The GPUs of the reservation; without one (for example after a lost disk) those of the last
        accepted manifest.
        """
        placements = await self._placements(lease)
        if placements is None:
            name, namespace = namespace_name(lease), self._config.manifest_namespace
            placements = _stored_placements(await self._cluster.get(MANIFEST, name, namespace=namespace))
        return {resource: gpu for resource, gpu in placements.items() if gpu is not None}

    async def _check_leased(self, leased: Sequence[tuple[LeaseId, Group]]) -> None:
        """Checks for the groups that are leased here only: this provider's settings, and hostnames that the owner may
        use.
        """
        for _, group in leased:
            check_for_provider(group, require_hosts=not self._config.static_hosts)
        if not any(group_hostnames(group) for _, group in leased):
            return
        claims = host_claims(await self._cluster.list(PROVIDER_HOST, namespace=self._config.manifest_namespace))
        routes, rules = await foreign_routes(self._cluster), self._config.hostnames
        try:
            for lease, group in leased:
                automatic = automatic_names(lease, group, rules)
                names = group_hostnames(group)
                check_hostnames(names, lease.owner, claims=claims, rules=rules, automatic=automatic, routes=routes)
        except HostnameRefusedError as refused:
            raise RequestError(422, str(refused)) from None


def _check_document(manifest: Manifest, deployment: Deployment) -> None:
    """Check structure, hash, then the groups on chain: the order decides which of several faults is named."""
    validate_manifest(manifest)
    check_version(manifest, deployment.hash)
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
