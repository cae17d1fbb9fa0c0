"""A lock for each key, kept only while a task holds it or waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

__all__ = ["KeyedLocks"]

_Key = TypeVar("_Key", bound=Hashable)


class KeyedLocks(Generic[_Key]):
    """`key in locks` says whether a task holds the key's lock or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[_Key, asyncio.Lock] = {}
        self._users: Counter[_Key] = Counter()

    def __contains__(self, key: _Key) -> bool:
        return key in self._locks

    @asynccontextmanager
    async def hold(self, key: _Key) -> AsyncIterator[None]:
        """Hold the lock of `key` inside the block; one holder at a time, in the order of asking."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]
