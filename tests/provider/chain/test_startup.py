"""A node that is away at the start delays bids, and nothing else, once our chain is known (field problem F9)."""

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
    """The system's clock, and the seconds of each sleep that was asked for."""

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


async def test_a_first_start_waits_for_the_node_and_takes_its_word(database: Database) -> None:
    answers = iter([good(catching_up=True)] * 2 + [good()] * 9)

    def answer(method: str, params: dict[str, Any]) -> Any:
        return next(answers)(method, params)

    async with scripted_node(answer) as address, client(address) as chain:
        assert await expected_chain(chain, database, clock=CLOCK) == "local"
        assert chain.chain_id == "local"


@pytest.mark.parametrize("known_by", ["the last run", "the setting"])
async def test_where_expected_chain_is_known_a_dead_node_is_not_waited_for(database: Database, known_by: str) -> None:
    await save_cursor(database, "old", height=9, now=1.0)
    await save_cursor(database, "local", height=7, now=2.0)
    setting = "local" if known_by == "the setting" else ""
    async with client(unused_address(), chain_id=setting) as chain:
        clock = Slept()
        assert await expected_chain(chain, database, clock=clock) == "local"
        assert sum(clock.slept) < 1


async def test_a_node_that_comes_back_with_another_chain_is_not_taken_for_ours(database: Database) -> None:
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


async def test_a_hanging_node_is_given_a_few_seconds_at_the_start(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.daemon.startup._NODE_S", 0.3)
    async with scripted_node(never) as address, client(address, rpc_timeout=20, chain_id="local") as chain:
        async with asyncio.timeout(4):
            assert await expected_chain(chain, database, clock=CLOCK) == "local"
        with pytest.raises((ChainError, TimeoutError)):
            async with asyncio.timeout(0.2):
                await chain.head()
