"""One of several processes leads: never two at once, whatever fails, and a term that is over has no effect."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from provider.chain.tx.journal import MemoryJournal, SentTx
from provider.errors import ClusterError, NotSent
from provider.leadership import Leadership, TermOver
from provider.protocols.cluster import KUBE_LEASE
from tests.provider.chain.direct import bid_on, direct, ticking
from tests.world.cluster import FakeCluster
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time
SECONDS, SPAN = 30.0, 20


@dataclass
class World:
    cluster: FakeCluster = field(default_factory=lambda: FakeCluster("lease"))
    height: int = 100

    def one(
        self, name: str, cluster: FakeCluster | None = None, note_term: Callable[[float], None] = lambda until: None
    ) -> Leadership:
        made = Leadership(
            cluster or self.cluster, name="lessor", namespace="lease", identity=name, clock=VirtualClock(),
            seconds=SECONDS, span=SPAN, note_term=note_term,
        )  # fmt: skip
        made.ask_head(self.head)
        return made

    async def head(self) -> int:
        return self.height

    def lease(self) -> dict[str, object]:
        found = self.cluster.find(KUBE_LEASE, "lessor", "lease")
        assert found is not None
        return found


async def lead(one: Leadership) -> None:
    await one.acquire()
    await one.hold()


class FullDisk:
    """A place for the end of the term that takes nothing while `full`."""

    def __init__(self) -> None:
        self.full, self.until = True, 0.0

    def __call__(self, until: float) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device", "/home/engine/term")
        self.until = until


async def test_a_candidate_with_a_full_disk_does_not_lead_until_there_is_space_and_says_why() -> None:
    world, disk = World(), FullDisk()
    one = world.one("a", note_term=disk)
    with capture_logs() as logs:
        leading = asyncio.create_task(lead(one))
        await asyncio.sleep(100)
        assert not leading.done() and one.term_problem
        disk.full = False
        await asyncio.sleep(100)
    assert not one.term_problem and disk.until > 0
    (said,) = [each for each in logs if each["event"] == "leader.term_not_written"]
    assert "No space left" in said["problem"] and "AP_HOME" in said["remedy"]
    leading.cancel()


async def test_a_leader_whose_disk_fills_ends_with_its_term_and_not_with_a_traceback() -> None:
    world, disk = World(), FullDisk()
    disk.full = False
    one = world.one("a", note_term=disk)
    leading = asyncio.create_task(lead(one))
    await asyncio.sleep(100)
    disk.full = True
    with pytest.raises(TermOver, match="term is over"):
        await leading
    await one.release()


async def test_the_lease_is_not_given_back_while_the_engine_may_still_work() -> None:
    world, disk = World(), FullDisk()
    disk.full = False
    one = world.one("a", note_term=disk)
    await one.acquire()
    disk.full = True
    await one.release()
    assert world.lease()["spec"]["holderIdentity"] == "a"  # type: ignore[index]
    second = world.one("b")
    await asyncio.wait_for(second.acquire(), 10 * SECONDS)
    assert not second.term_problem and one.term_problem


async def test_the_first_leads_and_the_second_waits_until_the_lease_was_not_renewed_for_its_duration() -> None:
    world = World()
    first, second = world.one("a"), world.one("b")
    leading = asyncio.create_task(lead(first))
    waiting = asyncio.create_task(lead(second))
    await asyncio.sleep(300)
    assert not first.term_problem and second.term_problem
    assert world.lease()["spec"]["holderIdentity"] == "a"  # type: ignore[index]
    leading.cancel()
    await asyncio.sleep(SECONDS - 7)
    assert first.term_problem and second.term_problem
    await asyncio.sleep(14)
    assert not second.term_problem
    assert world.lease()["spec"]["leaseTransitions"] == 2  # type: ignore[index]
    waiting.cancel()


async def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    world = World()
    first, second = world.one("a"), world.one("b")
    await first.acquire()
    waiting = asyncio.create_task(lead(second))
    await asyncio.sleep(60 - SECONDS)
    await first.release()
    assert first.term_problem
    await asyncio.sleep(SECONDS / 5 + 0.1)
    assert not second.term_problem
    await first.release()
    assert not second.term_problem
    waiting.cancel()


async def test_a_leader_whose_api_server_does_not_answer_ends_before_the_next_one_begins() -> None:
    world = World()
    first = world.one("a")
    leading = asyncio.create_task(lead(first))
    await asyncio.sleep(50)

    def refuse(*_: str) -> None:
        raise ClusterError("https://api", "no route")

    world.cluster.before = refuse  # type: ignore[method-assign]
    with pytest.raises(TermOver, match="its term is over; start it again"):
        await leading
    assert first.term_problem


async def test_a_leader_that_wakes_after_its_term_does_not_take_it_back_although_nobody_else_leads() -> None:
    world = World()
    first = world.one("a")
    await first.acquire()
    await asyncio.sleep(2 * SECONDS)
    with pytest.raises(TermOver, match="its term is over"):
        await asyncio.wait_for(first.hold(), SECONDS)
    assert first.term_problem


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "٣", "9" * 5000])
async def test_a_height_that_is_none_is_waited_for_and_named_once_and_nothing_is_sent(text: str) -> None:
    world = World()
    await world.one("a").acquire()
    await asyncio.sleep(2 * SECONDS)
    marks = {"metadata": {"annotations": {"lessor.akash.network/last-height": text}}}
    await world.cluster.patch(KUBE_LEASE, "lessor", marks, namespace="lease")
    second = world.one("b")
    with capture_logs() as logs:
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(10 * SECONDS)
    assert not waiting.done() and second.term_problem
    assert ["delete the Lease" in entry["problem"] for entry in logs] == [True]
    await world.cluster.delete(KUBE_LEASE, "lessor", namespace="lease")
    await waiting
    assert not second.term_problem


@pytest.mark.parametrize("seed", range(20))
async def test_two_never_lead_at_once_whatever_requests_are_lost_late_or_cut_off(seed: int) -> None:
    chance, world = random.Random(seed), World()

    class Flaky(FakeCluster):
        """The same objects, by a connection of its own."""

        def __init__(self) -> None:
            super().__init__("lease")
            self.objects = world.cluster.objects
            self._version = 0

        def _next_version(self) -> str:
            return world.cluster._next_version()

    async def slow(call: Callable[[], object]) -> None:
        await asyncio.sleep(chance.choice((0, 0, 0, 1, 5, 40)))

    def flaky() -> FakeCluster:
        made = Flaky()
        get, patch = made.get, made.patch

        async def late_get(*args: object, **named: object) -> object:
            await slow(lambda: None)
            if chance.random() < 0.2:
                raise ClusterError("https://api", "lost")
            return await get(*args, **named)  # type: ignore[arg-type]

        async def late_patch(*args: object, **named: object) -> object:
            await slow(lambda: None)
            stored = await patch(*args, **named)  # type: ignore[arg-type]
            if chance.random() < 0.2:
                raise ClusterError("https://api", "the answer was lost")
            await slow(lambda: None)
            return stored

        made.get, made.patch = late_get, late_patch  # type: ignore[method-assign,assignment]
        return made

    made = [world.one("abc"[index], flaky()) for index in range(3)]
    tasks: dict[Leadership, asyncio.Task[None]] = {one: asyncio.create_task(lead(one)) for one in made}
    led = set[int]()
    for _ in range(3000):
        await asyncio.sleep(0.5)
        leaders = [index for index, one in enumerate(made) if not one.term_problem]
        assert len(leaders) <= 1
        led.update(leaders)
        for index, one in enumerate(made):
            if tasks[one].done():
                assert isinstance(tasks.pop(one).exception(), TermOver)
                made[index] = world.one(f"{'abc'[index]}{chance.random()}", flaky())
                tasks[made[index]] = asyncio.create_task(lead(made[index]))
    assert led
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


async def test_transactions_end_at_a_height_that_the_lease_names_and_the_next_leader_waits_for_it() -> None:
    world = World()
    first, second = world.one("a"), world.one("b")
    leading = asyncio.create_task(lead(first))
    await asyncio.sleep(20)
    assert first.last_height == 100 + SPAN
    assert not first.height_problem(119) and first.height_problem(120)
    leading.cancel()
    waiting = asyncio.create_task(lead(second))
    await asyncio.sleep(60)
    world.height = 120
    await asyncio.sleep(20)
    assert "leader before may be in a block up to height 120" in second.height_problem(120)
    world.height = 121
    await asyncio.sleep(20)
    assert not second.height_problem(121) and second.last_height == 121 + SPAN
    waiting.cancel()


async def test_a_term_that_has_not_seen_the_chain_sends_nothing() -> None:
    one = World().one("a")
    await one.acquire()
    assert one.height_problem(100) == "this term names no height above 100 yet"


@dataclass
class Term:
    """A fence that a test moves."""

    last_height: int = 10**6
    problem: str = ""

    def height_problem(self, head: int) -> str:
        return self.problem


class SlowJournal(MemoryJournal):
    """The second transaction is written down until its term is over: the process was suspended meanwhile."""

    def __init__(self, term: Term) -> None:
        super().__init__()
        self.term, self.heights = term, list[int]()

    async def begin(self, tx: SentTx) -> None:
        await super().begin(tx)
        self.heights.append(tx.timeout_height)
        if tx.timeout_height == 12345:
            self.term.problem = "its term is over"


async def test_a_transaction_is_valid_no_longer_than_its_term_and_none_is_sent_after_it() -> None:
    term = Term()
    journal = SlowJournal(term)
    async with direct(1, 2, fence=term, journal=journal) as world, ticking(world.chain):
        term.last_height = world.chain.height + 3
        await world.us.broadcast([bid_on(1)])
        assert journal.heights[-1] == term.last_height
        term.last_height = 12345
        world.us._outbox._policy = replace(world.us._outbox._policy, timeout_blocks=20_000)
        asked = world.node.asked.count("broadcast_tx_sync")
        for _ in range(2):
            with pytest.raises(NotSent, match="its term is over"):
                await world.us.broadcast([bid_on(2)])
        assert world.node.asked.count("broadcast_tx_sync") == asked
        assert journal.heights.count(12345) == 1, "the second one is not even written down"
        assert await journal.unknown(next(iter(journal.sent.values())).account) == []
        assert world.count("MsgCreateBid") == 1
