"""The provider's own arithmetic of accounts that ran out, against a node that lies about money and heights."""

from __future__ import annotations

from decimal import Decimal

import pytest

from lease.ids import LeaseId
from lease.resources import Price
from provider.funds.escrow import LeaseFunds
from provider.funds.exhaustion import Exhaustion
from provider.protocols.chain import EscrowState, Payment

L = LeaseId("akash1owner", 1, 1, 1, "akash1provider")
NOTHING = Decimal(0)
_BLOCK_S = 6.0


def money(ends: int | None, *, height: int) -> LeaseFunds:
    payment = Payment(L, EscrowState.OPEN, Price("uakt", Decimal(1)), NOTHING, NOTHING, NOTHING)
    return LeaseFunds(payment, height, NOTHING, NOTHING, ends)


def watched(ends: int, *, blocks: int = 20) -> Exhaustion:
    """The account was read at heights 100 to 100 + `blocks`, of six seconds each."""
    made = Exhaustion()
    for block in range(blocks + 1):
        made.observe([money(ends, height=100 + block)], now=block * _BLOCK_S)
    return made


@pytest.mark.parametrize(("height", "out"), [(149, False), (150, True), (151, True)])
def test_an_account_that_was_followed_to_its_end_ran_out(height: int, out: bool) -> None:
    assert watched(150).ran_out(L, height, now=50 * _BLOCK_S) is out


def test_a_lease_that_was_never_read_has_no_evidence() -> None:
    assert not Exhaustion().ran_out(L, 10**9, now=1e9)


def test_a_reading_that_takes_funds_away_does_not_bring_the_end_nearer() -> None:
    made = watched(150)
    made.observe([money(121, height=120)], now=20 * _BLOCK_S)
    assert not made.ran_out(L, 121, now=21 * _BLOCK_S)


def test_a_deposit_moves_the_end_away() -> None:
    made = watched(150)
    made.observe([money(1000, height=121)], now=21 * _BLOCK_S)
    assert not made.ran_out(L, 150, now=50 * _BLOCK_S)


def test_a_height_that_the_clock_does_not_allow_proves_nothing() -> None:
    made = watched(10_000)
    assert not made.ran_out(L, 10_000, now=21 * _BLOCK_S)
    made.observe([money(10_001, height=10_000)], now=21 * _BLOCK_S)
    assert not made.ran_out(L, 10_001, now=22 * _BLOCK_S)
    assert made.ran_out(L, 10_000, now=9_900 * _BLOCK_S)


def test_an_account_without_an_end_and_a_lease_not_seen_for_a_day_have_none() -> None:
    made = watched(150)
    made.observe([money(None, height=121)], now=2 * 86400)
    assert not made.ran_out(L, 150, now=2 * 86400)
