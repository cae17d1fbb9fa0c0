"""Fixed cells of the kill matrix with the resident engine: it, its plugin, a worker and the daemon as victims."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devnet.tools import Toolbox
from tests.laws.killmatrix.cells import Cell, Outcome
from tests.laws.killmatrix.fixed import RESIDENT
from tests.laws.killmatrix.matrix import bench
from tests.laws.killmatrix.slot import RESIDENT_VICTIMS

pytestmark = [
    pytest.mark.devnet,
    pytest.mark.long,
    pytest.mark.xdist_group("killmatrix of the resident"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),  # the first test waits for all cells
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(
    devnet_cluster: Any, toolbox: Toolbox, resident_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Cell, Outcome]:
    """What each cell came to."""
    found: dict[Cell, Outcome] = {}
    folder = tmp_path_factory.mktemp("killmatrix")
    kubeconfig = devnet_cluster.kubeconfig
    async with bench(folder, toolbox, kubeconfig=kubeconfig, slots=3, resident=resident_program) as made:
        await made.run(RESIDENT, found.__setitem__)
    return found


@pytest.mark.parametrize("cell", RESIDENT, ids=lambda cell: f"{cell.operation}: {cell.event}: {cell.victim}")
async def test_a_lease_converges_whoever_is_killed_and_nothing_is_left(
    outcomes: Mapping[Cell, Outcome], cell: Cell
) -> None:
    outcome = outcomes[cell]
    assert outcome.effect in ("repaired", "unharmed"), outcome
    if outcome.effect == "repaired":
        assert outcome.said or cell.victim == "daemon", "an attempt that failed says why"


async def test_every_victim_dies_in_every_operation() -> None:
    wanted = {(operation, victim) for operation in ("create", "update", "destroy") for victim in RESIDENT_VICTIMS}
    assert {(cell.operation, cell.victim) for cell in RESIDENT} == wanted
