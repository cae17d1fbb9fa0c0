"""`Reconciler.reconcile(lease)`: ask the chain, then serve or end the lease, and note the outcome for operators.

A check is level-triggered: it may be made at any time, any number of times, and after a crash at any line. The lease
loop makes one check of a lease at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import structlog

from lease.ids import LeaseId
from provider.chain.messages import CloseReason
from provider.errors import ChainError, ClusterError
from provider.lifecycle.cluster_lists import ClusterLists
from provider.lifecycle.directives import DirectiveStore, NoDirectiveStore
from provider.lifecycle.ending.brake import Brake, Clearance
from provider.lifecycle.ending.close_request import request_close
from provider.lifecycle.ending.evidence import Finding, RanOut, find_evidence
from provider.lifecycle.ending.notice import follow_notice
from provider.lifecycle.ending.proof import AnswerJudge, Judgement, Verdict
from provider.lifecycle.ending.removal import end, only_volumes
from provider.lifecycle.lease_memory import LeaseMemory, Memories, Statuses
from provider.lifecycle.manifest_wait import traces_of_a_manifest
from provider.lifecycle.parts import Parts
from provider.lifecycle.restart_record import RestartRecord
from provider.lifecycle.serving.blocked import BLOCKING, blocked_outcome
from provider.lifecycle.serving.convergence import forget_refusal, recreate, serve, take_back
from provider.lifecycle.state import LEASE_STATE, WITH_MANIFEST, LeaseStatus, Outcome, Phase
from provider.protocols import Chain, Clock
from provider.protocols.chain import Lease
from provider.protocols.cluster import SECRET
from provider.records.applied import applied_name, read_applied
from provider.records.manifests import BadRecordError
from provider.volumes.quarantine import Quarantine
from provider.waits import GrowingPause, jittered
from stacks.common import EngineError, exception_text

__all__ = ["Reconciler", "retry_pause"]

_PROOF_S = 2.0
_NODES_S = 10.0
_HELD_S = 60.0
"""A lease that is held is checked so often for evidence of its end."""
_LONGEST_PAUSE_S = 300.0
_log = structlog.get_logger(__name__)


class Reconciler:
    """Checks leases. `memories` holds what is remembered of each lease, `judge` and `brake` what concerns all."""

    def __init__(
        self,
        parts: Parts,
        *,
        chain: Chain,
        clock: Clock,
        random: Random | None = None,
        directives: DirectiveStore | None = None,
        ran_out: RanOut = lambda lease, height: False,
    ) -> None:
        config = parts.config
        self.judge = AnswerJudge(config.chain_id, confirmations=config.confirmations)
        self.brake = Brake(leases=config.brake_leases, percent=config.brake_percent, window_s=config.brake_window_s)
        self.memories = Memories(config)
        self.record = RestartRecord(directives or NoDirectiveStore(), self.memories, self.brake, clock=clock)
        seconds = config.volume_quarantine_s
        self.quarantine = Quarantine(parts.cluster, clock, provider=config.provider, duration_s=seconds)
        self._parts = replace(parts, show=self._show)
        self._chain = chain
        self._clock = clock
        self._ran_out = ran_out
        self._random = random or Random()  # noqa: S311 (spreads retries, protects nothing)
        self.lists: ClusterLists | None = None
        """Used for leases to which nothing has happened since the lists were read."""

    @property
    def statuses(self) -> Mapping[LeaseId, LeaseStatus]:
        """The last status of every lease that is not closed."""
        return Statuses(self.memories)

    def call_closed(self, lease: LeaseId) -> bool:
        """An operator says that this lease has ended. Returns whether it is a suspect or held by the brake; else
        nothing changes.
        """
        memory = self.memories.get(lease)
        if memory is not None and memory.clearance.held:
            memory.clearance.announce(now=self._clock.monotonic())
            return True
        if memory is None or not memory.suspicion:
            return False
        memory.called_closed = True
        return True

    def release_brake(self) -> tuple[LeaseId, ...]:
        """An operator releases the brake: the leases that it holds may go, and only those. Returns them."""
        return self.memories.release_held(now=self._clock.monotonic())

    def unproven(self) -> tuple[LeaseId, ...]:
        """Leases that looked ended but not often enough: a new block may complete their proof."""
        memories = self.memories.items()
        return tuple(lease for lease, memory in memories if self.judge.incomplete(memory.closed_heights))

    async def reconcile(self, lease: LeaseId) -> Outcome:
        """Check the lease once. Never raises for what goes wrong with the lease, the chain, the cluster or the
        engine.
        """
        memory = self.memories[lease]
        try:
            outcome = await self._check(lease, memory)
        except (ChainError, ClusterError, EngineError) as error:
            memory.instability.saw_nothing(now=self._clock.monotonic())
            memory.manifest_wait.saw_nothing()
            outcome = Outcome(memory.phase, str(error), retry=True)
        except (BadRecordError, *BLOCKING) as error:
            memory.manifest_wait.end()  # there is a manifest, good or bad
            outcome = blocked_outcome(error)
        except Exception as error:
            # a defect in one lease must not stop the others; it is loud, and the lease is left as it is
            _log.exception("lifecycle.reconcile_failed", lease=str(lease))
            outcome = Outcome(memory.phase, f"unexpected {exception_text(error)}", retry=True)
        memory.waits_for = outcome.waits_for
        outcome = self._note(lease, memory, outcome)
        memory.slow_end.saw(lease, outcome, now=self._clock.monotonic())
        await self.record.write(lease)
        return outcome

    def manifest_sent(self, lease: LeaseId) -> None:
        """The tenant has sent a manifest: the next check tries it, also when the same one has failed before."""
        self.memories[lease].sent = True

    async def retry_refused(self, lease: LeaseId) -> None:
        """The cluster may have been put right: the next check tries the refused version again."""
        records = self._parts.config.records
        secret = await self._parts.cluster.get(SECRET, applied_name(lease), namespace=records)
        await forget_refusal(self._parts.cluster, lease, read_applied(secret), records=records)

    async def _take_back(self, lease: LeaseId) -> None:
        records = self._parts.config.records
        secret = await self._parts.cluster.get(SECRET, applied_name(lease), namespace=records)
        await take_back(self._parts.cluster, lease, read_applied(secret), records=records)

    async def recreate(self, lease: LeaseId) -> bool:
        """An operator asks for it: see `serving.recreate`. Raises `ClusterError` and `BadRecordError`."""
        records = self._parts.config.records
        secret = await self._parts.cluster.get(SECRET, applied_name(lease), namespace=records)
        return await recreate(self._parts.cluster, lease, read_applied(secret), records=records)

    def fresh(self, lease: LeaseId) -> None:
        """There is news of the lease: trouble with its state before does not delay the next check."""
        memory = self.memories.get(lease)
        if memory is not None and memory.status is not None and memory.status.attempts:
            memory.status = replace(memory.status, attempts=0)

    async def _check(self, lease: LeaseId, memory: LeaseMemory) -> Outcome:
        answer = await self._chain.lease(lease)
        judgement = self.judge.judge(lease, answer, memory.closed_heights)
        if judgement.verdict is not Verdict.ALIVE and (kept := await self._only_volumes(lease, memory)):
            return kept
        match judgement.verdict:
            case Verdict.ALIVE:
                memory.clearance.not_ended(now=self._clock.monotonic(), window_s=self.brake.window_s)
                memory.clear_suspicion()
                if answer.lease is not None:
                    await follow_notice(self._chain, self._clock, answer.lease, memory.notice)
                return await self._serve(lease, memory)
            case Verdict.ENDED:
                memory.notice.end()
                if answer.lease is not None and (waits := await self._without_evidence(answer.lease, memory)):
                    return replace(waits, reason=f"nothing is removed: {judgement.reason}; {waits.reason}")
                return await self._end(lease, memory, judgement)
            case Verdict.LOOKS_ENDED | Verdict.NOTHING_PROVEN:
                memory.manifest_wait.saw_nothing()
                if judgement.suspect:
                    memory.suspicion = judgement.reason
                    if memory.called_closed:
                        return await end(self._parts, lease, self.quarantine)
                return _undecided(memory, judgement)

    async def _only_volumes(self, lease: LeaseId, memory: LeaseMemory) -> Outcome | None:
        """The outcome when only volumes in quarantine are left: nothing is to be proven or held by the brake."""
        before = memory.phase is Phase.QUARANTINED
        return await only_volumes(self._parts, lease, self.quarantine, kept_before=before)

    async def _serve(self, lease: LeaseId, memory: LeaseMemory) -> Outcome:
        if memory.sent and memory.phase in (Phase.FAILED, Phase.UPDATE_FAILED):
            await self.retry_refused(lease)
        if memory.sent:
            await self._take_back(lease)
        memory.sent = False
        outcome = await self._by_lists(lease, memory) or await serve(self._parts, lease, memory.drift)
        if outcome.phase is Phase.WAITING_FOR_MANIFEST:
            return await self._wait(lease, memory, outcome)
        memory.manifest_wait.end()
        memory.manifest_wait.served |= outcome.phase in WITH_MANIFEST
        instability, now = memory.instability, self._clock.monotonic()
        shown = memory.steadiness.saw(outcome, now=now)
        if shown is not outcome:  # ready, between two ends of a crash loop: no time counts, and none is forgotten
            instability.saw_nothing(now=now)
            return shown
        seconds = instability.saw(unstable=outcome.of_the_tenant, now=now)
        if instability.over:
            outcome = replace(outcome, reason=f"{outcome.reason}; the application has not run for {seconds:.0f} s")
            return await self._give_up(lease, memory, outcome=outcome, reason=CloseReason.UNSTABLE)
        if outcome.of_the_tenant and outcome.again_in is None:
            outcome = replace(outcome, again_in=instability.check_again_s)
        return _ready_once(memory, outcome)

    async def _by_lists(self, lease: LeaseId, memory: LeaseMemory) -> Outcome | None:
        """The outcome by the lists, None where they do not say it. Lists that no lease needs any more are let go."""
        if (lists := self.lists) is None:
            return None
        outcome = await lists.check(self._parts, lease, memory.drift)
        if lists.used_up:
            self.lists = None
        return outcome

    async def _wait(self, lease: LeaseId, memory: LeaseMemory, outcome: Outcome) -> Outcome:
        """The manifest is still to come. The lease is given up when it does not come in time, so that its capacity can
        be sold.
        """
        wait = memory.manifest_wait
        left = wait.left(now=self._clock.monotonic())
        if left is None:
            return outcome
        limit, again_in = f"{wait.limit_s:g} s", wait.next_check_s(left)
        if left > 0:
            reason = f"{outcome.reason}; the lease is given up {limit} after it was won"
            return replace(outcome, reason=reason, again_in=again_in)
        trace = "this provider has served it" if wait.served else ""
        cluster, records = self._parts.cluster, self._parts.config.records
        if trace := trace or await traces_of_a_manifest(cluster, lease, records=records):
            return replace(outcome, reason=f"{outcome.reason}; the lease had one and is not given up: {trace}")
        outcome = replace(outcome, reason=f"no manifest has come within {limit}")
        outcome = await self._give_up(lease, memory, outcome=outcome, reason=CloseReason.MANIFEST_TIMEOUT)
        return replace(outcome, again_in=again_in)

    async def _give_up(self, lease: LeaseId, memory: LeaseMemory, *, outcome: Outcome, reason: CloseReason) -> Outcome:
        """Ask the chain to end the lease. Only when the chain then says that it has ended is anything removed."""
        outcome, sent = await request_close(self._chain, self._clock, lease, outcome=outcome, reason=reason)
        if sent:
            memory.instability.reset()
            memory.manifest_wait.asked(now=self._clock.monotonic())
        return outcome

    async def _without_evidence(self, lease: Lease, memory: LeaseMemory) -> Outcome | None:
        """The outcome of a check of a lease that may not go yet; None when there is evidence of its end, or when the
        brake lets it go without.
        """
        now, clearance, on = self._clock.monotonic(), memory.clearance, bool(self.memories.held())
        if clearance.given:
            return None
        evidence = await find_evidence(self._chain, lease, chain_id=self.judge.chain_id, ran_out=self._ran_out)
        if evidence.finding is Finding.EVIDENCE:
            clearance.announce(now=now)
            _log.info("lifecycle.end_has_evidence", lease=str(lease.id), evidence=evidence.text)
            return None
        if evidence.finding is Finding.CONTRADICTED:
            if not clearance.held:
                _log.error("lifecycle.nodes_disagree", lease=str(lease.id), problem=evidence.text)
            clearance.held = True
            return Outcome(memory.phase, f"the nodes disagree: {evidence.text}", again_in=_HELD_S)
        if evidence.finding is Finding.UNANSWERED and clearance.waits_for_nodes(now=now):
            return Outcome(memory.phase, evidence.text, again_in=_NODES_S)
        if self.brake.may_remove(lease.id, clearance, now=now, on=on):
            return None
        why = self.brake.why(held=len(self.memories.held()))
        if not on:
            _log.error("lifecycle.brake_holds", problem=why)
        return Outcome(memory.phase, why, again_in=_HELD_S)

    async def _end(self, lease: LeaseId, memory: LeaseMemory, judgement: Judgement) -> Outcome:
        await self.record.write(lease)
        outcome = await end(self._parts, lease, self.quarantine)
        return replace(outcome, reason=outcome.reason or judgement.reason)

    def _note(self, lease: LeaseId, memory: LeaseMemory, outcome: Outcome) -> Outcome:
        attempts = (memory.status.attempts if memory.status else 0) + 1 if outcome.retry else 0
        if outcome.retry:
            outcome = replace(outcome, again_in=retry_pause(attempts, random=self._random))
        if outcome.phase in (Phase.CLOSED, Phase.QUARANTINED):
            memory.notice.end()
        outcome = memory.notice.added_to(outcome)
        self._set_status(lease, memory, outcome, attempts=attempts)
        if outcome.phase is Phase.CLOSED:
            self.memories.pop(lease, None)
        if outcome.phase is Phase.QUARANTINED:
            memory.clear_suspicion()
            memory.clearance = Clearance()
        return outcome

    def _set_status(self, lease: LeaseId, memory: LeaseMemory, outcome: Outcome, *, attempts: int) -> None:
        """Publish the status when its phase or reason is new."""
        now, before = self._clock.now(), memory.status or self.memories.before.pop(lease, None)
        lasts = before is not None and (before.phase, before.reason) == (outcome.phase, outcome.reason)
        ending, remark, own = memory.notice.text, outcome.remark, outcome.of_the_provider
        if lasts and memory.status is not None:
            memory.status = replace(memory.status, attempts=attempts, ending=ending, remark=remark, of_the_provider=own)
            return
        since = before.since if before is not None and lasts else now
        memory.status = LeaseStatus(lease, outcome.phase, outcome.reason, since, attempts, ending, remark, own)
        self._parts.bus.publish(LEASE_STATE, memory.status)

    def _show(self, lease: LeaseId, outcome: Outcome) -> None:
        """Show what a check does while it goes on, so that nobody reads an old state meanwhile."""
        memory = self.memories[lease]
        self._set_status(lease, memory, outcome, attempts=memory.status.attempts if memory.status else 0)


def retry_pause(attempts: int, *, random: Random, longest: float = _LONGEST_PAUSE_S) -> float:
    """Seconds before try `attempts` + 1: 1, 2, 4 … `longest`, each cut by up to a half, so that leases spread."""
    return jittered(GrowingPause(1.0, longest).after(attempts), random=random)


def _undecided(memory: LeaseMemory, judgement: Judgement) -> Outcome:
    """Nothing is applied and nothing removed until the chain says more."""
    soon = judgement.verdict is Verdict.LOOKS_ENDED
    reason = f"nothing is changed: {judgement.reason}"
    return Outcome(memory.phase, reason, again_in=_PROOF_S if soon else None, retry=not soon)


def _ready_once(memory: LeaseMemory, outcome: Outcome) -> Outcome:
    """Workloads that have never been ready are still being applied, not degraded."""
    if outcome.phase is Phase.RUNNING:
        memory.was_ready = True
    if outcome.phase is Phase.DEGRADED and not memory.was_ready:
        return replace(outcome, phase=Phase.APPLYING)
    return outcome
