"""A node that is unreachable at the start delays bids and nothing else, once the chain is known (field problem F9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from provider.daemon.startup import expected_chain
from provider.errors import ChainError, WrongChain
from provider.protocols.clock import SystemClock
from provider.store import Database, open_database
from provider.store.cursors import save_cursor
from tests.provider.chain.test_nodes import good, never, unused_address
from tests.provider.chain.world import client, scripted_node

CLOCK = SystemClock()


class Slept(SystemClock):
    """The system's clock, with the seconds of every requested sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(seconds)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await open_database(f"sqlite+aiosqlite:///{tmp_path}/x.db")
    yield opened
    await opened.close()


async def test_a_first_start_waits_for_the_node_and_takes_over_its_chain_id(database: Database) -> None:
    answers = iter([good(catching_up=True)] * 2 + [good()] * 9)

    def answer(method: str, params: dict[str, Any]) -> Any:
        return next(answers)(method, params)

    async with scripted_node(answer) as address, client(address) as chain:
        assert await expected_chain(chain, database, clock=CLOCK) == "local"
        assert chain.chain_id == "local"


@pytest.mark.parametrize("known_by", ["the last run", "the setting"])
async def test_a_start_with_a_known_chain_does_not_wait_for_a_dead_node(database: Database, known_by: str) -> None:
    await save_cursor(database, "old", height=9, now=1.0)
    await save_cursor(database, "local", height=7, now=2.0)
    setting = "local" if known_by == "the setting" else ""
    async with client(unused_address(), chain_id=setting) as chain:
        clock = Slept()
        assert await expected_chain(chain, database, clock=clock) == "local"
        assert sum(clock.slept) < 1


async def test_a_node_that_comes_back_with_another_chain_is_refused(database: Database) -> None:
    await save_cursor(database, "local", height=7, now=2.0)
    heads = [good(catching_up=True), good(network="other")]

    def answer(method: str, params: dict[str, Any]) -> Any:
        return heads[0](method, params)

    async with scripted_node(answer) as address, client(address) as chain:
        assert await expected_chain(chain, database, clock=CLOCK) == "local"
        heads.pop(0)
        with pytest.raises(WrongChain, match="'other', expected 'local'"):
            await chain.head()


async def test_a_node_of_another_chain_than_that_of_the_last_run_stops_the_start(database: Database) -> None:
    await save_cursor(database, "local", height=7, now=2.0)
    async with scripted_node(good(network="other")) as address, client(address) as chain:
        with pytest.raises(WrongChain, match="AP_CHAIN_ID"):
            await expected_chain(chain, database, clock=CLOCK)


async def test_a_hanging_node_delays_the_start_by_a_few_seconds_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.daemon.startup._NODE_S", 0.3)
    async with scripted_node(never) as address, client(address, rpc_timeout=3600, chain_id="local") as chain:
        assert await expected_chain(chain, database, clock=CLOCK) == "local"
        with pytest.raises((ChainError, TimeoutError)):
            async with asyncio.timeout(0.2):
                await chain.head()
