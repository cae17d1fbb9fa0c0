"""Amounts of the published state (operators.md §2.10, §10 items 10 to 12 and D3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.operators.inventory.quantity import MAX_INT64, ResourcePair, canonical
from provider.units import parse_quantity


@pytest.mark.parametrize(
    ("amounts", "available"),
    [
        ((10, 10, 3), 7),
        ((5, 5, 5), 0),
        ((0, 0, 8), 0),
        ((10, 3, 10), 0),
        ((0, -1, 100), 9223372036854775807 - 100),
    ],
)
def test_10_what_is_available(amounts: tuple[int, int, int], available: int) -> None:
    assert ResourcePair(*amounts).available == available


def test_11_and_12_what_is_taken_is_taken_once_and_only_if_it_is_free() -> None:
    for milli in (False, True):
        factor = 1000 if milli else 1
        pair = ResourcePair(10 * factor, 10 * factor, 3 * factor, milli=milli)
        taken = pair.take(5 * factor)
        assert taken is not None
        assert taken.document()["allocated"] == "8"
        assert (pair.take(8 * factor), pair.allocated) == (None, 3 * factor)
        assert ResourcePair(0, 0, 8 * factor, milli=milli).take(factor) is None


@pytest.mark.parametrize(
    ("amount", "form", "text"),
    [
        (119800, {"milli": True}, "119800m"),
        (64000, {"milli": True}, "64"),
        (33554432000, {}, "33554432k"),
        (0, {}, "0"),
        (512 << 20, {"binary": True}, "512Mi"),
        (15892, {"milli": True}, "15892m"),
        (100 * 10**9, {}, "100G"),
        (10**12, {}, "1T"),
        (1023, {"binary": True}, "1023"),
        (1025, {"binary": True}, "1025"),
        (1 << 70, {"binary": True}, "1024Ei"),
        (MAX_INT64, {}, "9223372036854775807"),
    ],
)
def test_d3_quantities_are_in_canonical_form(amount: int, form: dict[str, bool], text: str) -> None:
    assert canonical(amount, **form) == text


@given(amount=st.integers(0, MAX_INT64), milli=st.booleans(), binary=st.booleans())
def test_a_quantity_reads_back_as_the_amount(amount: int, milli: bool, binary: bool) -> None:
    assert parse_quantity(canonical(amount, milli=milli, binary=binary)) * (1000 if milli else 1) == amount
