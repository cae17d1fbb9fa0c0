"""The price of AKT that the provider reads from the chain, kept in a file of the home where pricing reads it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path

import structlog

from provider.errors import ChainError
from provider.protocols import Clock
from provider.repeats import Repeats
from stacks.common import write_private

__all__ = ["follow_akt_price"]

_PAUSE_S = 60.0
_log = structlog.get_logger("lessor")


async def follow_akt_price(ask: Callable[[], Awaitable[tuple[Decimal, float]]], file: Path, *, clock: Clock) -> None:
    """Write the price that `ask` returns into `file` once a minute; the file's time is that of the price. Runs for
    ever. Without an answer the file keeps the last one, whose age pricing judges (LESSOR_AKT_PRICE_AGE).
    """
    repeats = Repeats(clock.monotonic)
    while True:
        try:
            usd, at = await ask()
            await asyncio.to_thread(_write, file, usd, at)
            repeats.ended("price")
        except (ChainError, OSError) as error:
            if repeats.is_news("price", str(error)):
                _log.warning("market.akt_price_unknown", problem=str(error))
        await clock.sleep(_PAUSE_S)


def _write(file: Path, usd: Decimal, at: float) -> None:
    write_private(file, f"{usd.normalize():f}\n", durable=False)
    os.utime(file, (at, at))
