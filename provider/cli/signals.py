"""Work that runs until a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

import structlog

from provider.observe.logs import log_loop_problem

__all__ = ["until_signal"]

_log = structlog.get_logger("lessor")


async def until_signal(work: Coroutine[Any, Any, None], *, what: str) -> None:
    """Run `work`; the first SIGTERM or SIGINT cancels it, and Python's own handler takes a second one. `what` begins
    the names of the log events.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_problem)

    def stop(number: signal.Signals) -> None:
        _log.info(f"{what}.stopping", signal=number.name)
        loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        _log.info(f"{what}.stopped")
