"""A real simulated chain; the recorded conversation with a real node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from devnet.chain import SimulatedChain


@pytest.fixture
async def node() -> AsyncIterator[SimulatedChain]:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        yield chain


@pytest.fixture
def recorded(shared: Path) -> Callable[[str], list[dict[str, Any]]]:
    def read(name: str) -> list[dict[str, Any]]:
        with (shared / "recordings/chain" / name).open() as lines:
            return [json.loads(line) for line in lines]

    return read
