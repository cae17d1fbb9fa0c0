"""The restore of a volume in quarantine into another lease: the volume waits for the claim of that lease, by name.

A restore never deletes a volume. A restore that is not possible is refused with the remedy, and nothing is changed.
After a crash between two volumes the same request completes the restore.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.errors import BuildError
from components.volumes import claim_templates
from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.errors import ProviderError
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from provider.units import parse_quantity
from provider.volumes.marks import KeptVolume, held, read_kept, rebound
from provider.volumes.quarantine import Quarantine
from provider.volumes.texts import amount, when

__all__ = ["NotRestored", "RestoreRequest", "claims_of", "restore"]

_LEAST_S = 86400.0
"""The least time for which a volume waits for its claim, when less was left of its own time."""
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


class NotRestored(ProviderError):
    """The restore was refused; the text says why. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """An operator's request to give the volumes of `lease` to `into`.

    `only`: names of claims or volumes, empty for all of the lease. `force_owner`: the data may go to another tenant.
    `swap`: a claim that has another volume by now gives that volume up, which then is in quarantine itself.
    """

    lease: LeaseId
    into: LeaseId
    only: tuple[str, ...] = ()
    force_owner: bool = False
    swap: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    """`volume` as it was read and is to be bound. `anew`: claim and pod are made anew. `taken`: the volume that the
    claim has now and that goes into quarantine. `asked_bytes`: what the claim asks for.
    """

    kept: KeptVolume
    volume: dict[str, Any]
    anew: bool = False
    taken: dict[str, Any] | None = None
    asked_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Asks:
    """The request of a claim; `storage_class` empty for the cluster's default."""

    size_bytes: int
    storage_class: str


def claims_of(spec: LeaseSpec) -> dict[str, dict[str, Any]]:
    """The claims that the StatefulSets of a lease make, by name, as their templates say."""
    found = {}
    for service in spec.services:
        try:
            templates = claim_templates(service)
        except BuildError:
            continue  # such a spec is refused before anything is built: no claim is made
        for template in templates:
            for ordinal in range(service.count):
                found[f"{template['metadata']['name']}-{service.name}-{ordinal}"] = template["spec"]
    return found


async def restore(
    cluster: Cluster,
    request: RestoreRequest,
    *,
    wanted: Mapping[str, dict[str, Any]] | None,
    quarantine: Quarantine,
    clock: Clock,
) -> str:
    """Give the volumes away. Returns what was done, in one line. `wanted`: the claims of `request.into` (see
    `claims_of`), None while its manifest is not known. Raises `NotRestored` and `ClusterError`.
    """
    if request.lease.provider != request.into.provider:
        raise NotRestored(f"{request.lease} is another provider's lease: this provider cannot give its volumes away")
    if request.lease.owner != request.into.owner and not request.force_owner:
        raise NotRestored(
            f"{request.into} is another tenant's, and the data is {request.lease.owner}'s: --force-owner gives it away"
        )
    plans = [await _plan(cluster, request, kept, wanted=wanted) for kept in await _chosen(quarantine, request)]
    times = [plan.kept.until for plan in plans if math.isfinite(plan.kept.until)]
    until = max(clock.now() + max(_LEAST_S, quarantine.duration_s), *times)
    for plan in plans:
        await _give(cluster, request, plan, quarantine=quarantine, until=until)
    names = ", ".join(f"{plan.kept.claim} ({amount(plan.kept.size_bytes)})" for plan in plans)
    return f"{request.into} gets {names} when its claim is made; it waits until {when(until)}"


async def _chosen(quarantine: Quarantine, request: RestoreRequest) -> Sequence[KeptVolume]:
    volumes = await quarantine.left(request.lease)
    if not volumes:
        raise NotRestored(f"no volume of {request.lease} is in quarantine: `lessor lease volumes` lists what is")
    known = {name for volume in volumes for name in (volume.claim, volume.name)}
    if unknown := sorted(set(request.only) - known):
        raise NotRestored(f"{request.lease} has no volume {', '.join(unknown)}; it has {', '.join(sorted(known))}")
    chosen = [volume for volume in volumes if not request.only or {volume.claim, volume.name} & set(request.only)]
    claims = [volume.claim for volume in chosen]
    if twice := sorted({claim for claim in claims if claims.count(claim) > 1}):
        raise NotRestored(f"several volumes were claim {twice[0]}: name the volume that you mean with --only")
    return chosen


async def _plan(
    cluster: Cluster, request: RestoreRequest, kept: KeptVolume, *, wanted: Mapping[str, dict[str, Any]] | None
) -> _Plan:
    space = namespace_name(request.into)
    volume = await _readable(cluster, kept)
    claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, kept.claim, namespace=space)
    spec = (claim or {}).get("spec") or (wanted or {}).get(kept.claim)
    if spec is None and wanted is not None:
        has = ", ".join(sorted(wanted)) or "no claim of a volume"
        raise NotRestored(
            f"{request.into} has no claim {kept.claim} but {has}: the service and the volume must be named as they "
            "were, or leave it out with --only"
        )
    asked = await _fits(cluster, kept, spec) if spec is not None else 0
    taken = str((claim or {}).get("spec", {}).get("volumeName") or "")
    if not taken or taken == kept.name:
        return _Plan(kept, volume, anew=request.swap and not taken)
    if not request.swap:
        raise NotRestored(
            f"claim {kept.claim} of {request.into} has volume {taken} by now, and what was written there would be "
            "lost: --swap puts that one into quarantine and restarts the service; or let the tenant open another "
            "deployment, and restore before its manifest is sent"
        )
    return _Plan(kept, volume, True, await cluster.get(PERSISTENT_VOLUME, taken), asked)


async def _readable(cluster: Cluster, kept: KeptVolume) -> dict[str, Any]:
    """The volume, read again. Raises `NotRestored` when it cannot be given away."""
    volume = await cluster.get(PERSISTENT_VOLUME, kept.name)
    newest = read_kept(volume) if volume is not None else None
    if volume is None or newest is None:
        raise NotRestored(f"volume {kept.name} is not in quarantine any more")
    if newest.going or volume["metadata"].get("deletionTimestamp"):
        raise NotRestored(f"the time of volume {kept.name} was over, and its storage deletes it now")
    if newest.bound:
        raise NotRestored(f"volume {kept.name} still is bound to claim {kept.claim} in namespace {newest.namespace}")
    return volume


async def _fits(cluster: Cluster, kept: KeptVolume, spec: Mapping[str, Any]) -> int:
    """The bytes that the claim asks for. Class and size must be those that were rented; a storage may have given more
    than was asked for. Raises `NotRestored`.
    """
    asks = await _asks(cluster, spec)
    sizes = {kept.size_bytes, kept.asked_bytes or kept.size_bytes}
    if asks.size_bytes not in sizes:
        raise NotRestored(
            f"claim {kept.claim} asks for {amount(asks.size_bytes)}, and the volume has {amount(kept.size_bytes)}: "
            "the tenant must rent the same size"
        )
    if asks.storage_class != kept.storage_class:
        raise NotRestored(
            f"claim {kept.claim} asks for class {asks.storage_class or '(none)'}, and the volume is of class "
            f"{kept.storage_class or '(none)'}: the tenant must rent the same class"
        )
    return asks.size_bytes


async def _asks(cluster: Cluster, spec: Mapping[str, Any]) -> _Asks:
    try:
        size = int(parse_quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)))
    except ValueError as error:
        raise NotRestored(f"the size that the claim asks for cannot be read: {error}") from error
    return _Asks(size, str(spec.get("storageClassName") or await _default_class(cluster)))


async def _default_class(cluster: Cluster) -> str:
    for found in await cluster.list(STORAGE_CLASS):
        if (found["metadata"].get("annotations") or {}).get(_IS_DEFAULT) == "true":
            return str(found["metadata"]["name"])
    return ""


async def _give(
    cluster: Cluster, request: RestoreRequest, plan: _Plan, *, quarantine: Quarantine, until: float
) -> None:
    """Carry out one plan. The volume that the claim has now is in quarantine before the claim is touched."""
    space, name = namespace_name(request.into), plan.kept.claim
    if plan.taken is not None:
        await quarantine.write(held(plan.taken, request.into, until=until, asked_bytes=plan.asked_bytes))
    await quarantine.write(rebound(plan.volume, request.into, namespace=space, claim=name, until=until))
    if plan.anew:
        await _free_claim(cluster, space, name)


async def _free_claim(cluster: Cluster, namespace: str, name: str) -> None:
    """Delete the claim and its pods. The claim goes when no pod uses it any more, and its StatefulSet makes
    both anew.
    """
    await cluster.delete(PERSISTENT_VOLUME_CLAIM, name, namespace=namespace)
    for pod in await cluster.list(POD, namespace=namespace):
        volumes = (pod.get("spec") or {}).get("volumes") or ()
        if any((volume.get("persistentVolumeClaim") or {}).get("claimName") == name for volume in volumes):
            await cluster.delete(POD, pod["metadata"]["name"], namespace=namespace)
