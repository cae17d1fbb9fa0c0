"""A lease adopted while no node had the capacity gets its card as soon as there is one."""

from __future__ import annotations

from lease.spec import GpuPlacement
from provider.inventory.capacity import Overcommit
from provider.inventory.cards import cards_of
from provider.inventory.ledger import Ledger
from tests.provider.inventory.test_ledger import A100, ORDER, US, cluster, spec

LEASE = ORDER.bid_by(US)


def test_a_card_that_was_not_there_at_the_start_is_found_when_it_is_asked_for_again() -> None:
    ledger, seen = Ledger(US), [cluster(8000)]
    ledger.rebuild(ORDER, spec(gpu=1), inventory=seen[0], overcommit=Overcommit())
    cards = cards_of(ledger, lambda: seen[0], overcommit=Overcommit())
    assert cards(LEASE) == {1: None}
    seen[0] = cluster(8000, cards=(A100,))
    found = cards(LEASE)
    assert found is not None
    placed = found[1]
    assert isinstance(placed, GpuPlacement)
    assert (placed.vendor, placed.model) == ("nvidia", "a100")
    assert ledger.free(seen[0]).nodes[0].cards == ()


def test_what_has_its_place_is_not_moved_and_a_stranger_has_none() -> None:
    ledger, picture = Ledger(US), cluster(8000, cards=(A100,))
    first = ledger.rebuild(ORDER, spec(gpu=1), inventory=picture, overcommit=Overcommit())
    cards = cards_of(ledger, lambda: picture, overcommit=Overcommit())
    assert cards(LEASE) == first.placements
    assert ledger.reservation(ORDER) is first
    assert cards_of(Ledger(US), lambda: picture, overcommit=Overcommit())(LEASE) is None
