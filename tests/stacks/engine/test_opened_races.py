"""What may meet within milliseconds around an opened update; no process is started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.results import Operation, StackResult
from stacks.common.wire import Task
from stacks.engine.openings import OpenedUpdates
from stacks.engine.pool import Load
from tests.stacks.leases import small


class Worker:
    """Waits for a spec or an interrupt."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._end: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def run(self, task: Task, *, waits: Any) -> StackResult:
        self.said.append("run")
        waits()
        given = await self._end
        return StackResult(Operation.UP, task.stack, ok=given, seconds=0, opened=given)

    async def give(self, spec: LeaseSpec) -> None:
        self.said.append("give")
        self._end.set_result(True)

    async def interrupt(self) -> None:
        self.said.append("interrupt")
        self._end.set_result(False)


class Pool:
    load = Load({}, 0, 0, 4)

    def __init__(self) -> None:
        self.worker = Worker()
        self.started = asyncio.Event()

    async def take_spare(self) -> Worker:
        await self.started.wait()
        return self.worker


class Opened:
    def __init__(self, data: Path) -> None:
        self.pool, self.usable = Pool(), list[bool]()
        config = EngineConfig(data=data, kubeconfig=data, pulumi=data, open_seconds=5)
        self.updates = OpenedUpdates(config, self.pool, put_back=self._put_back)  # type: ignore[arg-type]
        self.spec = small()
        fewer = {"group": "", "services": (), "hostnames": (), "leased_ips": ()}
        assert self.updates.open(self.spec.model_copy(update=fewer))

    async def _put_back(self, worker: object, stack: str, *, usable: bool) -> None:
        self.usable.append(usable)

    async def waits(self) -> None:
        self.pool.started.set()
        async with asyncio.timeout(2):
            while not self.updates.waiting:
                await asyncio.sleep(0)


async def test_one_given_up_before_its_worker_has_started_is_never_begun(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    ending = asyncio.create_task(opened.updates.end(opened.spec.namespace))
    await asyncio.sleep(0)
    opened.pool.started.set()
    await ending
    assert opened.pool.worker.said == [] and opened.usable == [True]


async def test_of_a_spec_and_a_word_to_end_within_one_moment_one_counts(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    await opened.waits()
    result, _ = await asyncio.gather(opened.updates.use(opened.spec), opened.updates.end(opened.spec.namespace))
    assert opened.pool.worker.said in (["run", "give"], ["run", "interrupt"])
    assert (result is not None) == ("give" in opened.pool.worker.said)
