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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outcomes(
    request: pytest.FixtureRequest, devnet_cluster: Any, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Cell, Outcome]:
    """What each selected cell came to."""
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    selected = {one["cell"] for one in parameters if isinstance(one.get("cell"), Cell)}
    found: dict[Cell, Outcome] = {}
    folder = tmp_path_factory.mktemp("killmatrix")
    slots = 3 if len(selected) > 6 else 2
    async with bench(folder, toolbox, kubeconfig=devnet_cluster.kubeconfig, slots=slots) as made:
        await made.run([cell for cell in FIXED if cell in selected], found.__setitem__)
    return found
