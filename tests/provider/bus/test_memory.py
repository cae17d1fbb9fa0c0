"""The bus in memory: which subscriber gets which values, and the overflow of a slow one."""

from __future__ import annotations

import asyncio

import pytest

from provider.bus import MemoryBus, Overflow
from tests.provider.bus.world import A, B


async def test_a_value_reaches_every_subscriber_of_its_topic_and_no_other() -> None:
    bus = MemoryBus()
    async with bus.subscribe(A) as one, bus.subscribe(A, B) as two, bus.subscribe(B) as three:
        bus.publish(A, 1)
        bus.publish(B, 2)
        assert await anext(aiter(one)) == 1
        assert [await anext(aiter(two)) for _ in range(2)] == [1, 2]
        assert await anext(aiter(three)) == 2


async def test_a_retained_value_is_given_to_later_subscribers_newest_only() -> None:
    bus = MemoryBus()
    bus.publish(A, 1, retain=True)
    bus.publish(A, 2, retain=True)
    bus.publish(A, 3)
    async with bus.subscribe(A) as late:
        assert await anext(aiter(late)) == 2


async def test_who_left_hears_nothing_and_costs_nothing() -> None:
    bus = MemoryBus(queue_size=2)
    async with bus.subscribe(A):
        pass
    for value in range(10):
        bus.publish(A, value)
    assert bus._subscribers[A] == []


async def test_a_slow_reader_is_told_how_much_it_missed_and_goes_on() -> None:
    bus = MemoryBus(queue_size=3)
    async with bus.subscribe(A) as slow:
        for value in range(4):
            bus.publish(A, value)
        assert [await anext(aiter(slow)) for _ in range(2)] == [Overflow(3), 3]
        bus.publish(A, 9)
        assert await anext(aiter(slow)) == 9


async def test_losing_twice_without_reading_is_told_as_one_sum() -> None:
    bus = MemoryBus(queue_size=2)
    async with bus.subscribe(A) as slow:
        for value in range(7):
            bus.publish(A, value)
        first = await anext(aiter(slow))
        assert isinstance(first, Overflow)
        rest = slow._queue.qsize()
        assert first.dropped + rest == 7


async def test_a_reader_waits_until_something_comes() -> None:
    bus = MemoryBus()
    async with bus.subscribe(A) as reader:
        waiting = asyncio.ensure_future(anext(aiter(reader)))
        await asyncio.sleep(0)
        assert not waiting.done()
        bus.publish(A, 5)
        assert await waiting == 5


def test_a_queue_too_small_for_the_news_of_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        MemoryBus(queue_size=1)
