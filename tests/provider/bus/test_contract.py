"""What every bus does: in memory, by a real Redis in one process, and by Redis between two processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from secrets import token_hex

import pytest

from lease.ids import LeaseId
from provider.bus import MemoryBus, Overflow
from provider.protocols import Bus
from tests.provider.bus.world import LEASES, OWN, A, B, a_bus, running, take
from tests.world.redis_server import RedisServer

LEASE = LeaseId("akash1owner", 2**63, 1, 1, "akash1provider")


@dataclass
class Pair:
    """The same bus twice, or those of two processes."""

    writer: Bus
    reader: Bus
    kind: str


@pytest.fixture(params=["memory", "redis", "two processes"])
async def pair(request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    if request.param == "memory":
        one = MemoryBus(queue_size=8)
        yield Pair(one, one, request.param)
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    provider = token_hex(8)
    writer = a_bus(server.url, provider=provider, queue_size=8)
    reader = a_bus(server.url, provider=provider, queue_size=8) if request.param == "two processes" else writer
    async with running(*{id(each): each for each in (writer, reader)}.values()):
        yield Pair(writer, reader, request.param)


async def test_a_value_reaches_every_subscriber_of_its_topic_once_and_no_other(pair: Pair) -> None:
    async with pair.reader.subscribe(A) as one, pair.reader.subscribe(A, B) as two, pair.reader.subscribe(B) as three:
        pair.writer.publish(A, 1)
        pair.writer.publish(B, 2)
        pair.writer.publish(A, 3)
        assert await take(one, 2) == [1, 3]
        assert await take(two, 3) == [1, 2, 3]
        assert await take(three) == [2]


async def test_a_retained_value_is_given_to_later_subscribers_newest_only(pair: Pair) -> None:
    async with pair.reader.subscribe(A) as early:
        pair.writer.publish(A, 1, retain=True)
        pair.writer.publish(A, 2, retain=True)
        assert (await take(early, 2))[-1] == 2 if pair.kind != "two processes" else await _last(early) == 2
        pair.writer.publish(A, 3)
        assert await take(early) == [3]
    async with pair.reader.subscribe(A) as late:
        assert await take(late) == [2]


async def _last(subscription: object) -> object:
    """Redis may have carried only the newest of two retained values."""
    while (value := (await take(subscription))[0]) != 2:  # type: ignore[arg-type]
        pass
    return value


async def test_a_topic_is_the_same_in_both_spellings(pair: Pair) -> None:
    async with pair.reader.subscribe("akash.test.a") as public, pair.reader.subscribe("test-a") as own:
        pair.writer.publish(A, 5, retain=True)
        assert await take(public) == await take(own) == [5]
    async with pair.reader.subscribe("akash.test.a") as late:
        assert await take(late) == [5]


async def test_a_lease_arrives_as_it_was_sent(pair: Pair) -> None:
    async with pair.reader.subscribe(LEASES) as leases:
        pair.writer.publish(LEASES, LEASE)
        assert await take(leases) == [LEASE]


async def test_who_left_hears_nothing_and_the_others_do(pair: Pair) -> None:
    async with pair.reader.subscribe(A) as stays:
        async with pair.reader.subscribe(A):
            pass
        pair.writer.publish(A, 1)
        assert await take(stays) == [1]


async def test_a_slow_reader_learns_that_it_missed_something_and_goes_on(pair: Pair) -> None:
    async with pair.reader.subscribe(A) as slow, pair.reader.subscribe(B) as after:
        for value in range(20):
            pair.writer.publish(A, value)
        pair.writer.publish(B, 1)
        await take(after)
        found = await take(slow, 4)
        assert isinstance(found[0], Overflow)
        assert found[0].dropped + len(found) - 1 <= 20
        while found[-1] != 19:
            found += await take(slow)


async def test_a_topic_that_is_not_shared_stays_in_its_process(pair: Pair) -> None:
    async with pair.reader.subscribe(OWN, A) as both:
        pair.writer.publish(OWN, 7)
        pair.writer.publish(A, 8)
        assert await take(both) == ([8] if pair.kind == "two processes" else [7])
