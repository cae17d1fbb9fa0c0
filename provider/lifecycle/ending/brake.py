"""The teardown brake: of the leases that only one node calls ended, some are removed in an hour, the rest are held.

Each of these leases is proven closed by two answers, but one lying node can give both answers and fake the events. The
brake is not asked about a lease whose end has evidence of another kind (`ending.evidence`; field problem G1).
"""

from __future__ import annotations

from dataclasses import dataclass

from lease.ids import LeaseId
from provider.lifecycle.directives import Directive, DirectiveKind

__all__ = ["Brake", "Clearance"]

_ALWAYS = 3
"""So many may always go: on a small provider one lease is already a large share."""

_NODES_WAIT_S = 3600.0
"""A named node that is away for so long counts as not named."""


@dataclass(slots=True)
class Clearance:
    """What the brake has decided about one lease. Times are monotonic seconds.

    `announced_at`: when evidence of the end was found, or an operator released the lease. `let_at`: when the brake
    allowed the removal that is under way. `held`: proven closed and not removed. `waits_since`: when evidence was first
    looked for, while the other nodes do not answer.
    """

    announced_at: float | None = None
    let_at: float | None = None
    held: bool = False
    waits_since: float | None = None

    def waits_for_nodes(self, *, now: float) -> bool:
        """Whether the lease still waits for a second node to answer; an hour at most."""
        self.waits_since = now if self.waits_since is None else self.waits_since
        return now - self.waits_since < _NODES_WAIT_S

    @property
    def given(self) -> bool:
        """Whether the lease may go."""
        return self.announced_at is not None or self.let_at is not None

    def announce(self, *, now: float) -> None:
        """There is evidence of the end, or an operator released the lease."""
        self.announced_at = now
        self.held = False

    def not_ended(self, *, now: float, window_s: float) -> None:
        """The chain calls the lease alive after all. A clearance that is older than the window is dropped; a younger
        one stays, because the node may only be behind.
        """
        self.held, self.waits_since = False, None
        self.let_at = None
        if self.announced_at is not None and now - self.announced_at >= window_s:
            self.announced_at = None

    def directives(self, lease: LeaseId, *, shift: float) -> list[Directive]:
        """What a restart must know of the lease; `shift` turns monotonic seconds into Unix seconds."""
        found = [Directive(lease, DirectiveKind.HELD, 0.0)] if self.held else []
        if self.let_at is not None:
            found.append(Directive(lease, DirectiveKind.LET, self.let_at + shift))
        if self.announced_at is not None:
            found.append(Directive(lease, DirectiveKind.MAY_GO, self.announced_at + shift))
        return found


class Brake:
    """The window over all leases. `leases` and `percent` (of all known leases; 100 for no share) are the most that may
    be removed without evidence within `window_s` seconds.
    """

    def __init__(self, *, leases: int, percent: float, window_s: float) -> None:
        self.window_s = window_s
        self._leases = leases
        self._percent = percent
        self._let: dict[LeaseId, float] = {}
        self._known = 0

    def limit(self, *, leases: int, percent: float, window_s: float) -> None:
        """Take other limits from now on. What was allowed or is held stays so."""
        self.window_s, self._leases, self._percent = window_s, leases, percent

    def knows(self, leases: int) -> None:
        """Set how many leases this provider has: `percent` is a share of that number."""
        self._known = leases

    def may_remove(self, lease: LeaseId, clearance: Clearance, *, now: float, on: bool) -> bool:
        """Whether the removal of `lease` may begin or go on; a lease that may not is held from now on. `on`: the brake
        holds at least one lease already. A removal that was allowed once goes on to its end.
        """
        self._let = self.let_within(now=now)
        if lease in self._let:
            clearance.let_at = self._let[lease]
        if clearance.given:
            return True
        if on or len(self._let) + 1 > self._most():
            clearance.held = True
            return False
        self._let[lease] = clearance.let_at = now
        return True

    def let_within(self, *, now: float) -> dict[LeaseId, float]:
        """Leases whose removal the brake allowed within the window, with the time. Removed leases count too."""
        return {lease: at for lease, at in self._let.items() if now - at < self.window_s}

    def why(self, *, held: int) -> str:
        """Why the brake holds leases, `held` of them."""
        return (
            f"teardown brake: {len(self._let)} leases were removed in {self.window_s:g} s that one node alone called"
            f" closed, and {held} more are said to be closed; these stay until there is evidence beside that node's"
            " answers (a second node in AP_NODE gives it) or an operator releases the brake"
        )

    def restore(self, lease: LeaseId, *, at: float) -> None:
        """Count a removal that was allowed before a restart."""
        self._let[lease] = at

    def _most(self) -> int:
        """How many may go in a window: neither more than the number nor more than the share."""
        share = self._leases if self._percent >= 100 else int(self._percent * self._known / 100)
        return max(_ALWAYS, min(self._leases, share))
