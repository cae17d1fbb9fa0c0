"""The leader's term as a worker's machine sees it: it never outlasts the leader's, and another term begins in order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from provider.errors import ClusterError
from provider.leadership import Leadership
from provider.workers.followed_term import FollowedTerm
from tests.world.cluster import FakeCluster
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
SECONDS = 30.0


@dataclass
class World:
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster("lease"))
    clock: VirtualClock = field(default_factory=VirtualClock)
    noted: list[float] = field(default_factory=list)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def leader(self, name: str) -> Leadership:
        return Leadership(
            self.cluster, name="lessor", namespace="lease", identity=name, clock=self.clock, seconds=SECONDS, span=20
        )  # fmt: skip

    def follower(self) -> FollowedTerm:
        self.idle.set()

        async def idle() -> None:
            await self.idle.wait()

        return FollowedTerm(
            self.cluster, name="lessor", namespace="lease", clock=self.clock, seconds=SECONDS,
            note=self.noted.append, idle=idle,
        )  # fmt: skip


async def lead(one: Leadership) -> None:
    await one.acquire()
    await one.hold()


async def test_a_term_counts_from_the_first_renewal_that_is_seen_and_its_number_must_match():
    world = World()
    leading = asyncio.create_task(lead(world.leader("a")))
    await asyncio.sleep(1)
    term = world.follower()
    following = asyncio.create_task(term.follow())
    await asyncio.sleep(1)
    assert "not seen to be renewed" in term.problem(1), "who holds it may be dead for long"
    await asyncio.sleep(SECONDS)
    assert not term.problem(1)
    assert "not the one that leads" in term.problem(0) and term.problem(2)
    leading.cancel(), following.cancel()


async def test_the_term_of_a_leader_that_stops_ends_here_before_another_may_begin():
    world = World()
    first = world.leader("a")
    leading = asyncio.create_task(lead(first))
    term = world.follower()
    following = asyncio.create_task(term.follow())
    await asyncio.sleep(100)
    assert not term.problem(1)
    leading.cancel()
    second = asyncio.create_task(lead(other := world.leader("b")))
    while other.term_problem:
        ended = term.problem(1)
        await asyncio.sleep(0.25)
    assert ended, "the worker's machine saw the end before the next leader began"
    await asyncio.sleep(SECONDS)
    assert term.problem(1) and not term.problem(2)
    second.cancel(), following.cancel()


async def test_a_new_term_waits_until_what_runs_for_the_one_before_is_interrupted():
    world = World()
    first = world.leader("a")
    leading = asyncio.create_task(lead(first))
    term = world.follower()
    following = asyncio.create_task(term.follow())
    await asyncio.sleep(100)
    world.idle.clear()
    leading.cancel()
    await first.release()
    second = asyncio.create_task(lead(world.leader("b")))
    await asyncio.sleep(4 * SECONDS)
    assert world.noted[-1] == 0.0, "the engine's processes have heard that the term is over"
    assert term.problem(1) and term.problem(2)
    world.idle.set()
    await asyncio.sleep(SECONDS)
    assert not term.problem(2) and world.noted[-1] > world.clock.monotonic()
    second.cancel(), following.cancel()


async def test_an_api_server_that_does_not_answer_ends_the_term_and_gives_it_back():
    world = World()
    leading = asyncio.create_task(lead(world.leader("a")))
    term = world.follower()
    following = asyncio.create_task(term.follow())
    await asyncio.sleep(100)
    honest = world.cluster.get

    async def refuse(*_: object, **__: object) -> None:
        raise ClusterError("https://api", "no route")

    term._cluster = type("Broken", (), {"get": staticmethod(refuse)})()  # type: ignore[assignment]
    await asyncio.sleep(SECONDS)
    assert term.problem(1)
    term._cluster = type("Whole", (), {"get": staticmethod(honest)})()  # type: ignore[assignment]
    await asyncio.sleep(SECONDS)
    assert not term.problem(1)
    leading.cancel(), following.cancel()
