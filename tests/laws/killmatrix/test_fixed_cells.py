"""Fixed cells of the kill matrix: a few of them in `make test`, all in `make test-long`; `make kill-matrix` plays every
cell of the resident engine with a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.laws.killmatrix.cells import OPERATIONS, Cell, Outcome
from tests.laws.killmatrix.fixed import FIXED, OFTEN
from tests.laws.killmatrix.slot import VICTIMS, Engine

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.xdist_group("killmatrix"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # the first test waits for all cells
]


def _parameters() -> Iterator[Any]:
    for way, cells in FIXED.items():
        for cell in cells:
            name = f"{way}: {cell.operation}: {cell.event}: {cell.victim}"
            yield pytest.param(way, cell, id=name, marks=() if cell in OFTEN.get(way, ()) else pytest.mark.long)


@pytest.mark.parametrize(("way", "cell"), list(_parameters()))
async def test_a_lease_converges_whoever_is_killed_and_nothing_is_left(
    outcomes: Mapping[tuple[Engine, Cell], Outcome], way: Engine, cell: Cell
) -> None:
    outcome = outcomes[way, cell]
    assert outcome.effect in ("repaired", "unharmed"), outcome
    if outcome.effect == "repaired":
        assert outcome.said or cell.victim == "daemon", "an attempt that failed says why"


@pytest.mark.parametrize("way", FIXED)
async def test_every_victim_dies_in_every_operation(way: Engine) -> None:
    operations = {cell.operation for cell in FIXED[way]}
    assert operations >= {"create", "update", "destroy"}
    assert {(cell.operation, cell.victim) for cell in FIXED[way]} == {(o, v) for o in operations for v in VICTIMS[way]}


@pytest.mark.parametrize("way", OFTEN)
async def test_every_run_has_each_operation(way: Engine) -> None:
    assert set(FIXED[way]) > OFTEN[way]
    assert {cell.operation for cell in OFTEN[way]} == set(OPERATIONS)


async def test_every_run_has_each_victim_of_the_default_engine() -> None:
    assert {cell.victim for cell in OFTEN["list"]} == set(VICTIMS["list"])
