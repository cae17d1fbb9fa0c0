"""The bus in memory: which subscriber gets which values, and the overflow of a slow one."""

from __future__ import annotations

import asyncio

import pytest

from provider.bus import MemoryBus, Overflow


async def test_a_value_reaches_every_subscriber_of_its_topic_and_no_other() -> None:
    bus = MemoryBus()
    async with bus.subscribe("a") as one, bus.subscribe("a", "b") as two, bus.subscribe("b") as three:
        bus.publish("a", 1)
        bus.publish("b", 2)
        assert await anext(aiter(one)) == 1
        assert [await anext(aiter(two)) for _ in range(2)] == [1, 2]
        assert await anext(aiter(three)) == 2


async def test_a_retained_value_is_given_to_later_subscribers_newest_only() -> None:
    bus = MemoryBus()
    bus.publish("a", 1, retain=True)
    bus.publish("a", 2, retain=True)
    bus.publish("a", 3)
    async with bus.subscribe("a") as late:
        assert await anext(aiter(late)) == 2


async def test_who_left_hears_nothing_and_costs_nothing() -> None:
    bus = MemoryBus(queue_size=2)
    async with bus.subscribe("a"):
        pass
    for value in range(10):
        bus.publish("a", value)
    assert bus._subscribers["a"] == []


async def test_a_slow_reader_is_told_how_much_it_missed_and_goes_on() -> None:
    bus = MemoryBus(queue_size=3)
    async with bus.subscribe("a") as slow:
        for value in range(4):
            bus.publish("a", value)
        assert [await anext(aiter(slow)) for _ in range(2)] == [Overflow(3), 3]
        bus.publish("a", 9)
        assert await anext(aiter(slow)) == 9


async def test_losing_twice_without_reading_is_told_as_one_sum() -> None:
    bus = MemoryBus(queue_size=2)
    async with bus.subscribe("a") as slow:
        for value in range(7):
            bus.publish("a", value)
        first = await anext(aiter(slow))
        assert isinstance(first, Overflow)
        rest = slow._queue.qsize()
        assert first.dropped + rest == 7


async def test_a_reader_waits_until_something_comes() -> None:
    bus = MemoryBus()
    async with bus.subscribe("a") as reader:
        waiting = asyncio.ensure_future(anext(aiter(reader)))
        await asyncio.sleep(0)
        assert not waiting.done()
        bus.publish("a", "x")
        assert await waiting == "x"


def test_a_queue_too_small_for_the_news_of_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        MemoryBus(queue_size=1)
