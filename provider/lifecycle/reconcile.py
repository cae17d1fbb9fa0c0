"""`reconcile(lease)`: ask the chain, then serve or end; note the outcome where an operator can read it.

Level-triggered: it may be called at any time, any number of times, and after a crash at any line. One call at a time a
lease is the loop's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType

import structlog

from lease.errors import SpecRefused
from lease.ids import LeaseId
from provider.chain.messages import CloseReason
from provider.claims.addresses import AddressesExhaustedError
from provider.claims.hostnames import HostnameRefusedError
from provider.errors import ChainError, ClusterError
from provider.lifecycle.directives import Forgetful, Memory
from provider.lifecycle.ending.brake import Brake
from provider.lifecycle.ending.delays import SlowEnds
from provider.lifecycle.ending.notice import ending_message
from provider.lifecycle.ending.proof import Judgement, Proofs, Verdict
from provider.lifecycle.ending.removal import end, only_volumes
from provider.lifecycle.health.instability import Unstable
from provider.lifecycle.manifest_wait import ManifestWaits, traces_of_a_manifest
from provider.lifecycle.memory import Remembering
from provider.lifecycle.openings import Openings
from provider.lifecycle.parts import Parts
from provider.lifecycle.serving.convergence import forget_refusal, recreate, serve
from provider.lifecycle.state import LEASE_STATE, LeaseStatus, Outcome, Phase
from provider.lifecycle.survey import Survey
from provider.lifecycle.troubles import pause
from provider.protocols import Chain, Clock
from provider.protocols.cluster import SECRET
from provider.records.applied import applied_name, read_applied
from provider.records.manifests import BadRecordError
from provider.volumes.quarantine import Quarantine

__all__ = ["Reconciler"]

_BLOCKED_S = 30.0
_PROOF_S = 2.0
_log = structlog.get_logger(__name__)


class Reconciler:
    """Holds what may be forgotten: proofs in the making, the last status of each lease, who was ready once."""

    def __init__(
        self, parts: Parts, *, chain: Chain, clock: Clock, random: Random | None = None, memory: Memory | None = None
    ) -> None:
        config = parts.config
        self.proofs = Proofs(config.chain_id, confirmations=config.confirmations)
        self.brake = Brake(leases=config.brake_leases, percent=config.brake_percent, window_s=config.brake_window_s)
        self._unstable = Unstable(config.unstable_after_s)
        self._slow = SlowEnds()
        self.waits = ManifestWaits(config.manifest_timeout_s)
        self._openings = Openings(parts.engine, parts.cluster, parts.opening, records=config.records)
        seconds = config.volume_quarantine_s
        self.quarantine = Quarantine(parts.cluster, clock, provider=config.provider, duration_s=seconds)
        self._parts = replace(parts, tell=self._show)
        self._chain = chain
        self._clock = clock
        self._random = random or Random()  # noqa: S311 (spreads retries, protects nothing)
        self._statuses: dict[LeaseId, LeaseStatus] = {}
        self._was_ready: set[LeaseId] = set()
        self.survey: Survey | None = None
        """Used for leases that nothing has happened to since it was taken."""
        self._suspects: dict[LeaseId, str] = {}
        self._condemned: set[LeaseId] = set()
        self.memory = Remembering(
            memory or Forgetful(), self.brake, condemned=self._condemned, waits=self.waits, clock=clock
        )

    @property
    def statuses(self) -> Mapping[LeaseId, LeaseStatus]:
        """The last word on every lease that is not closed."""
        return MappingProxyType(self._statuses)

    @property
    def suspects(self) -> Mapping[LeaseId, str]:
        """Leases that look closed without proof, and what was said of each."""
        return MappingProxyType(self._suspects)

    def condemn(self, lease: LeaseId) -> bool:
        """An operator's word: it has ended. It counts for a suspect only, and until the chain calls it alive."""
        if lease in self._suspects:
            self._condemned.add(lease)
        return lease in self._suspects

    async def reconcile(self, lease: LeaseId) -> Outcome:
        """One look. Never raises for what goes wrong with the lease, the chain, the cluster or the engine."""
        try:
            outcome = await self._look(lease)
        except (ChainError, ClusterError) as error:
            self._unstable.saw_nothing(lease, now=self._clock.monotonic())
            self.waits.saw_nothing(lease)
            outcome = Outcome(self._phase(lease), str(error), retry=True)
        except (BadRecordError, HostnameRefusedError, AddressesExhaustedError, SpecRefused) as error:
            self.waits.forget(lease)  # there is a manifest, good or bad
            outcome = Outcome(Phase.BLOCKED, str(error), again_in=_BLOCKED_S)
        except Exception as error:
            # a defect of ours in one lease must not stop the others; it is loud, and the lease is left as it is
            _log.exception("lifecycle.reconcile_failed", lease=str(lease))
            outcome = Outcome(self._phase(lease), f"unexpected {type(error).__name__}: {error}", retry=True)
        outcome = self._note(lease, outcome)
        self._slow.saw(lease, outcome, now=self._clock.monotonic())
        await self.memory.remember()
        return outcome

    async def retry_refused(self, lease: LeaseId) -> None:
        """An operator's word: the cluster was put right, try the refused version again at the next look."""
        records = self._parts.config.records
        secret = await self._parts.cluster.get(SECRET, applied_name(lease), namespace=records)
        await forget_refusal(self._parts.cluster, lease, read_applied(secret), records=records)

    async def recreate(self, lease: LeaseId) -> bool:
        """An operator's word: see `serving.recreate`. Raises `ClusterError` and `BadRecordError`."""
        records = self._parts.config.records
        secret = await self._parts.cluster.get(SECRET, applied_name(lease), namespace=records)
        return await recreate(self._parts.cluster, lease, read_applied(secret), records=records)

    def fresh(self, lease: LeaseId) -> None:
        """Something new was said about it: trouble with what was before does not delay it."""
        status = self._statuses.get(lease)
        if status is not None and status.attempts:
            self._statuses[lease] = replace(status, attempts=0)

    async def _look(self, lease: LeaseId) -> Outcome:
        judgement = self.proofs.weigh(lease, await self._chain.lease(lease))
        if judgement.verdict is not Verdict.ALIVE and (kept := await self._only_volumes(lease)):
            return kept
        match judgement.verdict:
            case Verdict.ALIVE:
                self.brake.not_ended(lease, now=self._clock.monotonic())
                self._cleared(lease)
                return await self._serve(lease)
            case Verdict.ENDED:
                await self._openings.withdraw(lease)
                return await self._end(lease, judgement)
            case Verdict.LOOKS_ENDED | Verdict.NO_WORD:
                if judgement.verdict is Verdict.LOOKS_ENDED:
                    await self._openings.withdraw(lease)
                self.waits.saw_nothing(lease)
                if judgement.suspect:
                    self._suspects[lease] = judgement.reason
                    if lease in self._condemned:
                        return await end(self._parts, lease, self.quarantine)
                return self._undecided(lease, judgement)

    async def _only_volumes(self, lease: LeaseId) -> Outcome | None:
        """Its end is over but for volumes in quarantine: nothing is left to prove or for the brake to hold."""
        before = self._phase(lease) is Phase.QUARANTINED
        return await only_volumes(self._parts, lease, self.quarantine, kept_before=before)

    def _cleared(self, lease: LeaseId) -> None:
        self._suspects.pop(lease, None)
        self._condemned.discard(lease)

    async def _serve(self, lease: LeaseId) -> Outcome:
        outcome = await self.survey.look(self._parts, lease) if self.survey is not None else None
        outcome = outcome or await serve(self._parts, lease)
        if outcome.phase is Phase.WAITING_FOR_MANIFEST:
            return await self._wait(lease, outcome)
        self.waits.forget(lease)
        seen = self._unstable.saw(lease, unstable=outcome.of_the_tenant, now=self._clock.monotonic())
        if self._unstable.over(lease):
            outcome = replace(outcome, reason=f"{outcome.reason}; so for {seen:.0f} s")
            return await self._give_up(lease, outcome, CloseReason.UNSTABLE)
        if outcome.of_the_tenant and outcome.again_in is None:
            outcome = replace(outcome, again_in=self._unstable.look_again_s)
        return self._ready_once(lease, outcome)

    async def _wait(self, lease: LeaseId, outcome: Outcome) -> Outcome:
        """Its manifest is to come: the engine may begin before it; when it does not come in time the room is wanted."""
        left = self.waits.left(lease, now=self._clock.monotonic())
        if left is None or left > 0:
            await self._openings.offer(lease)
        if left is None:
            return outcome
        limit, again_in = f"{self.waits.limit_s:g} s", self.waits.next_look(left)
        if left > 0:
            reason = f"{outcome.reason}; the lease is given up {limit} after it was won"
            return replace(outcome, reason=reason, again_in=again_in)
        if trace := await traces_of_a_manifest(self._parts.cluster, lease, records=self._parts.config.records):
            return replace(outcome, reason=f"{outcome.reason}; it had one and is not given up: {trace}")
        await self._openings.withdraw(lease)
        outcome = replace(outcome, reason=f"no manifest has come within {limit}")
        return replace(await self._give_up(lease, outcome, CloseReason.MANIFEST_TIMEOUT), again_in=again_in)

    async def _give_up(self, lease: LeaseId, outcome: Outcome, reason: CloseReason) -> Outcome:
        """Ask the chain to end a lease whose application does not run (kubernetes-objects.md §4.4), or has never been
        sent. Only when the chain then says that it has ended is anything removed.
        """
        found = (await self._chain.lease(lease)).lease
        if found is None:
            return outcome
        message = ending_message(found, reason=reason, now=self._clock.now())
        if message is None:
            return replace(outcome, reason=f"the provider gives this lease up after its notice: {outcome.reason}")
        try:
            await self._chain.broadcast([message])
        except ChainError as error:
            waits = f"the provider gives this lease up and the chain does not know yet: {outcome.reason}; {error}"
            return replace(outcome, reason=waits, retry=True)
        _log.warning(f"lifecycle.{reason.name.lower()}", lease=str(lease), reason=outcome.reason)
        self._unstable.forget(lease)
        self.waits.asked(lease, now=self._clock.monotonic())
        return replace(outcome, reason=f"the provider gives this lease up: {outcome.reason}")

    async def _end(self, lease: LeaseId, judgement: Judgement) -> Outcome:
        braking = bool(self.brake.held)
        if not self.brake.may_remove(lease, now=self._clock.monotonic()):
            if not braking:
                _log.error("lifecycle.brake_holds", problem=self.brake.why())
            return Outcome(self._phase(lease), f"nothing is removed: {judgement.reason}; {self.brake.why()}")
        await self.memory.remember()
        outcome = await end(self._parts, lease, self.quarantine)
        return replace(outcome, reason=outcome.reason or judgement.reason)

    def _undecided(self, lease: LeaseId, judgement: Judgement) -> Outcome:
        """Nothing is applied and nothing removed until the chain says more."""
        soon = judgement.verdict is Verdict.LOOKS_ENDED
        return Outcome(
            self._phase(lease),
            f"nothing is changed: {judgement.reason}",
            again_in=_PROOF_S if soon else None,
            retry=not soon,
        )

    def _phase(self, lease: LeaseId) -> Phase:
        """The phase before, for a look that could not tell."""
        status = self._statuses.get(lease)
        return status.phase if status else Phase.UNKNOWN

    def _ready_once(self, lease: LeaseId, outcome: Outcome) -> Outcome:
        """Not ready yet is not degraded."""
        if outcome.phase is Phase.RUNNING:
            self._was_ready.add(lease)
        if outcome.phase is Phase.DEGRADED and lease not in self._was_ready:
            return replace(outcome, phase=Phase.APPLYING)
        return outcome

    def _note(self, lease: LeaseId, outcome: Outcome) -> Outcome:
        before = self._statuses.get(lease)
        attempts = (before.attempts if before else 0) + 1 if outcome.retry else 0
        if outcome.retry:
            outcome = replace(outcome, again_in=pause(attempts, random=self._random))
        if before is None or (before.phase, before.reason) != (outcome.phase, outcome.reason):
            status = LeaseStatus(lease, outcome.phase, outcome.reason, self._clock.now(), attempts)
            self._parts.bus.publish(LEASE_STATE, status)
        else:
            status = replace(before, attempts=attempts)
        self._statuses[lease] = status
        if outcome.phase is Phase.CLOSED:
            self._forget(lease)
        if outcome.phase is Phase.QUARANTINED:
            self._cleared(lease)
            self.brake.done(lease)
        return outcome

    def _show(self, lease: LeaseId, outcome: Outcome) -> None:
        """What a look does while it goes on, so that nobody reads an old state meanwhile."""
        before = self._statuses.get(lease)
        if before is None or (before.phase, before.reason) != (outcome.phase, outcome.reason):
            attempts = before.attempts if before else 0
            self._statuses[lease] = LeaseStatus(lease, outcome.phase, outcome.reason, self._clock.now(), attempts)
            self._parts.bus.publish(LEASE_STATE, self._statuses[lease])

    def _forget(self, lease: LeaseId) -> None:
        self._statuses.pop(lease)
        self._unstable.forget(lease)
        self.waits.forget(lease)
        self._openings.forget(lease)
        self._cleared(lease)
        self.brake.done(lease)
        self._was_ready.discard(lease)
        self.proofs.forget(lease)
