"""What the kubelet asks: the process is alive from its first moment on, and ready when it serves tenants."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest

from provider.daemon.health import health_listener
from provider.errors import SettingsError


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def status(client: aiohttp.ClientSession, path: str) -> int:
    async with client.get(path) as answer:
        return answer.status


async def test_the_process_is_alive_at_once_and_ready_when_it_serves() -> None:
    address, ready = free_address(), asyncio.Event()
    async with health_listener(address, ready), aiohttp.ClientSession(f"http://{address}") as client:
        assert [await status(client, path) for path in ("/healthz", "/readyz", "/")] == [200, 503, 404]
        ready.set()
        assert [await status(client, path) for path in ("/healthz", "/readyz")] == [200, 200]


async def test_an_address_that_is_taken_is_named() -> None:
    address = free_address()
    async with health_listener(address, asyncio.Event()):
        with pytest.raises(SettingsError, match=f"LESSOR_HEALTH_LISTENER={address}"):
            async with health_listener(address, asyncio.Event()):
                raise AssertionError("not reached")


async def test_without_an_address_nothing_is_served() -> None:
    async with health_listener("", asyncio.Event()):
        pass
