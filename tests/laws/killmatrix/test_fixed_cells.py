"""Fixed cells of the kill matrix: a quarter of them in `make test`, all in `make test-long`; `make kill-matrix` plays
every cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.laws.killmatrix.cells import OPERATIONS, Cell, Outcome
from tests.laws.killmatrix.fixed import FIXED, OFTEN
from tests.laws.killmatrix.slot import VICTIMS

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.xdist_group("killmatrix"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # the first test waits for all cells
]


def _parameter(cell: Cell) -> Any:
    name = f"{cell.operation}: {cell.event}: {cell.victim}"
    return pytest.param(cell, id=name, marks=() if cell in OFTEN else pytest.mark.long)


@pytest.mark.parametrize("cell", [_parameter(cell) for cell in FIXED])
async def test_a_lease_converges_whoever_is_killed_and_nothing_is_left(
    outcomes: Mapping[Cell, Outcome], cell: Cell
) -> None:
    outcome = outcomes[cell]
    assert outcome.effect in ("repaired", "unharmed"), outcome
    if outcome.effect == "repaired":
        assert outcome.said or cell.victim == "daemon", "an attempt that failed says why"


async def test_the_fixed_cells_are_twenty_four_and_every_victim_dies_in_every_operation() -> None:
    assert len(set(FIXED)) == 24
    assert {(cell.operation, cell.victim) for cell in FIXED} == {(o, v) for o in OPERATIONS for v in VICTIMS}


async def test_every_run_has_each_operation_and_each_victim() -> None:
    assert set(FIXED) > OFTEN
    assert {cell.operation for cell in OFTEN} == set(OPERATIONS)
    assert {cell.victim for cell in OFTEN} == set(VICTIMS)
