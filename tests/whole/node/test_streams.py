"""Logs, events and shells of real containers, through the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlencode

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import WSCloseCode

from lease.ids import namespace_name
from tests.whole.conftest import Rented, close, deploy, rent
from tests.whole.node.conftest import MARKS, Site
from tests.whole.node.documents import small
from tests.whole.streams import messages, opened
from tests.world.patience import PATIENCE_S

pytestmark = [*MARKS, pytest.mark.long]
_COUNTS = "echo started; i=0; while [ ! -e /end ]; do i=$((i+1)); echo line $i of $HOSTNAME; sleep 0.2; done"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rented(site: Site) -> AsyncIterator[Rented]:
    await site.begun()
    sdl = small(web={"command": ["sh", "-c", _COUNTS]}, db={"command": ["sh", "-c", "sleep 100000"]})
    found = await rent(site.world, sdl)
    await deploy(site.world, site.provider, found)
    yield found
    await close(site.world, site.provider, found)


async def until(socket: aiohttp.ClientWebSocketResponse, wanted: str) -> list[tuple[str, str]]:
    """The lines up to the first whose pod or text begins with `wanted`."""
    found: list[tuple[str, str]] = []
    async with asyncio.timeout(PATIENCE_S):
        async for line in messages(socket):
            found.append((line["name"], line["message"]))
            if line["message"].startswith(wanted) or line["name"].startswith(wanted):
                break
    return found


async def shell(
    site: Site, rented: Rented, *command: str, stdin: Sequence[bytes] = (), tty: bool = False
) -> list[bytes]:
    """The frames of a command; those of one code that follow each other are joined."""
    arguments = {f"cmd{number}": text for number, text in enumerate(command)}
    query = urlencode(arguments | {"tty": int(tty), "stdin": int(bool(stdin)), "service": "db", "podIndex": 0})
    found: list[bytes] = []
    async with opened(site.world, rented, f"shell?{query}") as socket:
        for frame in stdin:
            await socket.send_bytes(frame)
        while (message := await socket.receive(timeout=PATIENCE_S)).type in (
            aiohttp.WSMsgType.BINARY,
            aiohttp.WSMsgType.PING,
        ):
            if message.type is aiohttp.WSMsgType.BINARY and found and found[-1][:1] == message.data[:1]:
                found[-1] += message.data[1:]
            elif message.type is aiohttp.WSMsgType.BINARY:
                found.append(message.data)
    return found


async def test_a_followed_log_goes_on_through_a_restart_and_a_replacement(site: Site, rented: Rented) -> None:
    namespace = namespace_name(rented.lease)
    async with opened(site.world, rented, "logs?follow=true&service=web") as socket:
        before = await until(socket, "line 5 ")
        assert [text for _, text in before[:2]] == ["started", f"line 1 of {before[0][0]}"]
        pod = await site.pod(namespace, "web")
        await site.kubectl("-n", namespace, "exec", pod, "--", "touch", "/end")
        again = await until(socket, "started")
        texts = [text for _, text in [*before, *again] if text.startswith("line ")]
        assert texts == [f"line {number} of {pod}" for number in range(1, len(texts) + 1)]
        await site.kubectl("-n", namespace, "delete", "pod", pod, "--grace-period=1", "--wait=false")
        replaced = await until(socket, "started")
        assert replaced[-1][0] != pod


async def test_events_name_what_became_of_the_pods(site: Site, rented: Rented) -> None:
    async with opened(site.world, rented, "kubeevents?service=db") as socket:
        found = [event async for event in messages(socket, close_code=WSCloseCode.OK)]
    assert {"Scheduled", "Pulled", "Started"} <= {event["reason"] for event in found}


async def test_a_shell_has_outputs_exit_codes_stdin_and_a_terminal_with_a_size(site: Site, rented: Rented) -> None:
    assert await shell(site, rented, "sh", "-c", "echo out; echo err >&2; exit 3") in (
        [b"dout\n", b"eerr\n", b'f{"exit_code":3}\n'],
        [b"eerr\n", b"dout\n", b'f{"exit_code":3}\n'],
    )
    assert await shell(site, rented, "sh", "-c", "kill -9 $$") == [b'f{"exit_code":137}\n']
    missing = json.loads((await shell(site, rented, "/no/such"))[-1][1:])
    assert missing["exit_code"] == 0
    assert missing["message"].endswith("command could not be executed because it does not exist")
    assert await shell(site, rented, "head", "-n1", stdin=[b"habc\n"]) == [b"dabc\n", b'f{"exit_code":0}\n']
    size, result = await shell(site, rented, "sh", "-c", "sleep 1; stty size", stdin=[b"i\x00\x64\x00\x21"], tty=True)
    assert (size, result) == (b"d33 100\r\n", b'f{"exit_code":0}\n')
    large = await shell(site, rented, "sh", "-c", "head -c 5000000 /dev/zero")
    assert [len(each) for each in large] == [5_000_001, len(b'f{"exit_code":0}\n')]
