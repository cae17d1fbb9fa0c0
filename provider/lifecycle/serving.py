"""A lease that the chain calls alive: bring its stack to the newest version that applies, and look at its health.

Nothing here deletes a lease. A version that the cluster refuses is given up for the last complete one until the tenant
sends another; trouble of ours is tried again. The applied record is written before and after every update, so a crash
anywhere leaves "not known to be complete", and the next look applies again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lease.errors import SpecRefused
from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.lifecycle.applied import Applied, Attempt, applied_object
from provider.lifecycle.claiming import Claimed
from provider.lifecycle.observe import NamespaceState, Observed, check_health, observe
from provider.lifecycle.parts import Parts
from provider.lifecycle.records import ManifestRecord
from provider.lifecycle.state import Outcome, Phase
from provider.lifecycle.troubles import ours
from provider.protocols import Cluster
from stacks.engine.masking import mask
from stacks.results import StackResult

__all__ = ["forget_refusal", "serve"]

_TERMINATING_S = 2.0
_UNREADY_S = 15.0


@dataclass(frozen=True, slots=True)
class _Lease:
    """One look: what there is, and the newest version with its claims."""

    parts: Parts
    lease: LeaseId
    record: ManifestRecord
    applied: Applied
    newest: Claimed
    namespace: NamespaceState

    @property
    def refused(self) -> str:
        """Why the newest version was refused, empty when it was not tried or not refused."""
        attempt = self.applied.attempt
        return attempt.error if attempt and attempt.spec_hash == self.newest.spec.content_hash() else ""

    @property
    def target(self) -> LeaseSpec | None:
        """What should run now: the newest version, or the last complete one when the newest was refused."""
        return self.applied.spec if self.refused else self.newest.spec

    @property
    def complete(self) -> bool:
        """Whether the stack is known to be what the applied record says, and that is the target."""
        attempt, spec = self.applied.attempt, self.applied.spec
        known = attempt is None or attempt.restored
        return known and spec is not None and self.target is not None and _same(spec, self.target)


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
    look = _Lease(parts, lease, seen.manifest, seen.applied, newest, seen.namespace)
    if look.target is None:
        return Outcome(Phase.FAILED, look.refused)
    if look.complete and seen.namespace is NamespaceState.ACTIVE:
        return await _keep(look, look.target)
    return await _up(look, look.target, repair=look.complete)


async def forget_refusal(cluster: Cluster, lease: LeaseId, applied: Applied, *, records: str) -> None:
    """An operator's word: try the refused version again although nothing changed."""
    if applied.attempt is not None and applied.attempt.error:
        again = replace(applied, attempt=replace(applied.attempt, error="", restored=False))
        await cluster.apply(applied_object(lease, again, namespace=records))


async def _newest(parts: Parts, seen: Observed, record: ManifestRecord) -> Claimed:
    """The newest version with its claims; if nothing changed, that is found without claiming."""
    applied = seen.applied
    unchanged = applied.spec is not None and applied.manifest_hash == record.content_hash()
    if unchanged and applied.spec is not None and await _still(parts, record, applied, applied.spec):
        return Claimed(applied.spec, applied.withheld)
    return await parts.claims.take(
        record.lease,
        record.group,
        lambda withheld, addresses: parts.make_spec(
            record, withheld=withheld, addresses=addresses, previous=applied.spec
        ),
        sticky=applied.withheld if unchanged else frozenset(),
    )


async def _still(parts: Parts, record: ManifestRecord, applied: Applied, spec: LeaseSpec) -> bool:
    """Whether the same manifest still makes the applied spec (settings may differ now) and its claims are all held."""
    addresses = {leased.sharing_key: leased.address for leased in spec.leased_ips}
    try:
        made = parts.make_spec(record, withheld=applied.withheld, addresses=addresses, previous=spec)
    except SpecRefused:
        return False
    return _same(made, spec) and await parts.claims.match(spec)


async def _keep(look: _Lease, spec: LeaseSpec) -> Outcome:
    """The stack is what it should be: give back what it does not use, see whether the workloads are there and ready."""
    attempt = look.applied.attempt
    if attempt is not None and not look.refused:
        await _write(look, replace(look.applied, attempt=None))
    if not look.refused and not await look.parts.claims.match(spec):
        await look.parts.claims.keep_only(spec)
    health = await check_health(look.parts.cluster, spec)
    if health.missing:
        return await _up(look, spec, repair=True)
    unready = "; ".join(health.unready)
    if look.refused:
        return Outcome(Phase.UPDATE_FAILED, "; ".join(filter(None, (look.refused, unready))))
    if unready:
        return Outcome(Phase.DEGRADED, unready, again_in=_UNREADY_S)
    return Outcome(Phase.RUNNING)


async def _up(look: _Lease, spec: LeaseSpec, *, repair: bool) -> Outcome:
    """Run the engine once. `repair`: the stack believes in objects that are gone, so let it look first."""
    if recalled := await _recall(look, spec):
        return recalled
    await _begin(look, spec)
    if repair or (look.applied.spec is not None and look.namespace is NamespaceState.ABSENT):
        refreshed = await _refresh(look, spec)
        if refreshed is not None and not refreshed.ok:
            return Outcome(Phase.APPLYING, mask(refreshed.error, spec), retry=True)
    elif look.parts.config.preview_updates and look.applied.spec is not None:
        look.parts.report(look.lease, await look.parts.engine.preview(spec))
    result = look.parts.report(look.lease, await look.parts.engine.up(spec))
    error = mask(result.error, spec) or "the engine gave no reason"
    if result.ok:
        return await _done(look, spec)
    if ours(result):
        return Outcome(Phase.APPLYING, error, retry=True)
    if look.applied.spec is not None and _same(spec, look.applied.spec):
        return Outcome(Phase.UPDATE_FAILED, f"the previous version could not be restored: {error}", retry=True)
    await _write(look, replace(look.applied, attempt=Attempt(spec.content_hash(), error)))
    return Outcome(Phase.FAILED if look.applied.spec is None else Phase.UPDATE_FAILED, error, again_in=0.0)


async def _recall(look: _Lease, spec: LeaseSpec) -> Outcome | None:
    """Let a stack whose state is lost take over what the last complete version made: nothing else would remove it.

    The attempt says so meanwhile: a stack that exists after a kill may have taken over only a part.
    """
    before, attempt = look.applied.spec, look.applied.attempt
    if before is None or _same(spec, before) or look.namespace is not NamespaceState.ACTIVE:
        return None
    recalling = Attempt(before.content_hash())
    if attempt != recalling and spec.namespace in await look.parts.engine.stacks():
        return None
    await _write(look, replace(look.applied, attempt=recalling))
    result = look.parts.report(look.lease, await look.parts.engine.up(before))
    if not result.ok and ours(result):
        return Outcome(Phase.APPLYING, mask(result.error, before), retry=True)
    return None


async def _refresh(look: _Lease, spec: LeaseSpec) -> StackResult | None:
    """None when there is no stack: its state is lost, and `up` adopts what runs."""
    if spec.namespace not in await look.parts.engine.stacks():
        return None
    return look.parts.report(look.lease, await look.parts.engine.refresh(spec.namespace))


async def _begin(look: _Lease, spec: LeaseSpec) -> None:
    """Write down that the stack is about to differ from the record. A refusal being undone stays written down."""
    attempt = Attempt(look.newest.spec.content_hash(), look.refused) if look.refused else Attempt(spec.content_hash())
    if look.applied.attempt != attempt:
        await _write(look, replace(look.applied, attempt=attempt))


async def _done(look: _Lease, spec: LeaseSpec) -> Outcome:
    if look.refused:
        attempt = Attempt(look.newest.spec.content_hash(), look.refused, restored=True)
        await _write(look, replace(look.applied, attempt=attempt))
        return Outcome(Phase.UPDATE_FAILED, look.refused, again_in=_UNREADY_S)
    await _write(look, Applied(spec, look.record.content_hash(), look.newest.withheld))
    return Outcome(Phase.APPLYING, "applied; waiting for the workloads", again_in=0.0)


async def _write(look: _Lease, applied: Applied) -> None:
    await look.parts.cluster.apply(applied_object(look.lease, applied, namespace=look.parts.config.records))


def _same(one: LeaseSpec, other: LeaseSpec) -> bool:
    return one.content_hash() == other.content_hash()
