"""Another user of the machine reaches no listener of an engine at work: plugin, command line, resident engine
or worker.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest

from stacks.common.listeners import fence_problem
from stacks.common.processes import survivors
from stacks.engine import EngineConfig, PulumiEngine
from tests.stacks.common.listening import answered, calls_are_served, listeners_of
from tests.stacks.leases import small
from tests.world.patience import PATIENCE_S
from tests.world.users import STRANGER, needs_root

pytestmark = [
    pytest.mark.devnet,
    needs_root,
    pytest.mark.skipif(bool(fence_problem()), reason="this system allows no fence"),
]


_WAYS = [("stock", "list"), ("resident", "list"), ("resident", "sdk")]


@pytest.fixture(
    params=[
        pytest.param(way, id=" ".join(way), marks=() if way == ("resident", "list") else pytest.mark.long)
        for way in _WAYS
    ]
)
async def engine(request: pytest.FixtureRequest, config: EngineConfig) -> AsyncIterator[PulumiEngine]:
    way, program = request.param
    engine = PulumiEngine(config.model_copy(update={"engine": way, "program": program}))
    yield engine
    await engine.close()


async def test_no_listener_of_an_engine_at_work_serves_another_user(engine: PulumiEngine, config: EngineConfig) -> None:
    wanted = {"pulumi-resource", "lessor-engine" if engine.resident else "pulumi"}
    enough, seen = asyncio.Event(), defaultdict[str, set[bool]](set)
    updating = asyncio.create_task(updates(engine, enough))
    async with asyncio.timeout(PATIENCE_S):
        while not wanted <= seen.keys() and not updating.done():
            for pid in await asyncio.to_thread(survivors, config.data):
                for port, name in (await asyncio.to_thread(listeners_of, pid)).items():
                    if name in seen:
                        continue  # a command line ends within a second: what was asked is not asked again before it
                    served = await asyncio.to_thread(is_served, port)
                    if port in await asyncio.to_thread(listeners_of, pid):  # a closed one had served nobody
                        seen[name].add(served)
    enough.set()
    assert await updating == "", "what a stranger tries disturbs no update"
    assert set().union(*seen.values()) == {False}, seen


async def updates(engine: PulumiEngine, enough: asyncio.Event) -> str:
    """Apply a lease again and again, since a command line and its plugin live for one update; returns the first
    error.
    """
    spec, error = small(), ""
    while not enough.is_set() and not error:
        error = (await engine.up(spec)).error
    return error


def is_served(port: int) -> bool:
    return answered(port, STRANGER) and calls_are_served(port, STRANGER)
