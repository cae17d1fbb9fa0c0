"""Run the engine once for a living lease, and write down before and after what the stack is then.

A version that may not be applied, or that the cluster refuses, is given up for the last complete one until the tenant
sends another; trouble of ours is tried again. The record is written first, so a crash anywhere leaves "not known to be
complete", and the next look applies again.
"""

from __future__ import annotations

from dataclasses import replace

from lease.spec import LeaseSpec
from provider.lifecycle.observation import NamespaceState
from provider.lifecycle.serving.objections import objection
from provider.lifecycle.serving.upgrade import as_found, outdated
from provider.lifecycle.serving.view import Look, same
from provider.lifecycle.state import Outcome, Phase
from provider.records.applied import Applied, Attempt
from stacks.common import Priority, StackResult, cause_of, mask

__all__ = ["provider_fault", "update"]

_UNREADY_S = 15.0


async def update(look: Look, spec: LeaseSpec, *, repair: str = "") -> Outcome:
    """Make the stack `spec`. `repair` says why it must look at the cluster first: it believes in what is gone."""
    if outdated(spec) and look.known:
        spec = await as_found(look.parts.cluster, spec)
    if reason := await _objection(look, spec):
        return await _refuse(look, spec, reason, untouched=look.known)
    if recalled := await _recall(look, spec):
        return recalled
    begun = look.applied.spec is not None or look.applied.attempt is not None
    await _begin(look, spec)
    look.parts.tell(look.lease, Outcome(Phase.APPLYING, _doing(look, repair)))
    if repair or (begun and look.namespace is NamespaceState.ABSENT):
        refreshed = await _refresh(look, spec)
        if refreshed is not None and not refreshed.ok:
            return Outcome(Phase.APPLYING, mask(refreshed.error, spec), retry=True)
    elif look.parts.config.preview_updates and look.applied.spec is not None:
        look.parts.report(look.lease, await look.parts.engine.preview(spec))
    result = look.parts.report(look.lease, await look.parts.engine.up(spec, priority=_priority(look, repair)))
    return await _done(look, spec, opened=result.opened) if result.ok else await _failed(look, spec, result)


async def _objection(look: Look, spec: LeaseSpec) -> str:
    """Only a version that is new to this lease is asked about: what was applied before may always be restored."""
    if look.applied.spec is not None and same(spec, look.applied.spec):
        return ""
    return mask(await objection(look, spec), spec)


def _priority(look: Look, repair: str) -> Priority:
    if repair:
        return Priority.REPAIR
    return Priority.FIRST if look.applied.spec is None else Priority.UPDATE


def _doing(look: Look, repair: str) -> str:
    if look.refused:
        return f"going back to the previous version: {look.refused}"
    if repair:
        return f"repairing: {repair}"
    return "applying the first version" if look.applied.spec is None else "applying the newest version"


async def _failed(look: Look, spec: LeaseSpec, result: StackResult) -> Outcome:
    error = mask(result.error, spec) or "the engine gave no reason"
    if provider_fault(result):
        return Outcome(Phase.APPLYING, error, retry=True)
    if look.applied.spec is not None and same(spec, look.applied.spec):
        return Outcome(Phase.UPDATE_FAILED, f"the previous version could not be restored: {error}", retry=True)
    return await _refuse(look, spec, error, untouched=False)


def provider_fault(result: StackResult) -> bool:
    """Whether a failed operation may succeed unchanged later (docs/architecture.md §2, rule 5). An unknown cause is a
    refusal: the same operation would be refused again.
    """
    cause = result.cause or cause_of(result.error)
    return cause is not None and cause.provider_fault


async def _refuse(look: Look, spec: LeaseSpec, reason: str, *, untouched: bool) -> Outcome:
    """Give this version up until the tenant sends another. `untouched`: what runs is still the one before, entirely."""
    await look.write(replace(look.applied, attempt=Attempt(spec.content_hash(), reason, restored=untouched)))
    return Outcome(Phase.FAILED if look.applied.spec is None else Phase.UPDATE_FAILED, reason, again_in=0.0)


async def _recall(look: Look, spec: LeaseSpec) -> Outcome | None:
    """Let a stack whose state is lost take over what the last complete version made: nothing else would remove it.

    The attempt says so meanwhile: a stack that exists after a kill may have taken over only a part.
    """
    before, attempt = look.applied.spec, look.applied.attempt
    if before is None or same(spec, before) or look.namespace is not NamespaceState.ACTIVE:
        return None
    recalling = Attempt(before.content_hash())
    if attempt != recalling and spec.namespace in await look.parts.engine.stacks():
        return None
    await look.write(replace(look.applied, attempt=recalling))
    before = await as_found(look.parts.cluster, before) if outdated(before) else before
    result = look.parts.report(look.lease, await look.parts.engine.up(before))
    if not result.ok and provider_fault(result):
        return Outcome(Phase.APPLYING, mask(result.error, before), retry=True)
    return None


async def _refresh(look: Look, spec: LeaseSpec) -> StackResult | None:
    """None when there is no stack: its state is lost, and `up` adopts what runs."""
    if spec.namespace not in await look.parts.engine.stacks():
        return None
    return look.parts.report(look.lease, await look.parts.engine.refresh(spec.namespace))


async def _begin(look: Look, spec: LeaseSpec) -> None:
    """Write down that the stack is about to differ from the record. A refusal being undone stays written down."""
    attempt = Attempt(look.newest.spec.content_hash(), look.refused) if look.refused else Attempt(spec.content_hash())
    if look.applied.attempt != attempt:
        await look.write(replace(look.applied, attempt=attempt))


async def _done(look: Look, spec: LeaseSpec, *, opened: bool) -> Outcome:
    if look.refused:
        attempt = Attempt(look.newest.spec.content_hash(), look.refused, restored=True)
        await look.write(replace(look.applied, attempt=attempt))
        return Outcome(Phase.UPDATE_FAILED, look.refused, again_in=_UNREADY_S)
    await look.write(Applied(spec, look.record.content_hash(), look.newest.withheld))
    if look.namespace is NamespaceState.ABSENT or opened:
        look.drift.strays = ()  # everything in the namespace is this stack's
    return Outcome(Phase.APPLYING, "applied; waiting for the workloads", again_in=0.0)
