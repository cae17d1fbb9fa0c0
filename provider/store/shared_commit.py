"""Writes of many that share a transaction: a commit that is synced costs more than what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from provider.errors import StoreError

__all__ = ["SharedCommit"]

_T = TypeVar("_T")
_R = TypeVar("_R")


class SharedCommit(Generic[_T, _R]):
    """`write` stores several items as a whole and gives a result for each. Whoever comes while others are being written
    goes along with the next; `turn` is held while something is written.
    """

    def __init__(self, write: Callable[[Sequence[_T]], Awaitable[Sequence[_R]]]) -> None:
        self.turn = asyncio.Lock()
        self._write = write
        self._waiting: list[tuple[_T, asyncio.Future[_R]]] = []

    async def add(self, item: _T) -> _R:
        """Store it. Raises what `write` raises, to each that it was written for."""
        done: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        async with self.turn:
            await asyncio.sleep(0)  # whoever comes at this very moment goes along
            if not done.done():
                await self._write_all()
        return done.result()

    async def _write_all(self) -> None:
        batch, self._waiting = self._waiting, []
        found: Sequence[_R] | None = None
        problem: Exception = StoreError("the provider stopped while this was being written")
        try:
            found = await self._write([item for item, _ in batch])
        except Exception as error:  # told to each that waits
            problem = error
        finally:  # also when this very task is cancelled: nobody waits for ever
            for index, (_, done) in enumerate(batch):
                if done.done():
                    continue
                if found is None:
                    done.set_exception(problem)
                    done.exception()  # whoever waited may be gone
                else:
                    done.set_result(found[index])
