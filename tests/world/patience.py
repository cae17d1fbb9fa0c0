"""How long a test waits for a process, a thread or a socket: a limit that a busy machine keeps too.

A test that waits for another task only needs no patience: it runs in virtual time (tests/world/virtual.py).
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

__all__ = ["PATIENCE_S", "eventually", "until"]


PATIENCE_S = 240.0
"""A condition that does not hold by then is a failure; below the limit of pytest-timeout."""
_PAUSE_S = 0.02

Condition = Callable[[], bool | Awaitable[bool]]


async def eventually(condition: Condition, *, seconds: float = PATIENCE_S, pause_s: float = _PAUSE_S) -> None:
    """Return when `condition` holds. Raises `AssertionError` when it does not within `seconds`."""
    end = time.monotonic() + seconds
    while not await _holds(condition):
        assert time.monotonic() < end, f"{_name(condition)} does not hold after {seconds:.0f} s"
        await asyncio.sleep(pause_s)


def until(condition: Callable[[], bool], *, seconds: float = PATIENCE_S, pause_s: float = _PAUSE_S) -> None:
    """`eventually` outside a coroutine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{_name(condition)} does not hold after {seconds:.0f} s"
        time.sleep(pause_s)


async def _holds(condition: Condition) -> bool:
    found = condition()
    return bool(await found) if inspect.isawaitable(found) else bool(found)


def _name(condition: Callable[..., object]) -> str:
    """Where the condition stands, for the report."""
    code = getattr(condition, "__code__", None)
    return f"the condition of {code.co_filename}:{code.co_firstlineno}" if code else repr(condition)
