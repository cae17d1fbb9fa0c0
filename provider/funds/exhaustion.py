"""When the escrow of each lease runs out, by this provider's own arithmetic and clock: evidence of an end for want of
funds that a node cannot make up afterwards.

A node that lies about an end may lie about the escrow and the height as well. So a later reading only moves the height
at which an account runs out further away, as a deposit does, and a height counts only when the provider's own clock
allows for the blocks up to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lease.ids import LeaseId
from provider.funds.escrow import LeaseFunds

__all__ = ["Exhaustion"]

_MEASURED_S = 60.0
"""The pace of blocks is measured over the first minute and then stays: a node that jumps ahead cannot change it."""
_SHARE_OF_PACE = 0.5
"""Blocks may come twice as fast as measured."""
_UNMEASURED_S = 1.0
"""The seconds of a block until the pace is measured."""
_SLACK_S = 60.0
_KEPT_S = 86400.0


@dataclass(frozen=True, slots=True)
class _Account:
    """The account runs out at height `ends`; its lease was listed last at `seen_at`."""

    ends: int
    seen_at: float


class Exhaustion:
    """Times are monotonic seconds. Nothing outlives a restart: an account that ran out meanwhile has no evidence
    here.
    """

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._block_s = 0.0
        self._accounts: dict[LeaseId, _Account] = {}

    def observe(self, seen: Iterable[LeaseFunds], *, now: float) -> None:
        """Take in the money of all earning leases, as a check of them has read it. A reading at a height that the clock
        does not allow changes nothing.
        """
        for item in seen:
            self._measure(item.height, now)
            if item.runs_out_at is not None and self._passed(item.height, now):
                before = self._accounts.get(item.payment.lease)
                ends = max(item.runs_out_at, before.ends if before else 0)
                self._accounts[item.payment.lease] = _Account(ends, now)
        for lease in [lease for lease, account in self._accounts.items() if now - account.seen_at > _KEPT_S]:
            del self._accounts[lease]

    def ran_out(self, lease: LeaseId, height: int, *, now: float) -> bool:
        """Whether the account of `lease` had run out by `height`, and the clock allows that this height has passed."""
        account = self._accounts.get(lease)
        return account is not None and account.ends <= height and self._passed(account.ends, now)

    def _measure(self, height: int, now: float) -> None:
        if self._first is None:
            self._first = (height, now)
        first, at = self._first
        if not self._block_s and now - at >= _MEASURED_S and height > first:
            self._block_s = _SHARE_OF_PACE * (now - at) / (height - first)

    def _passed(self, height: int, now: float) -> bool:
        """Whether this provider has run long enough for the chain to be at `height`."""
        if self._first is None:
            return False
        first, at = self._first
        return (height - first) * (self._block_s or _UNMEASURED_S) <= now - at + _SLACK_S
