"""Rows of operations and locks of leases, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from provider.errors import StoreError
from provider.store import Database, open_database
from provider.store.sealing import KeyRing
from provider.workers.host import WorkerHost
from provider.workers.lease_locks import LeaseLocks, locked_stacks
from provider.workers.operations import Operations
from stacks.common import Operation, Priority, StackResult, Task
from tests.provider.workers.parts import KEY
from tests.stacks.leases import CANARY, small
from tests.world.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.xdist_group("postgresql")
UP = Task(operation=Operation.DESTROY, stack="a")
DONE = StackResult(Operation.DESTROY, "a", ok=True, seconds=1.0)


@pytest.fixture
async def database(postgresql: PostgresqlServer) -> AsyncIterator[Database]:
    made = await open_database(await asyncio.to_thread(postgresql.new_database, migrated=True))
    yield made
    await made.close()


@pytest.fixture
def operations(database: Database) -> Operations:
    return Operations(database, KeyRing.of([KEY]))


async def ask(operations: Operations, task: Task = UP, *, term: int = 0) -> str:
    return await operations.ask(task, priority=Priority.UPDATE, term=term)


async def test_an_operation_goes_to_a_worker_and_its_result_comes_back(operations: Operations):
    spec = small()
    task = Task(operation=Operation.UP, stack=spec.namespace, spec=spec)
    number = await ask(operations, task)
    begun = await operations.begin(spec.namespace, worker="w", term=0)
    assert begun is not None and begun.task == task and begun.number == number
    state = (await operations.states({spec.namespace: number}))[spec.namespace]
    assert state.worker == "w" and state.result is None
    result = StackResult(Operation.UP, spec.namespace, ok=True, seconds=1.0, summary={"create": 5})
    await operations.end(spec.namespace, number, result)
    assert (await operations.states({spec.namespace: number}))[spec.namespace].result == result
    assert await operations.begin(spec.namespace, worker="w", term=0) is None, "it is done"
    await operations.forget([number])
    assert await operations.states({spec.namespace: number}) == {}


async def test_a_tenants_secret_is_in_no_row(operations: Operations, database: Database):
    spec = small()
    await ask(operations, Task(operation=Operation.UP, stack=spec.namespace, spec=spec))
    async with database.reading() as connection:
        row = (await connection.execute(text("SELECT * FROM stack_operations"))).one()
    assert CANARY.encode() not in b"".join(bytes(part) for part in row if isinstance(part, bytes | memoryview))
    assert CANARY not in str(row)


async def test_an_operation_of_another_term_is_not_begun(operations: Operations):
    await ask(operations, term=4)
    assert await operations.begin("a", worker="w", term=3) is None
    assert await operations.begin("a", worker="w", term=5) is None
    assert await operations.begin("a", worker="w", term=4) is not None


async def test_the_result_of_an_operation_that_is_asked_for_no_longer_is_nobodys(operations: Operations):
    first = await ask(operations)
    assert await operations.begin("a", worker="w", term=0)
    second = await ask(operations)
    await operations.end("a", first, DONE)
    assert (await operations.states({"a": second}))["a"].result is None
    assert await operations.states({"a": first}) == {}


async def test_a_row_of_another_key_is_refused(operations: Operations, database: Database):
    await ask(operations)
    stranger = Operations(database, KeyRing.of([KEY[::-1][1:] + "="]))
    with pytest.raises(StoreError, match="cannot be decrypted"):
        await stranger.begin("a", worker="w", term=0)


async def test_one_holds_the_lock_of_a_lease_and_everybody_sees_it(database: Database):
    async with LeaseLocks.opened(database) as one, LeaseLocks.opened(database) as other:
        async with one.hold("a") as held, other.hold("a") as again, one.hold("a") as twice, other.hold("b") as free:
            assert (held, again, twice, free) == (True, False, False, True)
            assert await locked_stacks(database, ["a", "b", "c"]) == {"a", "b"}
        assert await locked_stacks(database, ["a", "b"]) == set()
        async with other.hold("a") as held:
            assert held


async def test_a_holder_whose_connection_is_cut_hears_of_it_and_another_gets_the_lock(database: Database):
    async with LeaseLocks.opened(database) as one, LeaseLocks.opened(database) as other:
        with pytest.raises(StoreError, match="locks of leases are lost"):
            async with one.hold("a") as held:
                assert held
                cut = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
                async with database.writing() as connection:
                    await connection.execute(text(cut))
                await one.watch()
        async with other.hold("a") as held:
            assert held


class Refusing:
    """An engine that must not be asked."""

    async def perform(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult:
        raise AssertionError(f"{task} {priority}")


@pytest.mark.parametrize(("term", "why"), [(0, "nothing is asked for"), (7, "LESSOR_LEADER_LEASE is not set here")])
async def test_a_task_without_a_row_or_of_an_unknown_term_does_nothing(
    database: Database, operations: Operations, term: int, why: str
):
    async with LeaseLocks.opened(database) as locks:
        host = WorkerHost(Refusing(), operations, locks, name="w")
        await ask(operations, term=1)
        assert why in await host.work("a", term)
        host.closing = True
        assert "ends" in await host.work("a", 0)


async def test_what_an_ending_worker_interrupts_is_left_to_another(database: Database, operations: Operations):
    number = await ask(operations)
    async with LeaseLocks.opened(database) as locks:

        class Interrupted:
            async def perform(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult:
                host.closing = True
                return StackResult(task.operation, task.stack, ok=False, seconds=0.0, error=str(priority))

        host = WorkerHost(Interrupted(), operations, locks, name="w")
        assert "interrupted" in await host.work("a", 0)
    state = (await operations.states({"a": number}))["a"]
    assert state.result is None and state.worker == "w"


async def test_an_engine_that_breaks_is_a_result_which_the_leader_reads(database: Database, operations: Operations):
    class Full:
        async def perform(self, task: Task, priority: Priority = Priority.UPDATE) -> StackResult:
            raise OSError(28, "No space left on device")

    number = await ask(operations)
    async with LeaseLocks.opened(database) as locks:
        assert await WorkerHost(Full(), operations, locks, name="w").work("a", 0) == "done"
    result = (await operations.states({"a": number}))["a"].result
    assert result is not None and not result.ok and "No space left" in result.error
    assert result.cause is not None and result.cause.provider_fault, "it is tried again"
