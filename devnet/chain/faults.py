"""Switches by which a test makes the node fail. Nothing outside the devnet can set them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

__all__ = ["Faults"]


@dataclass(slots=True)
class Faults:
    """`refuse`: connections are cut before an answer. `paused`: questions wait. `halted`: no new blocks.

    `before_first_block`: the node answers as between its start and its first block: at height 0, and no simulation
    passes.
    `delay_seconds`: every answer comes that much later. `catching_up`: what `/status` says. `results_missing`: heights
    whose `block_results` the node does not have, though it has the block.
    """

    refuse: bool = False
    halted: bool = False
    delay_seconds: float = 0.0
    catching_up: bool = False
    before_first_block: bool = False
    results_missing: set[int] = field(default_factory=set)
    _running: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._running.set()

    @property
    def paused(self) -> bool:
        return not self._running.is_set()

    @paused.setter
    def paused(self, value: bool) -> None:
        if value:
            self._running.clear()
        else:
            self._running.set()

    async def before_answer(self) -> None:
        """Wait while the switches delay requests."""
        await self._running.wait()
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
