"""Work that runs until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from provider.observe.logs import log_loop_problem

__all__ = ["until_signal"]

_ENDING = frozenset({signal.SIGTERM, signal.SIGINT})
_log = structlog.get_logger("lessor")


async def until_signal(
    work: Coroutine[Any, Any, None], *, what: str, on_hangup: Callable[[], None] | None = None
) -> None:
    """Run `work`; the first SIGTERM or SIGINT cancels it, and Python's own handler takes a second one. `what` begins
    the names of the log events. `on_hangup` is called on SIGHUP, unless the process was started with that signal
    ignored (`nohup`) or its terminal is gone, which ends the work too. Without `on_hangup` SIGHUP means what it does
    for any program.
    """
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_loop_problem)
    had_terminal = _has_terminal()

    def stop(number: signal.Signals) -> None:
        _log.info(f"{what}.stopping", signal=number.name)
        for each in {number} & _ENDING:
            loop.remove_signal_handler(each)
        if on_hangup is not None:
            loop.remove_signal_handler(signal.SIGHUP)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a late one must not cut the end off
        task.cancel()

    def hang_up(call: Callable[[], None]) -> None:
        if had_terminal and not _has_terminal():
            stop(signal.SIGHUP)
        else:
            call()

    for number in _ENDING:
        loop.add_signal_handler(number, stop, number)
    if on_hangup is not None and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hang_up, on_hangup)
    try:
        await task
    except asyncio.CancelledError:
        _log.info(f"{what}.stopped")


def _has_terminal() -> bool:
    """Whether a terminal controls this process: the kernel takes it away before it sends SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
