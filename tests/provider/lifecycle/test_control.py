"""An operator's word: what it removes, what it does not, and who may speak."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lease.ids import namespace_name
from provider.errors import ChainError, ProviderUnreachable
from provider.lifecycle.control import OperatorRequest, answer_request, control_path, send_request, serve_control
from provider.lifecycle.state import Phase
from provider.protocols.chain import LeaseState
from tests.provider.lifecycle.world import World, a_group, a_lease, closed, unknown
from tests.world.patience import eventually

pytestmark = pytest.mark.virtual_time

L = a_lease()


async def _suspect() -> World:
    """A lease that runs and that the node does not know any more."""
    world = World()
    await world.run(L, a_group())
    del world.chain.lease_states[L]
    await world.check(L)
    return world


async def test_a_lease_the_node_does_not_know_is_listed_and_stays_until_an_operator_says_close() -> None:
    world = await _suspect()
    for _ in range(20):
        await world.check(L)
    assert "does not know" in world.loop.suspects[L]
    assert world.image(L) == "nginx:1"
    assert world.loop.close(L) == ""
    assert (await world.converge(L)).phase is Phase.CLOSED
    assert world.leftovers(L) == []
    assert L not in world.loop.suspects


async def test_no_request_closes_a_lease_that_runs() -> None:
    world = World()
    await world.run(L, a_group())
    assert "does not look closed" in world.loop.close(L)
    assert (await world.converge(L)).phase is Phase.RUNNING


async def test_a_close_request_is_void_when_the_chain_calls_the_lease_alive_after_all() -> None:
    world = await _suspect()
    assert world.loop.close(L) == ""
    world.chain.put_lease(L, LeaseState.ACTIVE)
    assert (await world.converge(L)).phase is Phase.RUNNING
    world.chain.lies.append(unknown(world.chain.height + 1))
    await world.check(L)
    assert (await world.converge(L)).phase is Phase.RUNNING
    assert world.image(L) == "nginx:1"


async def test_after_a_close_request_a_chain_that_does_not_answer_removes_nothing() -> None:
    world = await _suspect()
    world.loop.close(L)
    world.chain.lies.append(ChainError("https://node", "connection refused"))
    await world.check(L)
    assert world.image(L) == "nginx:1"


async def test_one_answer_makes_a_suspect_and_another_chain_or_an_old_height_does_not() -> None:
    world = World()
    await world.run(L, a_group())
    for lie in (closed(L, 10**6, "other-1"), closed(L, 1)):
        world.chain.lies.append(lie)
        await world.check(L)
        assert not world.loop.suspects
    world.chain.lies.append(closed(L, world.chain.height + 1))
    await world.check(L)
    assert L in world.loop.suspects
    await world.check(L)
    assert not world.loop.suspects


HOSTILE = (b"", b"\n", b"null", b"[]", b"{}", b'{"word": 1}', b'{"word": "reboot"}', b'{"word": "close"}', b"[" * 4000,
           b'{"word": "close", "lease": 7}', b'{"word": "close", "lease": "a/b/c/d/e"}', b"\xff\xfe",
           b'{"word": "close", "lease": "a/1/1/1"}')  # fmt: skip


@pytest.mark.parametrize("line", HOSTILE)
async def test_what_is_no_request_is_answered_so_and_changes_nothing(line: bytes) -> None:
    world = await _suspect()
    answer = await answer_request(world.loop, line)
    assert not answer["ok"]
    assert answer["text"]
    assert world.image(L) == "nginx:1"


@asynccontextmanager
async def _listening(world: World, home: Path) -> AsyncIterator[Path]:
    path = control_path(home)
    task = asyncio.create_task(serve_control(world.loop, path))
    await eventually(path.exists)
    try:
        yield path
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _said(path: Path, word: OperatorRequest, **lease: Any) -> dict[str, Any]:
    return await asyncio.to_thread(send_request, path, word, **lease)


@pytest.mark.real_time
async def test_requests_reach_a_running_provider_through_its_socket(tmp_path: Path) -> None:
    world = await _suspect()
    async with _listening(world, tmp_path) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        standing = await _said(path, OperatorRequest.WAITING)
        assert list(standing["suspects"]) == [str(L)]
        assert (await _said(path, OperatorRequest.CLOSE, lease=a_lease(2)))["ok"] is False
        assert (await _said(path, OperatorRequest.CLOSE, lease=L))["ok"] is True
        assert (await _said(path, OperatorRequest.RELEASE_BRAKE))["text"] == "the brake holds no lease"
        assert (await _said(path, OperatorRequest.RECREATE, lease=L))["ok"] is True
        assert (await _said(path, OperatorRequest.RETRY, lease=L))["ok"] is True
    assert not path.exists()


@pytest.mark.real_time
async def test_a_socket_that_a_killed_provider_left_is_taken_over(tmp_path: Path) -> None:
    world = await _suspect()
    async with _listening(world, tmp_path) as path:
        path.rename(tmp_path / "left")
    (tmp_path / "left").rename(path)
    with pytest.raises(ProviderUnreachable, match="AP_HOME"):
        send_request(path, OperatorRequest.WAITING)
    task = asyncio.create_task(serve_control(world.loop, path))

    async def answers() -> bool:
        with suppress(ProviderUnreachable):
            return bool((await _said(path, OperatorRequest.WAITING))["ok"])
        return False

    await eventually(answers)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.real_time
async def test_a_socket_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    await serve_control(World().loop, tmp_path / "no such folder" / "control.sock")
    await serve_control(World().loop, tmp_path / ("long" * 40))


async def test_a_request_releases_the_brake() -> None:
    world = World(brake_leases=0, brake_percent=0)
    leases = [a_lease(dseq) for dseq in range(1, 6)]
    for lease in leases:
        await world.run(lease, a_group())
        world.chain.put_lease(lease, LeaseState.CLOSED)
    for lease in leases:
        for _ in range(3):
            await world.check(lease)
    held = (await answer_request(world.loop, b'{"word": "standing"}'))["braked"]
    assert len(held) == 2
    assert (await answer_request(world.loop, b'{"word": "release-brake"}'))["leases"] == held
    for lease in leases:
        await world.converge(lease)
    assert not any(world.engine.state.get(namespace_name(lease)) for lease in leases)
