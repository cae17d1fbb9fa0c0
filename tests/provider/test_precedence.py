"""Requests in progress have precedence over work that can wait, for a second at most."""

from __future__ import annotations

import asyncio

import pytest

from provider.precedence import Precedence
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time


async def waited(precedence: Precedence) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await precedence.wait()
    return loop.time() - began


async def hold(precedence: Precedence, seconds: float) -> None:
    with precedence.request():
        await asyncio.sleep(seconds)


async def test_without_a_request_nothing_waits() -> None:
    precedence = Precedence(VirtualClock())
    assert await waited(precedence) == 0
    await hold(precedence, 0.5)
    assert await waited(precedence) == 0


async def test_work_waits_for_the_last_of_the_requests_that_overlap() -> None:
    precedence = Precedence(VirtualClock())
    async with asyncio.TaskGroup() as group:
        for seconds in (0.2, 0.7, 0.4):
            group.create_task(hold(precedence, seconds))
        await asyncio.sleep(0)
        assert await waited(precedence) == pytest.approx(0.7)


async def test_requests_that_never_stop_delay_other_work_by_a_second_once() -> None:
    precedence = Precedence(VirtualClock())
    async with asyncio.TaskGroup() as group:
        requests = [group.create_task(hold(precedence, 3600)) for _ in range(2)]
        await asyncio.sleep(0)
        assert await waited(precedence) == pytest.approx(1.0)
        assert await waited(precedence) == 0
        for request in requests:
            request.cancel()


async def test_a_request_that_fails_is_over() -> None:
    precedence = Precedence(VirtualClock())
    with pytest.raises(ValueError, match="no"), precedence.request():
        raise ValueError("no")
    assert await waited(precedence) == 0
