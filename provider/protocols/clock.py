"""The real clock. Everything in the provider that waits or stamps goes through `protocols.Clock`."""

from __future__ import annotations

import asyncio
import time

__all__ = ["SystemClock"]


class SystemClock:
    """`protocols.Clock` on the machine's time."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
