"""A lock for each key."""

from __future__ import annotations

import asyncio

from stacks.common import KeyedLocks


async def test_holders_of_one_key_take_turns_and_others_do_not_wait():
    locks, order = KeyedLocks[str](), []
    leave = asyncio.Event()

    async def hold(key: str, name: str) -> None:
        async with locks.hold(key):
            order.append(name)
            await leave.wait()

    tasks = [asyncio.create_task(hold(key, name)) for key, name in (("a", "first"), ("a", "second"), ("b", "other"))]
    await asyncio.sleep(0.01)
    assert order == ["first", "other"]
    leave.set()
    await asyncio.gather(*tasks)
    assert order == ["first", "other", "second"]


async def test_a_key_is_forgotten_when_nobody_holds_or_awaits_its_lock():
    locks = KeyedLocks[str]()
    async with locks.hold("a"):
        assert "a" in locks and "b" not in locks
        waiting = asyncio.create_task(_hold(locks, "a"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert "a" in locks
    assert "a" not in locks


async def _hold(locks: KeyedLocks[str], key: str) -> None:
    async with locks.hold(key):
        pass
