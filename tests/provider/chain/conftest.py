"""A real simulated chain; the recorded conversation with a real node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from devnet.chain import SimulatedChain
from tests.data import rows


@pytest.fixture
async def node() -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        yield chain


@pytest.fixture
def recorded() -> Callable[[str], list[dict[str, Any]]]:
    def read(name: str) -> list[dict[str, Any]]:
        return list(rows(f"recordings/chain/{name}"))

    return read
