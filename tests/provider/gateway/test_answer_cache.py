"""Answers for anybody that are kept for a short time."""

from __future__ import annotations

import asyncio

import pytest

from provider.errors import ClusterError
from provider.gateway.answer_cache import CachedAnswer
from tests.world.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time


async def test_public_answers_are_kept_for_a_short_time() -> None:
    asked, clock = [], VirtualClock(0.0)

    async def kube_version() -> dict[str, str]:
        asked.append("version")
        return {"major": "1"}

    kept = CachedAnswer(kube_version, clock, seconds=60.0)
    assert await asyncio.gather(*(kept.get() for _ in range(50))) == [{"major": "1"}] * 50
    assert len(asked) == 1
    await clock.advance(59)
    await kept.get()
    assert len(asked) == 1
    await clock.advance(2)
    await kept.get()
    assert len(asked) == 2


async def test_a_failure_is_kept_for_two_seconds() -> None:
    asked, clock = [], VirtualClock(0.0)

    async def fails() -> None:
        asked.append(1)
        raise ClusterError("https://10.0.0.1", "no luck", status=0)

    kept = CachedAnswer(fails, clock, seconds=60.0)
    for _ in range(20):
        with pytest.raises(ClusterError):
            await kept.get()
    assert len(asked) == 1
    await clock.advance(3)
    with pytest.raises(ClusterError):
        await kept.get()
    assert len(asked) == 2
