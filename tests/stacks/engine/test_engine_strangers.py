"""Another user of the machine reaches no listener of an engine at work: broker, plugin, command line, resident engine
or worker.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from stacks.common.listeners import fence_problem
from stacks.common.processes import survivors
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.common.listening import calls_are_served, listeners_of
from tests.stacks.leases import small
from tests.world.users import STRANGER, needs_root

pytestmark = [
    pytest.mark.devnet,
    needs_root,
    pytest.mark.skipif(bool(fence_problem()), reason="this system allows no fence"),
]


@pytest.fixture(params=["stock", "resident"])
async def engine(request: pytest.FixtureRequest, config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    engine = PulumiEngine(config.model_copy(update={"engine": request.param}))
    yield engine
    await engine.close()


async def test_no_listener_of_an_engine_at_work_serves_another_user(engine: PulumiEngine, config: EngineConfig) -> None:
    created = await engine.up(small())
    assert created.ok, created.error
    assert created.error == "" and engine.shared_plugin_problem == ""
    updating = asyncio.create_task(engine.up(small()))
    seen: dict[str, set[bool]] = {}
    while not updating.done():
        for pid in {os.getpid(), *survivors(config.data)} - {os.getpid()}:
            for port, name in (await asyncio.to_thread(listeners_of, pid)).items():
                served = await asyncio.to_thread(calls_are_served, port, STRANGER)
                seen.setdefault(name, set()).add(served)
    assert (await updating).ok, "what a stranger tries disturbs no update"
    assert {name for name in seen if name.startswith("pulumi-resource")}, seen
    assert ("lessor-engine" in seen) == (engine.resident is not None), seen
    assert set().union(*seen.values()) == {False}, seen
