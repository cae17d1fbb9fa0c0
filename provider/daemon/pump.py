"""The pump: publishes blocks of the chain on the bus in order, and keeps their height for the next start."""

from __future__ import annotations

import asyncio

import structlog

from provider.bus import CHAIN_BLOCK
from provider.errors import ChainError, StoreError
from provider.metrics import CHAIN_HEIGHT, CHAIN_TIME
from provider.protocols import Bus, Chain, Clock
from provider.repeats import Repeats
from provider.store import Database
from provider.store.cursors import load_cursor, save_cursor

__all__ = ["pump_blocks", "start_height"]

_log = structlog.get_logger(__name__)
_RETRY_S = 3.0
_KEEP_S = 1.0
"""After a crash the blocks of this time are published again, which does no harm: events only name what to check."""


async def start_height(chain: Chain, database: Database, *, clock: Clock) -> tuple[str, int]:
    """The chain's id and the height to follow after: the one kept by the last run, else the node's present height.
    Waits until the node answers.

    A first start does not replay earlier blocks: the full passes read their effects from the state.
    """
    repeats = Repeats(clock.monotonic)
    while True:
        try:
            head = await chain.head()
            saved = await load_cursor(database, head.chain_id)
            return head.chain_id, head.height if saved is None else saved
        except (ChainError, StoreError) as error:
            if repeats.is_news("start", str(error)):
                _log.warning("chain.unreachable", problem=str(error), next_try_s=_RETRY_S)
            await clock.sleep(_RETRY_S)


async def pump_blocks(chain: Chain, bus: Bus, *, database: Database, clock: Clock) -> None:
    """Publish every block on `chain.block`, then keep its height; for ever. A store that fails or is slow costs a
    replay at the next start, no block and no time.
    """
    chain_id, height = await start_height(chain, database, clock=clock)
    keeper = _HeightKeeper(database, chain_id, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(keeper.run(), name="chain height")
        async for block in chain.follow(after=height):
            bus.publish(CHAIN_BLOCK, block)
            CHAIN_HEIGHT.set(block.height)
            CHAIN_TIME.set(clock.now())
            keeper.reached(block.height)


class _HeightKeeper:
    """Writes the newest height to the store once a second, so that ten thousand blocks are not ten thousand writes."""

    def __init__(self, database: Database, chain_id: str, clock: Clock) -> None:
        self._database = database
        self._chain_id = chain_id
        self._clock = clock
        self._height = 0
        self._changed = asyncio.Event()

    def reached(self, height: int) -> None:
        self._height = height
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            height = self._height
            try:
                await save_cursor(self._database, self._chain_id, height=height, now=self._clock.now())
            except StoreError as error:
                _log.warning("chain.height_not_kept", height=height, problem=str(error))
            await self._clock.sleep(_KEEP_S)
