"""The service of a lease that the chain calls alive: its stack is brought to the newest version that applies, and its
health is checked.

Nothing here deletes a lease.
"""

from __future__ import annotations

from dataclasses import replace

from components.errors import BuildError
from components.lease import lease_objects
from lease.dropped import dropped_exposes, ignored_options
from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from lease.spec import FORM, LeaseSpec
from provider.lifecycle.drift import Drift
from provider.lifecycle.lease_claims import ClaimedSpec
from provider.lifecycle.parts import Parts
from provider.lifecycle.serving.adopted import adopted_version
from provider.lifecycle.serving.blocked import BLOCKING, blocked_outcome, blocked_view, still_blocked
from provider.lifecycle.serving.first_version import refused_first, undo_first, with_freshness, without_freshness
from provider.lifecycle.serving.update import update
from provider.lifecycle.serving.upgrade import carried
from provider.lifecycle.serving.upkeep import keep_up
from provider.lifecycle.serving.view import LeaseView, same
from provider.lifecycle.spec_maker import SpecInputs
from provider.lifecycle.state import Outcome, Phase
from provider.lifecycle.stored_lease import NamespaceState, StoredLease, read_stored_lease
from provider.protocols import Cluster
from provider.records.applied import Applied, applied_object
from provider.records.manifests import ManifestRecord

__all__ = ["forget_refusal", "form_of", "recreate", "serve", "take_back"]

_TERMINATING_S = 2.0
_LEAVING_S = 15.0
"""Between two checks whether a hostname has left the lease that had it."""


async def serve(parts: Parts, lease: LeaseId, drift: Drift) -> Outcome:
    """Do the one next step for a living lease. Raises what prevents reading, `ClusterError` and `BadRecordError`, and
    while nothing was ever applied what prevents claiming, one of `BLOCKING`.
    """
    seen = await read_stored_lease(parts.cluster, lease, records=parts.config.records)
    record = seen.manifest
    if record is None:
        return Outcome(Phase.WAITING_FOR_MANIFEST, "the tenant has not sent a manifest that was accepted")
    if seen.namespace is NamespaceState.TERMINATING:
        why = f": {seen.held_by}" if seen.held_by else ""
        reason = f"namespace {namespace_name(lease)} is terminating, its name is used again when it is gone{why}"
        return Outcome(Phase.BLOCKED, reason, again_in=_TERMINATING_S, of_the_provider=True)
    seen = await with_freshness(parts.cluster, seen, namespace_name(lease))
    if seen.applied.fresh and (refused := refused_first(parts, seen.applied, record)):
        return await undo_first(parts, seen.applied, record, refused)
    try:
        newest = await _newest(parts, seen, record)
    except BLOCKING as error:
        if seen.applied.spec is None:
            raise
        blocked = blocked_outcome(error)
        view = await blocked_view(parts, seen, record, drift, runs=seen.applied.spec, why=blocked.reason)
        return still_blocked(await _bring_up(view), blocked)
    seen = await without_freshness(parts.cluster, seen, newest.spec)
    view = LeaseView(parts, lease, record, seen.applied, newest, seen.namespace, drift)
    ignored = ignored_options(record.group, parts.config.ignored_options)
    remarks = (*newest.remarks, *dropped_exposes(record.group), *ignored)
    return _with_remarks(await _bring_up(view), replace(newest, remarks=remarks))


async def _bring_up(view: LeaseView) -> Outcome:
    if view.target is None:
        return Outcome(Phase.FAILED, view.refused)
    if view.complete and view.namespace is NamespaceState.ACTIVE:
        return await keep_up(view, view.target)
    return await update(view, view.target, repair="the namespace is gone" if view.complete else "")


def _with_remarks(outcome: Outcome, newest: ClaimedSpec) -> Outcome:
    """The outcome with what the lease lacks of its manifest. That is no trouble of the lease, and is told all the
    same.
    """
    if not newest.remarks or outcome.retry:
        return outcome
    remark = "; ".join(filter(None, (outcome.remark, *newest.remarks)))
    again_in = min(_LEAVING_S, outcome.again_in or _LEAVING_S) if newest.soon else outcome.again_in
    reason = "; ".join(filter(None, (outcome.reason, *newest.remarks)))
    return replace(outcome, reason=reason, again_in=again_in, remark=remark, waits_for=newest.waits_for)


async def forget_refusal(cluster: Cluster, lease: LeaseId, applied: Applied, *, records: str) -> None:
    """Try the refused version again although nothing changed, at a request of the tenant or of an operator. What runs
    stays known, so that another refusal applies nothing. Raises `ClusterError`.
    """
    if applied.attempt is not None and applied.attempt.error:
        again = replace(applied, attempt=replace(applied.attempt, error=""))
        await cluster.apply(applied_object(lease, again, namespace=records))


async def take_back(cluster: Cluster, lease: LeaseId, applied: Applied, *, records: str) -> None:
    """The tenant asks again for what was migrated away: the lease takes it when it is free. Raises `ClusterError`."""
    if applied.moved:
        await cluster.apply(applied_object(lease, replace(applied, moved=frozenset()), namespace=records))


async def recreate(cluster: Cluster, lease: LeaseId, applied: Applied, *, records: str) -> bool:
    """Make anew what another builder made, pods too, at an operator's request. False when nothing was ever applied."""
    if applied.spec is not None:
        await cluster.apply(applied_object(lease, replace(applied, anew=True), namespace=records))
    return applied.spec is not None


async def _newest(parts: Parts, seen: StoredLease, record: ManifestRecord) -> ClaimedSpec:
    """The newest version with its claims. When nothing changed and nothing was withheld, no claim is written."""
    applied = seen.applied
    unchanged = applied.spec is not None and record.has_hash(applied.manifest_hash)
    if unchanged and applied.spec is not None and applied.spec.found and not applied.anew:
        return await adopted_version(parts, seen, record, applied.spec)
    complete = unchanged and not applied.withheld and not applied.moved
    if complete and applied.spec is not None and await _still(parts, record, applied, applied.spec):
        return ClaimedSpec(applied.spec)
    form = form_of(applied, unchanged=unchanged, found=seen.form)
    before = applied.spec.form if applied.spec is not None else form
    if before != form and applied.attempt is not None:
        tried = await _claimed(parts, seen, record, form=before)
        if tried.spec.content_hash() == applied.attempt.spec_hash:
            return tried  # no other manifest has come since this version was tried
    return await _claimed(parts, seen, record, form=form)


async def _claimed(parts: Parts, seen: StoredLease, record: ManifestRecord, *, form: int) -> ClaimedSpec:
    """The version of `record` in objects of this form, with its claims and with what an upgrade may not change."""
    applied = seen.applied
    unchanged = applied.spec is not None and record.has_hash(applied.manifest_hash)
    inputs = SpecInputs(record, applied.spec, applied.withheld, form=form, moved=applied.moved)
    claimed = await parts.claims.take(inputs, parts.specs)
    if applied.spec is None and not _unrecorded(seen):
        return claimed
    again = not applied.anew and (unchanged or applied.spec is None)
    return replace(claimed, spec=await carried(parts.cluster, claimed.spec, applied=applied.spec, again=again))


def form_of(applied: Applied, *, unchanged: bool, found: int) -> int:
    """The form of the objects of the next version: what runs keeps its form until the tenant sends another manifest, or
    an operator has it made anew. `found`: the form in the cluster where no version is recorded.
    """
    if applied.spec is None:
        return found
    return applied.spec.form if unchanged and not applied.anew else FORM


def _unrecorded(seen: StoredLease) -> bool:
    """Whether something may run there without a record of who made it."""
    return seen.applied == Applied() and seen.namespace is NamespaceState.ACTIVE


async def _still(parts: Parts, record: ManifestRecord, applied: Applied, spec: LeaseSpec) -> bool:
    """Whether the same manifest still makes the applied spec (settings may have changed) and all its claims are
    held.
    """
    addresses = {leased.sharing_key: leased.address for leased in spec.leased_ips}
    pools = {leased.sharing_key: leased.pool for leased in spec.leased_ips}
    try:
        form = form_of(applied, unchanged=True, found=FORM)
        made = parts.specs.make(SpecInputs(record, spec, applied.withheld, addresses, form, pools=pools))
    except SpecRefused:
        return False
    made = made.model_copy(update={"kept": () if applied.anew else spec.kept})
    return (same(made, spec) or _same_objects(made, spec)) and await parts.claims.match(spec)


def _same_objects(made: LeaseSpec, spec: LeaseSpec) -> bool:
    """Whether the specs differ in facts about the cluster alone, of which this lease has none in its objects."""
    if made.model_copy(update={"cluster": spec.cluster}) != spec:
        return False
    try:
        return lease_objects(made) == lease_objects(spec)
    except BuildError:
        return False
