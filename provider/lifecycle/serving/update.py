"""One run of the engine for a living lease, with the record of what the stack is before and after it.

A version that may not be applied, or that the cluster refuses, is given up for the last complete one until the tenant
sends a manifest again, be it the same one. A failure that is the provider's fault is tried again. The record is written
first, so a crash anywhere leaves "not known to be complete", and the next check applies again.
"""

from __future__ import annotations

import re
from dataclasses import replace

from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.errors import ClusterError
from provider.lifecycle.drift import KINDS
from provider.lifecycle.health.pods import shortened
from provider.lifecycle.lease_claims import without_claims
from provider.lifecycle.serving.admission import admission_problem
from provider.lifecycle.serving.adopted import take_fields
from provider.lifecycle.serving.objections import objection
from provider.lifecycle.serving.upgrade import as_found, outdated
from provider.lifecycle.serving.view import LeaseView, same
from provider.lifecycle.state import Outcome, Phase
from provider.lifecycle.stored_lease import NamespaceState
from provider.protocols import Cluster
from provider.records.applied import Applied, Attempt
from stacks.common import FailureCause, Priority, StackResult, cause_of, mask

__all__ = ["error_text", "provider_fault", "update"]

_UNREADY_S = 15.0
_LONGEST, _BEGINNING = 4096, 3072
"""Characters of an error that are kept: a refusal may quote the tenant's whole object, and the record of the attempt
holds it in a Secret.
"""
_NEVER_TAKEN = (400, 413, 422)
"""Answers of an API server that will take no write of this object: it is too large, or not valid."""


_NAMED = re.compile(r"([A-Z][A-Za-z0-9]*) \S+: ")
"""The beginning of an error about one object, as the engine writes it."""
_PROVIDERS_OWN = frozenset({
    *("Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange"),
    *("ServiceAccount", "Role", "RoleBinding", "IPAddressPool", "L2Advertisement"),
})  # fmt: skip
"""Kinds of objects in which nothing is the tenant's choice: what refuses one refuses the provider."""


async def update(view: LeaseView, spec: LeaseSpec, *, repair: str = "") -> Outcome:
    """Make the stack `spec`. `repair`: why the engine must refresh its state from the cluster first, which it believes
    to hold what is gone; empty for no refresh.
    """
    if outdated(spec) and view.known:
        spec = await as_found(view.parts.cluster, spec)
    if reason := await _objection(view, spec):
        # before the record of the attempt: after a crash in between the version is judged and noted again
        await view.parts.note_refusal(_as_tried(view, spec), reason)
        return await _refuse(view, spec, reason, untouched=view.untouched)
    if adopting := await _adopt_before(view, spec):
        return adopting
    begun = view.applied.spec is not None or view.applied.attempt is not None
    await _begin(view, spec)
    if _of_another_provider(view):
        await take_fields(view.parts.cluster, view.applied.spec or spec)
    view.parts.show(view.lease, Outcome(Phase.APPLYING, _doing(view, repair)))
    if repair or (begun and view.namespace is NamespaceState.ABSENT):
        refreshed = await _refresh(view, spec)
        if refreshed is not None and not refreshed.ok:
            return Outcome(Phase.APPLYING, error_text(refreshed.error, spec), retry=True)
    elif view.parts.config.preview_updates and view.applied.spec is not None:
        view.parts.report(view.lease, await view.parts.engine.preview(spec))
    result = view.parts.report(view.lease, await view.parts.engine.up(spec, priority=_priority(view, repair)))
    return await _done(view, spec) if result.ok else await _failed(view, spec, result)


async def _objection(view: LeaseView, spec: LeaseSpec) -> str:
    """Why `spec` may not be applied. Only a version that is new to this lease is judged: what was applied before may
    always be restored, also without what was migrated away since. The API server is asked about the tenant's own
    changes, not about those of an upgrade.
    """
    if _restores(view, spec):
        return ""
    reason = await objection(view, spec)
    if not reason and not view.record.has_hash(view.applied.manifest_hash):
        runs = view.applied.spec is not None
        reason = await admission_problem(view.parts.cluster, spec, namespace=view.namespace, runs=runs)
    return error_text(reason, spec)


def _restores(view: LeaseView, spec: LeaseSpec) -> bool:
    """Whether `spec` was applied to this lease before."""
    return view.applied.spec is not None and (view.goes_back or same(spec, view.applied.spec))


def _of_another_provider(view: LeaseView) -> bool:
    """Whether another provider has made what runs, or may have: no record says who made it."""
    if view.applied.spec is not None:
        return bool(view.applied.spec.found)
    return not view.applied.fresh and view.namespace is NamespaceState.ACTIVE


def error_text(error: str, spec: LeaseSpec) -> str:
    """The error without the tenant's secrets, and without its middle when it is long."""
    return shortened(mask(error, spec), longest=_LONGEST, beginning=_BEGINNING)


def _priority(view: LeaseView, repair: str) -> Priority:
    if repair:
        return Priority.REPAIR
    return Priority.FIRST if view.applied.spec is None else Priority.UPDATE


def _doing(view: LeaseView, repair: str) -> str:
    if view.refused:
        return f"going back to the previous version: {view.refused}"
    if repair:
        return f"repairing: {repair}"
    if view.blocked:
        return f"restoring the previous version: {view.blocked}"
    return "applying the first version" if view.applied.spec is None else "applying the newest version"


async def _failed(view: LeaseView, spec: LeaseSpec, result: StackResult) -> Outcome:
    error = error_text(result.error, spec) or "the engine gave no reason"
    if provider_fault(result):
        return Outcome(Phase.APPLYING, error, retry=True)
    if _restores(view, spec):
        return Outcome(Phase.UPDATE_FAILED, f"the previous version could not be restored: {error}", retry=True)
    return await _refuse(view, spec, error, untouched=False)


def provider_fault(result: StackResult) -> bool:
    """Whether a failed operation may succeed unchanged later (docs/architecture.md §2, rule 5). A tenant does not pay
    for what the provider cannot explain: an unknown cause is tried again, and so is what the API server refuses of the
    provider's own objects (a policy about labels of namespaces, MetalLB's about pools).
    """
    cause = result.cause or cause_of(result.error)
    if cause is None or cause in (FailureCause.POLICY, FailureCause.BUILD):
        return False
    return cause.provider_fault or (bool(kinds := _refused_kinds(result.error)) and kinds <= _PROVIDERS_OWN)


def _refused_kinds(error: str) -> set[str]:
    """The kinds of the objects that the API server refused; with an empty name where the error does not say."""
    kinds, kind = set(), ""
    for line in error.splitlines():
        named = _NAMED.match(line)
        kind = named[1] if named else kind
        cause = cause_of(line)
        if cause is not None and not cause.provider_fault:
            kinds.add(kind)
    return kinds


async def _refuse(view: LeaseView, spec: LeaseSpec, reason: str, *, untouched: bool) -> Outcome:
    """Give this version up until the tenant sends another. `untouched`: what runs is still entirely the version
    before. A lease on which nothing runs claims nothing.
    """
    if view.applied.fresh and untouched:
        await view.parts.claims.release_all(view.lease)
    attempt = Attempt(_as_tried(view, spec).content_hash(), reason, restored=untouched)
    await view.write(replace(view.applied, attempt=attempt, moved=view.newest.moved))
    return Outcome(Phase.FAILED if view.applied.spec is None else Phase.UPDATE_FAILED, reason, again_in=0.0)


def _as_tried(view: LeaseView, spec: LeaseSpec) -> LeaseSpec:
    """The version as it is refused: a first one without claims, since it gives them back and may get others."""
    return view.parts.specs.unclaimed(view.record) if view.applied.fresh else spec


async def _adopt_before(view: LeaseView, spec: LeaseSpec) -> Outcome | None:
    """Let a stack whose state is lost adopt what the last complete version made: nothing else would remove it. Returns
    the outcome when that failed through the provider's fault.

    The attempt names that version meanwhile: a stack that exists after a kill may have adopted only a part.
    """
    before, attempt = view.applied.spec, view.applied.attempt
    if before is None or same(spec, before) or view.namespace is not NamespaceState.ACTIVE:
        return None
    adopted = Attempt(before.content_hash())
    if attempt != adopted and spec.namespace in await view.parts.engine.stacks():
        return None
    await view.write(replace(view.applied, attempt=adopted))
    before = await _without_migrated(view, before)
    before = await as_found(view.parts.cluster, before) if outdated(before) else before
    result = view.parts.report(view.lease, await view.parts.engine.up(before))
    if not result.ok and provider_fault(result):
        return Outcome(Phase.APPLYING, error_text(result.error, before), retry=True)
    return None


async def _without_migrated(view: LeaseView, before: LeaseSpec) -> LeaseSpec:
    """`before` without what was migrated away and is gone: another lease may serve it already. What is still there must
    be in the stack, so that the next version removes it.
    """
    for name in sorted(view.newest.moved):
        without = without_claims(before, frozenset({name}))
        if without is not before and not await _is_there(view.parts.cluster, before, without):
            before = without
    return before


async def _is_there(cluster: Cluster, spec: LeaseSpec, without: LeaseSpec) -> bool:
    """Whether the cluster has any object that `spec` has and `without` has not. Raises `ClusterError`."""
    left = {(obj["kind"], obj["metadata"]["name"]) for obj in lease_objects(without)}
    for obj in lease_objects(spec):
        kind, meta = KINDS[obj["kind"]], obj["metadata"]
        if (kind.kind, meta["name"]) not in left and await cluster.get(
            kind, meta["name"], namespace=meta.get("namespace")
        ):
            return True
    return False


async def _refresh(view: LeaseView, spec: LeaseSpec) -> StackResult | None:
    """Refresh the stack. None when there is no stack: its state is lost, and `up` adopts what runs."""
    if spec.namespace not in await view.parts.engine.stacks():
        return None
    return view.parts.report(view.lease, await view.parts.engine.refresh(spec.namespace))


async def _begin(view: LeaseView, spec: LeaseSpec) -> None:
    """Record that the stack is about to differ from the record. The refusal that is being undone stays recorded."""
    attempt = Attempt(view.newest.spec.content_hash(), view.refused) if view.refused else Attempt(spec.content_hash())
    if view.applied.attempt != attempt:
        await view.write(replace(view.applied, attempt=attempt))


async def _done(view: LeaseView, spec: LeaseSpec) -> Outcome:
    if view.refused:
        attempt = Attempt(view.newest.spec.content_hash(), view.refused, restored=True)
        await view.write(replace(view.applied, spec=view.target, attempt=attempt, moved=view.newest.moved))
        return Outcome(Phase.UPDATE_FAILED, view.refused, again_in=_UNREADY_S)
    newest = view.newest
    if view.blocked:
        await view.write(replace(view.applied, spec=spec, attempt=None, moved=newest.moved))
        return Outcome(Phase.BLOCKED, again_in=0.0)
    try:
        await view.write(Applied(spec, view.record.content_hash(), newest.withheld, moved=newest.moved))
    except ClusterError as error:
        if error.status not in _NEVER_TAKEN:
            raise
        return await _refuse(view, spec, f"the record of this version cannot be written: {error}", untouched=False)
    if view.namespace is NamespaceState.ABSENT:
        view.drift.strays = ()  # everything in the namespace is this stack's
    return Outcome(Phase.APPLYING, "applied; waiting for the workloads", again_in=0.0)
