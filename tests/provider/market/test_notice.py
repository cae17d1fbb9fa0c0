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
    ("state", "window", "message"),
    [
        (LeaseState.ACTIVE, None, "MsgCloseBid"),
        (LeaseState.ACTIVE, 3600 * 10**9, "MsgLeaseStartReclaim"),
        (LeaseState.RECLAIMING, 3600 * 10**9, None),
        (LeaseState.CLOSED, 3600 * 10**9, None),
        (LeaseState.INSUFFICIENT_FUNDS, None, None),
    ],
)
def test_a_lease_with_a_window_is_given_notice_and_one_with_notice_nothing_more(state, window, message) -> None:
    """`provider.lifecycle.ending.notice` ends it when the notice is over."""
    lease = Lease(ID, state, Price("uact", Decimal(1)), 1, reclamation_ns=window, reclaim_deadline=3700)
    found = ending_message(lease, reason=CloseReason.UNSTABLE)
    assert (found and found.DESCRIPTOR.name) == message
    assert found is None or found.reason == CloseReason.UNSTABLE  # type: ignore[attr-defined]
