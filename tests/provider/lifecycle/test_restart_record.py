"""A restart forgets neither what the brake holds nor what an operator has said."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import insert

from lease.ids import namespace_name
from provider.gateway.provider_status import ProviderStatus, status_document
from provider.lifecycle.control import answer_request
from provider.lifecycle.directives import Directive, DirectiveKind
from provider.lifecycle.loop import LeaseLoop
from provider.lifecycle.reconcile import Reconciler
from provider.protocols.chain import LeaseState
from provider.store.directives import StoredDirectives, stored_directives
from provider.store.tables import directives as directive_rows
from tests.provider.lifecycle.world import World, a_group, a_lease, unknown
from tests.world.database import MemoryDatabase

pytestmark = pytest.mark.virtual_time
LEASES = [a_lease(dseq) for dseq in range(1, 6)]


class Kept:
    """A memory that outlives restarts, and may fail."""

    def __init__(self) -> None:
        self.directives: tuple[Directive, ...] = ()
        self.full = False
        self.away = False

    async def load(self) -> Collection[Directive] | None:
        return None if self.away else self.directives

    async def save(self, directives: Collection[Directive]) -> bool:
        if not self.full:
            self.directives = tuple(directives)
        return not self.full


class Restarting(World):
    def __init__(self, store: Kept) -> None:
        self.store = store
        super().__init__(brake_leases=0, brake_percent=0)

    def restart(self) -> None:
        super().restart()
        self.reconciler = Reconciler(
            self.parts, chain=self.chain, clock=self.clock, random=Random(1), directives=self.store  # type: ignore[arg-type]
        )  # fmt: skip
        self.loop = LeaseLoop(self.reconciler, self.parts, chain=self.chain, clock=self.clock)  # type: ignore[arg-type]

    async def restarted(self) -> None:
        self.restart()
        await self.reconciler.record.restore()


async def _braking() -> Restarting:
    """Five leases are closed without an event: three go, two are held."""
    world = Restarting(Kept())
    for lease in LEASES:
        await world.run(lease, a_group())
        world.chain.put_lease(lease, LeaseState.CLOSED)
    for lease in LEASES:
        for _ in range(3):
            await world.check(lease)
    assert len(world.loop.braked) == 2
    return world


async def _all_looked_at(world: World) -> None:
    for _ in range(4):
        for lease in LEASES:
            await world.check(lease)
            world.cluster.settle()


def _left(world: World) -> int:
    return sum(bool(world.engine.state.get(namespace_name(lease))) for lease in LEASES)


async def test_a_restart_does_not_release_the_brake_nor_grant_its_allowance_anew() -> None:
    world = await _braking()
    for _ in range(3):
        await world.restarted()
        assert len(world.loop.braked) == 2, "before anything is looked at"
        await _all_looked_at(world)
        assert _left(world) == 2


async def test_a_brake_that_was_released_is_not_put_on_again_by_a_restart() -> None:
    world = await _braking()
    answer = await answer_request(world.loop, b'{"word": "release-brake"}')
    assert answer["ok"]
    await world.restarted()
    await _all_looked_at(world)
    assert _left(world) == 0
    assert [each.kind for each in world.store.directives] == [DirectiveKind.LET] * 3, "only the window is left"


async def _suspect(world: World) -> None:
    world.chain.lies.append(unknown(world.chain.height + 1))
    await world.check(LEASES[0])


async def test_a_close_request_before_a_restart_counts_after_it() -> None:
    world = Restarting(Kept())
    await world.run(LEASES[0], a_group())
    await _suspect(world)
    line = f'{{"word": "close", "lease": "{LEASES[0]}"}}'.encode()
    assert (await answer_request(world.loop, line))["ok"]
    await world.restarted()
    await _suspect(world)
    assert _left(world) == 0


async def test_a_close_request_is_forgotten_when_the_chain_calls_its_lease_alive() -> None:
    world = Restarting(Kept())
    await world.run(LEASES[0], a_group())
    await _suspect(world)
    world.loop.close(LEASES[0])
    await world.restarted()
    await world.check(LEASES[0])
    assert world.store.directives == ()
    await world.restarted()
    await _suspect(world)
    assert _left(world) == 1


async def test_a_request_that_cannot_be_recorded_is_carried_out_with_a_warning() -> None:
    world = await _braking()
    world.store.full = True
    assert "a restart forgets it" in (await answer_request(world.loop, b'{"word": "release-brake"}'))["text"]


async def test_the_loop_restores_directives_before_it_checks_a_lease() -> None:
    world = await _braking()
    world.restart()
    task = asyncio.create_task(world.loop.run())
    try:
        await world.elapse(1)
        assert world.loop.statuses
        assert len(world.loop.braked) == 2
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def test_the_providers_status_says_how_many_leases_the_brake_holds_and_nothing_when_it_is_off() -> None:
    shown = [
        status_document(ProviderStatus(braked=held), address="a", public_hostname="", reclamation_window_ns=0)
        for held in (0, 2)
    ]
    assert [document.get("teardown_brake") for document in shown] == [None, {"held": 2}]


SAID = (
    Directive(LEASES[0], DirectiveKind.HELD, 0.0),
    Directive(LEASES[0], DirectiveKind.MAY_GO, 12.5),
    Directive(LEASES[1], DirectiveKind.CALLED_CLOSED, 0.0),
)


async def test_the_store_returns_the_directives_without_rows_that_it_cannot_read(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "lessor.db")
    memory = StoredDirectives(database)
    assert await memory.save(SAID)
    async with database.writing() as connection:
        strange = [
            {"lease": "no lease", "word": "held", "at": 1.0},
            {"lease": str(LEASES[2]), "word": "new", "at": 1.0},
        ]
        await connection.execute(insert(directive_rows), strange)
    assert await memory.load() == sorted(SAID)
    assert await memory.save(()) and await stored_directives(database) == []
    await database.close()


async def test_a_store_that_fails_is_logged_and_stops_nothing(tmp_path: Path) -> None:
    database = MemoryDatabase(tmp_path / "lessor.db")
    async with database.writing() as connection:
        await connection.exec_driver_sql("DROP TABLE standing_words")
    memory = StoredDirectives(database)
    assert not await memory.save(SAID)
    assert await memory.load() is None
    await database.close()


async def test_a_store_that_is_away_at_the_start_is_read_later_and_never_overwritten_before() -> None:
    world = await _braking()
    said = world.store.directives
    world.store.away = True
    await world.restarted()
    assert not await world.loop.write_directives() and world.store.directives == said
    world.store.away = False
    await world.clock.sleep(11)
    assert await world.loop.write_directives()
    assert len(world.loop.braked) == 2 and len(world.store.directives) == len(said)


async def test_a_store_that_is_replaced_gets_all_directives_again() -> None:
    world = await _braking()
    before = set(world.store.directives)
    world.store.directives = ()
    assert await world.loop.write_directives()
    assert world.store.directives == (), "nothing has changed, as far as the lease loop knows"
    assert await world.loop.write_directives_again()
    assert set(world.store.directives) == before
    await world.restarted()
    assert len(world.loop.braked) == 2
