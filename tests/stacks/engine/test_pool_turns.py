"""Who is next: the more urgent first, tenants in turn, nobody overtaken without end."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.common.priority import Priority
from stacks.engine.turns import PATIENCE, Turns

F, U, D, R = Priority.FIRST, Priority.UPDATE, Priority.DESTROY, Priority.REPAIR
LETTERS = {"f": F, "u": U, "d": D, "r": R}
BOUNDS = {kind: PATIENCE[kind] + 2 if kind in PATIENCE else 3 for kind in Priority}


def queue(*asked: str) -> Turns[str]:
    """`f:alice1` is a first deployment of alice."""
    turns: Turns[str] = Turns()
    for number, item in enumerate(asked):
        turns.add(item, priority=LETTERS[item[0]], tenant=item[2:].rstrip("0123456789"), since=float(number))
    return turns


def served(turns: Turns[str]) -> list[str]:
    found = []
    while (item := turns.next()) is not None:
        found.append(item)
    return found


TABLE = {
    "one after the other": (["u:a1", "u:a2", "u:a3"], ["u:a1", "u:a2", "u:a3"]),
    "the more urgent first": (["r:a", "d:b", "u:c", "f:d"], ["f:d", "u:c", "d:b", "r:a"]),
    "tenants in turn": (["f:a1", "f:a2", "f:a3", "f:b1", "f:c1"], ["f:a1", "f:b1", "f:c1", "f:a2", "f:a3"]),
    "a storm of another kind holds nobody of this kind": (
        ["r:a1", "r:a2", "f:b1"],
        ["f:b1", "r:a1", "r:a2"],
    ),
    "a destroy comes after four updates": (
        ["u:a1", "u:a2", "u:a3", "u:a4", "u:a5", "d:b1"],
        ["u:a1", "u:a2", "u:a3", "u:a4", "d:b1", "u:a5"],
    ),
    "what is due comes in the order of urgency": (
        ["d:b", "u:c", "f:1", "f:2", "f:3", "f:4", "f:5"],
        ["f:1", "f:2", "f:3", "f:4", "u:c", "d:b", "f:5"],
    ),
}


@pytest.mark.parametrize(("asked", "order"), TABLE.values(), ids=TABLE)
def test_the_order_in_which_they_are_served(asked, order):
    assert served(queue(*asked)) == order


def test_a_drift_repair_comes_after_sixteen_first_deployments():
    order = served(queue("r:z", *(f"f:a{number}" for number in range(40))))

    assert order.index("r:z") == 16


def test_what_waits_no_more_is_not_served_and_leaves_no_place():
    turns = queue("f:a1", "f:a2", "f:b1", "u:c")

    assert turns.drop("f:a1") and turns.drop("u:c")
    assert not turns.drop("f:a1") and not turns.drop("never")
    assert turns.depths() == {F: 2, U: 0, D: 0, R: 0} and len(turns) == 2
    assert served(turns) == ["f:a2", "f:b1"]
    assert turns.next() is None and len(turns) == 0


def test_the_oldest_is_found_behind_whatever_came_later():
    turns = queue("r:a", "u:b", "f:c")

    assert turns.oldest(10.0) == 10.0
    turns.drop("r:a")
    assert turns.oldest(10.0) == 9.0
    served(turns)
    assert turns.oldest(10.0) == 0.0 and Turns().oldest(5.0) == 0.0


def test_nothing_waits_twice():
    turns = queue("f:a1")

    with pytest.raises(ValueError, match="already"):
        turns.add("f:a1", priority=R, tenant="b", since=0.0)
    assert served(turns) == ["f:a1"]


STEPS = st.lists(st.one_of(st.tuples(st.sampled_from(Priority), st.sampled_from("abcd")), st.none()), max_size=150)
"""Somebody asks, or (None) a place is free."""


@given(STEPS)
def test_everything_is_served_once_and_a_tenants_own_in_the_order_of_asking(steps):
    turns, waiting = Turns(), {}
    for number, step in enumerate([*steps, *[None] * len(steps)]):
        if step is not None:
            turns.add(number, priority=step[0], tenant=step[1], since=0.0)
            waiting.setdefault(step, deque()).append(number)
        elif (item := turns.next()) is not None:
            (place,) = [place for place, items in waiting.items() if item in items]
            assert waiting[place].popleft() == item
        assert len(turns) == sum(map(len, waiting.values())) == sum(turns.depths().values())  # type: ignore[arg-type]
    assert not any(waiting.values())


@given(STEPS)
def test_a_kind_that_waits_is_overtaken_by_others_a_bounded_number_of_times(steps):
    """And a less urgent one is served only if nothing more urgent waits or it has been patient."""
    turns, kinds, passed = Turns(), {}, Counter()
    for number, step in enumerate([*steps, *[None] * len(steps)]):
        if step is not None:
            turns.add(number, priority=step[0], tenant=step[1], since=0.0)
            kinds[number] = step[0]
            continue
        before = [kind for kind, depth in turns.depths().items() if depth]
        if (item := turns.next()) is None:
            continue
        kind = kinds[item]
        assert kind is before[0] or passed[kind] >= PATIENCE[kind]
        passed = Counter({other: passed[other] + 1 for other in before if other is not kind})
        assert all(passed[other] <= BOUNDS[other] for other in passed), passed


@given(STEPS)
def test_a_storm_of_one_tenant_overtakes_another_once_a_round(steps):
    """Whoever has k of his own before him sees nobody else of his kind served more than k + 1 times meanwhile."""
    turns, places, ahead = Turns(), {}, {}
    overtaken: dict[int, Counter] = {}
    for number, step in enumerate([*steps, *[None] * len(steps)]):
        if step is not None:
            turns.add(number, priority=step[0], tenant=step[1], since=0.0)
            ahead[number] = sum(places[other] == step for other in overtaken)
            places[number], overtaken[number] = step, Counter()
        elif (item := turns.next()) is not None:
            del overtaken[item]
            kind, tenant = places[item]
            for other, seen in overtaken.items():
                if places[other][0] is kind and places[other][1] != tenant:
                    seen[tenant] += 1
                    assert seen[tenant] <= ahead[other] + 1
