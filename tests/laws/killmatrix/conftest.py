"""The fixed cells that this test run selected, played together once: three leases at a time, two when few were
selected, since each has an engine of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import pytest_asyncio

from devnet.tools import Toolbox
from tests.laws.killmatrix.cells import Cell, Outcome
from tests.laws.killmatrix.fixed import FIXED
from tests.laws.killmatrix.matrix import bench
from tests.laws.killmatrix.slot import Engine

Outcomes = Mapping[tuple[Engine, Cell], Outcome]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(
    request: pytest.FixtureRequest,
    devnet_cluster: Any,
    toolbox: Toolbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcomes:
    """What each selected cell came to."""
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    selected = {(one["way"], one["cell"]) for one in parameters if isinstance(one.get("cell"), Cell)}
    found: dict[tuple[Engine, Cell], Outcome] = {}
    for way, cells in FIXED.items():
        chosen = [cell for cell in cells if (way, cell) in selected]
        if chosen:
            folder = tmp_path_factory.mktemp(f"killmatrix-{way}")
            slots, plane = 3 if len(chosen) > 6 else 2, devnet_cluster.kubeconfig
            outcomes: dict[Cell, Outcome] = {}
            async with bench(folder, toolbox, kubeconfig=plane, slots=slots, engine=way) as made:
                await made.run(chosen, outcomes.__setitem__)
            found |= {(way, cell): outcome for cell, outcome in outcomes.items()}
    return found
