"""From the chain to the bus: blocks in order, and the height kept for the next start."""

from __future__ import annotations

import structlog

from provider.bus import CHAIN_BLOCK
from provider.errors import ChainError, StoreError
from provider.observe.metrics import CHAIN_HEIGHT
from provider.protocols import Bus, Chain, Clock
from provider.store import Database
from provider.store.cursors import load_cursor, save_cursor

__all__ = ["pump_blocks", "start_height"]

_log = structlog.get_logger(__name__)
_RETRY_SECONDS = 3.0


async def start_height(chain: Chain, database: Database, *, clock: Clock) -> tuple[str, int]:
    """The chain's id and the height to follow after: where we stopped, else the node's present height. Waits for the
    node.

    What happened before is not replayed at a first start: the full passes read it from the state.
    """
    while True:
        try:
            head = await chain.head()
            saved = await load_cursor(database, head.chain_id)
            return head.chain_id, head.height if saved is None else saved
        except ChainError as error:
            _log.warning("chain.unreachable", problem=str(error), again_in_seconds=_RETRY_SECONDS)
            await clock.sleep(_RETRY_SECONDS)


async def pump_blocks(chain: Chain, bus: Bus, *, database: Database, clock: Clock) -> None:
    """For ever: publish every block on `chain.block`, then keep its height. A store that fails costs a replay, not a
    block.
    """
    chain_id, height = await start_height(chain, database, clock=clock)
    async for block in chain.follow(after=height):
        bus.publish(CHAIN_BLOCK, block)
        CHAIN_HEIGHT.set(block.height)
        try:
            await save_cursor(database, chain_id, height=block.height, now=clock.now())
        except StoreError as error:
            _log.warning("chain.height_not_kept", height=block.height, problem=str(error))
