"""Waits on an event or a time, and pauses that grow."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from provider.waits import GrowingPause, jittered, side_by_side, wait_for_event
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time


async def test_a_wait_ends_with_the_event_and_leaves_it_set():
    event, clock = asyncio.Event(), VirtualClock()
    waiting = asyncio.create_task(wait_for_event(event, clock=clock, seconds=60))
    await clock.advance(59)
    assert not waiting.done()
    event.set()
    await clock.settle()
    assert waiting.done() and event.is_set() and not clock.sleepers


async def test_a_wait_ends_with_its_time():
    event, clock = asyncio.Event(), VirtualClock()
    waiting = asyncio.create_task(wait_for_event(event, clock=clock, seconds=60))
    await clock.advance(60)
    assert waiting.done() and not event.is_set()


async def test_a_wait_without_a_limit_ends_with_the_event_only():
    event, clock = asyncio.Event(), VirtualClock()
    waiting = asyncio.create_task(wait_for_event(event, clock=clock, seconds=None))
    await clock.advance(1e9)
    assert not waiting.done()
    event.set()
    await asyncio.wait_for(waiting, 5)


async def test_a_cancelled_wait_leaves_no_sleeper():
    clock = VirtualClock()
    waiting = asyncio.create_task(wait_for_event(asyncio.Event(), clock=clock, seconds=60))
    await clock.settle()
    waiting.cancel()
    await clock.settle()
    assert waiting.cancelled() and not clock.sleepers


@pytest.mark.parametrize(
    ("pause", "expected"),
    [
        (GrowingPause(first=1.0, longest=5.0), [1, 2, 4, 5, 5]),
        (GrowingPause(first=0.1, longest=1.0, factor=1.5), [0.1, 0.15, 0.225, 0.3375, 0.50625]),
        (GrowingPause(first=60.0, longest=3600.0), [60, 120, 240, 480, 960]),
    ],
)
def test_a_pause_grows_with_each_failure_up_to_its_longest(pause: GrowingPause, expected: list[float]):
    assert [pause.after(failures) for failures in range(1, 6)] == pytest.approx(expected)


def test_a_pause_after_very_many_failures_is_a_number():
    assert GrowingPause(first=1.0, longest=300.0).after(10**6) == 300


def test_jitter_takes_away_half_at_most():
    random = Random(1)
    found = [jittered(10, random=random) for _ in range(100)]
    assert min(found) >= 5 and max(found) <= 10 and len(set(found)) > 50


async def test_work_is_done_side_by_side_up_to_a_number_and_answers_in_order():
    running, most = 0, 0

    async def work(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1 / item)
        running -= 1
        return item * item

    assert await side_by_side(work, range(1, 10), at_once=3) == [item * item for item in range(1, 10)]
    assert most == 3


async def test_the_first_failure_ends_all_that_is_done_side_by_side():
    ended: list[int] = []

    async def work(item: int) -> None:
        await asyncio.sleep(item)
        if item == 2:
            raise ValueError(item)
        ended.append(item)

    with pytest.raises(ValueError, match="2"):
        await side_by_side(work, range(1, 5), at_once=4)
    await asyncio.sleep(60)
    assert ended == [1]
