"""A lease that the chain calls alive: bring its stack to the newest version that applies, and look at its health.

Nothing here deletes a lease.
"""

from __future__ import annotations

from dataclasses import replace

from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.lifecycle.claims import Claimed
from provider.lifecycle.drift import find_drift
from provider.lifecycle.health.workloads import Health, check_health
from provider.lifecycle.observation import NamespaceState, Observed, observe
from provider.lifecycle.parts import Parts
from provider.lifecycle.serving.rollouts import pending
from provider.lifecycle.serving.strays import remove_strays
from provider.lifecycle.serving.update import update
from provider.lifecycle.serving.upgrade import carried, outdated
from provider.lifecycle.serving.view import Look, same
from provider.lifecycle.state import Outcome, Phase
from provider.protocols import Cluster
from provider.protocols.cluster import POD
from provider.records.applied import Applied, applied_object
from provider.records.manifests import ManifestRecord
from stacks.common import mask

__all__ = ["PENDING", "forget_refusal", "recreate", "serve"]

PENDING = "changed when the tenant sends a manifest or the lease is recreated: "
"""What runs was made by another builder; followed by the services and paths."""

_TERMINATING_S = 2.0


async def serve(parts: Parts, lease: LeaseId) -> Outcome:
    """One look at a living lease, doing the one next thing. Raises what stands in the way of reading or claiming."""
    seen = await observe(parts.cluster, lease, records=parts.config.records)
    if seen.manifest is None:
        return Outcome(Phase.WAITING_FOR_MANIFEST, "the tenant has not sent a manifest that was accepted")
    if seen.namespace is NamespaceState.TERMINATING:
        why = f": {seen.held_by}" if seen.held_by else ""
        reason = f"namespace {namespace_name(lease)} is terminating, its name is used again when it is gone{why}"
        return Outcome(Phase.BLOCKED, reason, again_in=_TERMINATING_S)
    newest = await _newest(parts, seen, seen.manifest)
    look = Look(parts, lease, seen.manifest, seen.applied, newest, seen.namespace)
    if look.target is None:
        return Outcome(Phase.FAILED, look.refused)
    if look.complete and seen.namespace is NamespaceState.ACTIVE:
        return await _keep(look, look.target)
    return await update(look, look.target, repair="the namespace is gone" if look.complete else "")


async def forget_refusal(cluster: Cluster, lease: LeaseId, applied: Applied, *, records: str) -> None:
    """An operator's word: try the refused version again although nothing changed."""
    if applied.attempt is not None and applied.attempt.error:
        again = replace(applied, attempt=replace(applied.attempt, error="", restored=False))
        await cluster.apply(applied_object(lease, again, namespace=records))


async def recreate(cluster: Cluster, lease: LeaseId, applied: Applied, *, records: str) -> bool:
    """An operator's word: whatever other code made is made anew, pods too. False when nothing was ever applied."""
    if applied.spec is not None:
        await cluster.apply(applied_object(lease, replace(applied, anew=True), namespace=records))
    return applied.spec is not None


async def _newest(parts: Parts, seen: Observed, record: ManifestRecord) -> Claimed:
    """The newest version with its claims; if nothing changed, that is found without claiming."""
    applied = seen.applied
    unchanged = applied.spec is not None and applied.manifest_hash == record.content_hash()
    if unchanged and applied.spec is not None and await _still(parts, record, applied, applied.spec):
        return Claimed(applied.spec, applied.withheld)
    claimed = await parts.claims.take(
        record.lease,
        record.group,
        lambda withheld, addresses: parts.make_spec(
            record, withheld=withheld, addresses=addresses, previous=applied.spec
        ),
        sticky=applied.withheld if unchanged else frozenset(),
    )
    if applied.spec is None and not _unrecorded(seen):
        return claimed
    again = not applied.anew and (unchanged or applied.spec is None)
    return replace(claimed, spec=await carried(parts.cluster, claimed.spec, applied=applied.spec, again=again))


def _unrecorded(seen: Observed) -> bool:
    """Whether what runs there, if anything does, was made by nobody knows whom."""
    return seen.applied == Applied() and seen.namespace is NamespaceState.ACTIVE


async def _still(parts: Parts, record: ManifestRecord, applied: Applied, spec: LeaseSpec) -> bool:
    """Whether the same manifest still makes the applied spec (settings may differ now) and its claims are all held."""
    addresses = {leased.sharing_key: leased.address for leased in spec.leased_ips}
    try:
        made = parts.make_spec(record, withheld=applied.withheld, addresses=addresses, previous=spec)
    except SpecRefused:
        return False
    made = made.model_copy(update={"kept": () if applied.anew else spec.kept})
    return same(made, spec) and await parts.claims.match(spec)


async def _keep(look: Look, spec: LeaseSpec) -> Outcome:
    """The stack is what it should be: give back what it does not use, see whether its objects are there and ready."""
    attempt = look.applied.attempt
    if (attempt is not None or look.applied.anew) and not look.refused:
        await look.write(replace(look.applied, attempt=None, anew=False))
    if not look.refused and not await look.parts.claims.match(spec):
        await look.parts.claims.keep_only(spec)
    strays = await _strays(look, spec)
    drift = await _drift(look, spec)
    if look.parts.config.repair_drift and look.parts.drifts.worth_repairing(spec.namespace):
        return await _repair(look, spec, drift)
    health = await check_health(look.parts.cluster, spec)
    if health.missing and look.parts.config.repair_drift:
        return await update(look, spec, repair=f"{', '.join(health.missing)} missing")
    for pod in health.stuck:
        await look.parts.cluster.delete(POD, pod, namespace=spec.namespace)
    return _told(look, health, mask("; ".join((*drift, *strays)), spec))


async def _strays(look: Look, spec: LeaseSpec) -> tuple[str, ...]:
    """What stays although it is nobody's; looked for once after a start, and removed where drift is repaired."""
    parts = look.parts
    if outdated(spec) or not parts.config.repair_drift:
        return ()
    known = parts.drifts.strays(spec.namespace)
    if known is None:
        known = await remove_strays(parts.cluster, spec, gateway_api=parts.config.gateway_api)
        parts.drifts.swept(spec.namespace, known)
    return known


async def _repair(look: Look, spec: LeaseSpec, drift: tuple[str, ...]) -> Outcome:
    outcome = await update(look, spec, repair=mask("; ".join(drift), spec))
    if not outcome.retry:
        look.parts.drifts.repaired(spec.namespace)
    return outcome


async def _drift(look: Look, spec: LeaseSpec) -> tuple[str, ...]:
    """Compared only when a watch says that something changed, and once after a start. What another builder made cannot
    be compared with what this one would make.
    """
    drifts = look.parts.drifts
    if outdated(spec):
        return ()
    if not drifts.due(spec.namespace):
        return drifts.left(spec.namespace)
    drifts.comparing(spec.namespace)
    try:
        found = await find_drift(look.parts.cluster, spec)
    except BaseException:
        drifts.touch(spec.namespace)
        raise
    drifts.found(spec.namespace, found)
    return found


def _told(look: Look, health: Health, drift: str) -> Outcome:
    left = f"not as applied: {drift}" if drift else ""
    waiting, unready = ("; ".join(texts) for texts in (health.waiting, health.unready))
    missing = f"missing: {', '.join(health.missing)}" if health.missing else ""
    spec = look.target or look.newest.spec
    reason = mask("; ".join(filter(None, (look.refused, waiting, unready, missing, left))), spec)
    if look.refused:
        return Outcome(Phase.UPDATE_FAILED, reason)
    if waiting:
        return Outcome(Phase.APPLYING, reason)
    if unready or missing:
        return Outcome(Phase.DEGRADED, reason, of_the_tenant=health.of_the_tenant and not missing)
    if kept := pending(spec):
        reason = "; ".join(filter(None, (reason, f"{PENDING}{'; '.join(kept)}")))
    return Outcome(Phase.RUNNING, reason)
