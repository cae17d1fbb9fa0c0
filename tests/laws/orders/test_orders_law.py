"""Whatever happens to orders, nodes, pods and events, no capacity is reserved twice and every reservation has a
reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import structlog

from tests.laws.orders.defects import DEFECTS
from tests.laws.orders.run import run_orders
from tests.laws.simulation.run import quiet

_ORDERS = 250
"""In each run; every run has its own cluster."""
_RUNS, _LONG_RUNS = 4, 400
_WITHIN = 10
"""Runs within which every planted defect must be noticed."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    quiet()
    yield
    structlog.configure(**before)


def _hold(seeds: range) -> Counter[str]:
    facts = Counter[str]()
    for seed in seeds:
        result = run_orders(seed, _ORDERS)
        assert not result.problems, f"seed {seed}, order {result.orders}: {result.problems[:5]}"
        facts += result.facts + Counter(orders=result.orders)
    return facts


@pytest.mark.parametrize("half", range(2))
def test_random_orders_keep_rules_4_and_7(half: int) -> None:
    facts = _hold(range(half * _RUNS // 2, (half + 1) * _RUNS // 2))
    assert facts["orders"] >= _ORDERS * _RUNS // 2
    assert facts["exact"] > 0.6 * facts["checks"]
    assert min(facts[what] for what in ("bids", "won", "lost", "restarts", "lost events", "late events")) > 1


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("quarter", range(4))
def test_a_hundred_thousand_random_orders_keep_rules_4_and_7(quarter: int) -> None:
    facts = _hold(range(quarter * _LONG_RUNS // 4, (quarter + 1) * _LONG_RUNS // 4))
    assert facts["orders"] >= 25_000


@pytest.mark.long
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_of_the_market_is_noticed(defect: str) -> None:
    """By a rule that it breaks, in a run that breaks none without it."""
    made, rules = DEFECTS[defect]
    for seed in range(_WITHIN):
        problems = run_orders(seed, _ORDERS, made).problems
        if problems:
            assert problems[0].startswith(rules), problems
            return
    raise AssertionError(f"{defect}: no rule noticed within {_WITHIN} runs of {_ORDERS} orders")


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_orders(3, 40) == run_orders(3, 40)
