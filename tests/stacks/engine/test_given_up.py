"""An opened update that nobody used is told once, with what it did and why it was given up; no process is started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stacks.common.errors import WorkerLost
from stacks.common.results import StackResult
from tests.stacks.engine.test_opened_races import Opened


class Heard(Opened):
    def __init__(self, data: Path, *, seconds: float = 5) -> None:
        super().__init__(data)
        self.updates._config = self.updates._config.model_copy(update={"open_seconds": seconds})
        self.heard: list[tuple[StackResult, str]] = []
        self.updates.on_given_up = lambda result, why: self.heard.append((result, why))

    @property
    def whys(self) -> list[str]:
        return [why for _, why in self.heard]

    async def over(self) -> None:
        async with asyncio.timeout(5):
            while self.updates._updates:
                await asyncio.sleep(0.001)


async def _ended(opened: Heard) -> None:
    await opened.updates.end(opened.spec.namespace, why="it ends")


async def _wanted(opened: Heard) -> None:
    opened.updates.make_room()


async def _misfit(opened: Heard) -> None:
    other = opened.spec.model_copy(update={"first_resource_version": "77"})
    assert await opened.updates.use(other) is None


WHYS = {
    "it ends": _ended,
    "another operation needed its worker": _wanted,
    "it did not fit the manifest that came": _misfit,
}


@pytest.mark.parametrize(("why", "do"), WHYS.items(), ids=WHYS)
async def test_what_ends_it_is_told(tmp_path: Path, why: str, do: Callable[[Heard], Awaitable[None]]) -> None:
    opened = Heard(tmp_path)
    await opened.waits()
    await do(opened)
    await opened.over()
    assert opened.whys == [why] and opened.heard[0][0].stack == opened.spec.namespace


async def test_without_a_manifest_in_time_that_is_told(tmp_path: Path) -> None:
    opened = Heard(tmp_path, seconds=0.05)
    await opened.waits()
    await opened.over()
    assert opened.whys == ["no manifest came within 0.05 s"]


async def test_one_that_is_used_is_not_told(tmp_path: Path) -> None:
    opened = Heard(tmp_path)
    await opened.waits()
    assert await opened.updates.use(opened.spec) is not None
    assert opened.heard == []


async def test_one_that_was_never_begun_is_not_told(tmp_path: Path) -> None:
    opened = Heard(tmp_path)
    ending = asyncio.create_task(_ended(opened))
    await asyncio.sleep(0)
    opened.pool.started.set()
    await ending
    assert opened.heard == []


async def test_the_end_of_the_engine_is_not_told(tmp_path: Path) -> None:
    opened = Heard(tmp_path)
    await opened.waits()
    await opened.updates.close()
    assert opened.heard == [] and opened.pool.worker.said == ["run", "interrupt"]


async def test_one_whose_worker_dies_is_told_as_failed(tmp_path: Path) -> None:
    opened = Heard(tmp_path)
    await opened.waits()
    opened.pool.worker._end.set_exception(WorkerLost("the worker was killed"))
    await opened.over()
    assert [(result.ok, result.error, why) for result, why in opened.heard] == [(False, "the worker was killed", "")]
