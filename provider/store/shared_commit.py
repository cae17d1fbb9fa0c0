"""A shared commit: writes of several callers in one transaction, since a synced commit costs more than its contents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from provider.errors import StoreError

__all__ = ["SharedCommit"]

_T = TypeVar("_T")
_R = TypeVar("_R")


class SharedCommit(Generic[_T, _R]):
    """`write` stores several items in one transaction and returns a result for each. Items that arrive during a write
    share the next one; `turn` is held during a write.
    """

    def __init__(self, write: Callable[[Sequence[_T]], Awaitable[Sequence[_R]]]) -> None:
        self.turn = asyncio.Lock()
        self._write = write
        self._waiting: list[tuple[_T, asyncio.Future[_R]]] = []

    async def add(self, item: _T) -> _R:
        """Store the item and return its result. An error of `write` is raised for every item of that write."""
        done: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        async with self.turn:
            await asyncio.sleep(0)  # callers that are ready now share this write
            if not done.done():
                await self._write_all()
        return done.result()

    async def _write_all(self) -> None:
        batch, self._waiting = self._waiting, []
        found: Sequence[_R] | None = None
        problem: Exception = StoreError("the provider stopped while this was being written")
        try:
            found = await self._write([item for item, _ in batch])
        except Exception as error:  # raised by `add` for each item
            problem = error
        finally:  # also when this task is cancelled: no caller waits for ever
            for index, (_, done) in enumerate(batch):
                if done.done():
                    continue
                if found is None:
                    done.set_exception(problem)
                    done.exception()  # the caller may be gone; asyncio must not warn
                else:
                    done.set_result(found[index])
