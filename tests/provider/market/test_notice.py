"""A lease ends only after the notice that its bid offered."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lease.ids import LeaseId
from lease.resources import Price
from provider.chain.messages import CloseReason
from provider.lifecycle.ending.close_request import ending_message
from provider.protocols.chain import Lease, LeaseState

pytestmark = pytest.mark.virtual_time

ID = LeaseId("akash1tenant", 7, 1, 1, "akash1provider")


@pytest.mark.parametrize(
    ("state", "window", "deadline", "now", "message"),
    [
        (LeaseState.ACTIVE, None, 0, 100.0, "MsgCloseBid"),
        (LeaseState.ACTIVE, 3600 * 10**9, 0, 100.0, "MsgLeaseStartReclaim"),
        (LeaseState.RECLAIMING, 3600 * 10**9, 3700, 3700.0, None),
        (LeaseState.RECLAIMING, 3600 * 10**9, 3700, 3700.5, "MsgCloseBid"),
        (LeaseState.CLOSED, 3600 * 10**9, 3700, 9999.0, None),
        (LeaseState.INSUFFICIENT_FUNDS, None, 0, 9999.0, None),
    ],
)
def test_a_lease_with_a_window_is_given_notice_and_ended_only_after_it(state, window, deadline, now, message) -> None:
    lease = Lease(ID, state, Price("uact", Decimal(1)), 1, reclamation_ns=window, reclaim_deadline=deadline)
    found = ending_message(lease, reason=CloseReason.UNSTABLE, now=now)
    assert (found and found.DESCRIPTOR.name) == message
    assert found is None or found.reason == CloseReason.UNSTABLE  # type: ignore[attr-defined]
