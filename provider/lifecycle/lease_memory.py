"""What the lease loop remembers of each lease: one object a lease, whose parts are small state machines.

Forgetting a lease is `del memories[lease]`. A restart forgets everything but the directives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import structlog

from lease.hostnames import overlapping
from lease.ids import LeaseId
from provider.lifecycle.config import LifecycleConfig
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.lifecycle.drift import Drift
from provider.lifecycle.ending.brake import Clearance
from provider.lifecycle.ending.notice import Notice
from provider.lifecycle.manifest_wait import ManifestWait
from provider.lifecycle.state import WITH_MANIFEST, LeaseStatus, Outcome, Phase
from provider.waits import GrowingPause

__all__ = ["Instability", "LeaseMemory", "Memories", "SlowEnd", "Statuses", "Steadiness"]

_LONGEST_GAP_S = 60.0
"""No more than this counts between two checks: what happened while nobody checked is not known."""
_SLOW_END_S = 600.0
_FORGET_FALLS_S = 600.0
_LOOP = 2
"""So many ends in a row are a loop: one may be an accident."""
_STEADY = GrowingPause(first=30.0, longest=_FORGET_FALLS_S)
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Instability:
    """How long a tenant's application has been seen not to run (kubernetes-objects.md §4.4). `limit_s` 0: no limit.

    The Go provider closes a lease after so many unhealthy checks, whatever made them unhealthy. Here only time counts
    in which the cluster was seen and all the trouble was the application's own: a node, a network or an API server that
    is away is not the tenant's fault. Forgetting the time only gives the tenant more of it.
    """

    limit_s: float
    seconds: float = 0.0
    last_seen: float | None = None

    @property
    def check_again_s(self) -> float | None:
        """Seconds until an unstable lease is checked again, None when nothing is counted."""
        return min(_LONGEST_GAP_S, self.limit_s) / 2 if self.limit_s else None

    @property
    def over(self) -> bool:
        """Whether the limit is reached."""
        return bool(self.limit_s) and self.last_seen is not None and self.seconds >= self.limit_s

    def saw(self, *, unstable: bool, now: float) -> float:
        """Count a check that saw everything; returns the seconds counted so far. `now` is monotonic."""
        if not unstable or not self.limit_s:
            self.reset()
            return 0.0
        self.seconds += min(now - (now if self.last_seen is None else self.last_seen), _LONGEST_GAP_S)
        self.last_seen = now
        return self.seconds

    def saw_nothing(self, *, now: float) -> None:
        """A check failed: the time since the check before does not count."""
        if self.last_seen is not None:
            self.last_seen = now

    def reset(self) -> None:
        self.seconds, self.last_seen = 0.0, None


@dataclass(slots=True)
class Steadiness:
    """Calls a lease that crashes again and again degraded until it has stayed ready for a time: without that its state
    changes twice at each restart.

    `falls`: how often the application went from ready to not ready, until it has stayed ready for ten minutes (then the
    kubelet forgets its restarts too) or another version is applied. `ready_since` is monotonic.
    """

    falls: int = 0
    down: bool = False
    ready_since: float | None = None

    def saw(self, outcome: Outcome, *, now: float) -> Outcome:
        """The outcome to show for a check's outcome."""
        if outcome.phase is Phase.APPLYING:
            self.falls, self.down, self.ready_since = 0, False, None
        if outcome.phase is Phase.DEGRADED and outcome.of_the_tenant:
            self.falls += not self.down
            self.down, self.ready_since = True, None
        if outcome.phase is not Phase.RUNNING or not self.falls:
            return outcome
        self.down, self.ready_since = False, now if self.ready_since is None else self.ready_since
        ready_s = now - self.ready_since
        if ready_s >= _FORGET_FALLS_S:
            self.falls = 0
        if self.falls < _LOOP or ready_s >= (steady_s := _STEADY.after(self.falls - 1)):
            return outcome
        text = (
            f"the application has ended {self.falls} times; it is ready again, and called running after {steady_s:g} s"
        )
        reason = "; ".join(filter(None, (text, outcome.reason)))
        return replace(outcome, phase=Phase.DEGRADED, reason=reason, again_in=steady_s - ready_s)


@dataclass(slots=True)
class SlowEnd:
    """Logs once that a lease has been closing for ten minutes, and what it waits for: its capacity cannot be sold
    again, and nobody notices (field problem H3).
    """

    since: float | None = None
    logged: bool = False

    def saw(self, lease: LeaseId, outcome: Outcome, *, now: float) -> None:
        """`now` is monotonic, seconds."""
        if outcome.phase is not Phase.CLOSING:
            self.since, self.logged = None, False
            return
        self.since = now if self.since is None else self.since
        if now - self.since >= _SLOW_END_S and not self.logged:
            self.logged = True
            _log.error(
                "lifecycle.slow_end", lease=str(lease), minutes=round((now - self.since) / 60), reason=outcome.reason
            )


@dataclass(slots=True)
class LeaseMemory:
    """`closed_heights`: heights at which the chain said that the lease has ended. `suspicion`: why the lease looks
    closed without proof, empty when it does not. `called_closed`: an operator says that it has ended; this counts for a
    suspect only, and until the chain calls the lease alive. `was_ready`: its workloads have been ready once. `sent`:
    the tenant has sent a manifest since the last check. `waits_for`: the names of claims of other leases that have what
    this lease asks for.
    """

    instability: Instability
    manifest_wait: ManifestWait
    status: LeaseStatus | None = None
    was_ready: bool = False
    sent: bool = False
    waits_for: frozenset[str] = frozenset()
    suspicion: str = ""
    called_closed: bool = False
    closed_heights: set[int] = field(default_factory=set)
    clearance: Clearance = field(default_factory=Clearance)
    notice: Notice = field(default_factory=Notice)
    drift: Drift = field(default_factory=Drift)
    slow_end: SlowEnd = field(default_factory=SlowEnd)
    steadiness: Steadiness = field(default_factory=Steadiness)

    @property
    def phase(self) -> Phase:
        """The last phase: it stays when a check cannot tell."""
        return self.status.phase if self.status else Phase.UNKNOWN

    def clear_suspicion(self) -> None:
        self.suspicion, self.called_closed = "", False

    def directives(self, lease: LeaseId, *, now: float, wall: float) -> list[Directive]:
        """What a restart must know of the lease. `now` is monotonic, `wall` the same moment in Unix seconds."""
        shift = wall - now
        found = self.clearance.directives(lease, shift=shift)
        if self.called_closed:
            found.append(Directive(lease, DirectiveKind.CALLED_CLOSED, 0.0))
        if self.manifest_wait.known_since is not None:
            found.append(Directive(lease, DirectiveKind.AWAITED, self.manifest_wait.known_since + shift))
            if self.manifest_wait.served:
                found.append(Directive(lease, DirectiveKind.SERVED, 0.0))
        if self.notice.proven:
            found.append(Directive(lease, DirectiveKind.NOTICE, 0.0))
        return found

    def restore(self, kind: DirectiveKind, *, at: float, removing: bool) -> None:
        """Take over one directive from before a restart. `at` is monotonic; `removing`: an allowed removal goes on."""
        match kind:
            case DirectiveKind.HELD:
                self.clearance.held = True
            case DirectiveKind.LET if removing:
                self.clearance.let_at = at
            case DirectiveKind.MAY_GO:
                self.clearance.announced_at = at
            case DirectiveKind.CALLED_CLOSED:
                self.called_closed = True
            case DirectiveKind.AWAITED:
                self.manifest_wait.restore(known_since=at)
            case DirectiveKind.SERVED:
                self.manifest_wait.served = True
            case DirectiveKind.NOTICE:
                self.notice.proven = True


class Memories(dict[LeaseId, LeaseMemory]):
    """The memory of every lease that the lease loop knows; reading a missing one makes it."""

    def __init__(self, config: LifecycleConfig) -> None:
        super().__init__()
        self._config = config
        self.before: dict[LeaseId, LeaseStatus] = {}
        """The last status from before a restart of each lease that was not checked since."""

    def __missing__(self, lease: LeaseId) -> LeaseMemory:
        config = self._config
        made = LeaseMemory(Instability(config.unstable_after_s), ManifestWait(config.manifest_timeout_s))
        before = self.before.get(lease)
        made.was_ready = before is not None and before.phase in (Phase.RUNNING, Phase.DEGRADED)
        made.manifest_wait.served = before is not None and before.phase in WITH_MANIFEST
        self[lease] = made
        return made

    def waiting_for(self, claim: str) -> list[LeaseId]:
        """Leases that ask for what the claim holds, or for a hostname that it overlaps. `claim`: the hostname, or the
        name of the ProviderLeasedIP.
        """
        return [
            lease
            for lease, memory in self.items()
            if claim in memory.waits_for or any(overlapping(claim, memory.waits_for))
        ]

    def held(self) -> frozenset[LeaseId]:
        """Leases that are proven closed and that the brake holds; empty when the brake is off."""
        return frozenset(lease for lease, memory in self.items() if memory.clearance.held)

    def release_held(self, *, now: float) -> tuple[LeaseId, ...]:
        """Let every lease go that the brake holds, and only those. Returns them, sorted."""
        released = tuple(sorted(self.held()))
        for lease in released:
            self[lease].clearance.announce(now=now)
        return released

    def suspects(self) -> dict[LeaseId, str]:
        """Leases that look closed without proof, and why."""
        return {lease: memory.suspicion for lease, memory in self.items() if memory.suspicion}

    def only(self, leases: Collection[LeaseId]) -> None:
        """`leases` are all that there are: one that waited for a manifest or had notice before a restart, and has ended
        since, needs neither any more.
        """
        for lease, memory in self.items():
            if lease not in leases:
                memory.manifest_wait.drop_unseen()
                memory.notice.end()


class Statuses(Mapping[LeaseId, LeaseStatus]):
    """A view of `memories`: the last status of every lease that is not closed."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories

    def __getitem__(self, lease: LeaseId) -> LeaseStatus:
        memory = self._memories.get(lease)
        if memory is None or memory.status is None:
            raise KeyError(lease)
        return memory.status

    def __iter__(self) -> Iterator[LeaseId]:
        return (lease for lease, memory in self._memories.items() if memory.status is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
