"""A broker in the test's own loop before scripted plugins, and a client that speaks as a command line does."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest

from stacks.broker.fields import encode
from stacks.broker.server import Serving, serving
from stacks.broker.settings import BrokerSettings
from tests.world.patience import PATIENCE_S

SERVICE = "/pulumirpc.ResourceProvider/"
SCRIPTED = Path(__file__).with_name("scripted.py")


def request(do: str = "", *, stack: str = "one", field: int = 1) -> bytes:
    """A request about a resource of `stack` that tells the scripted plugin what to do."""
    urn = f"urn:pulumi:{stack}::lease::kubernetes:core/v1:Namespace::{stack}".encode()
    return encode((field, urn), (99, b"\x02do:" + do.encode()))


def configure(*pairs: tuple[str, str], stack: str = "one") -> bytes:
    """A ConfigureRequest as the command line makes it: variables, then what differs in each stack."""
    entries = [(1, encode((1, f"kubernetes:config:{key}".encode()), (2, value.encode()))) for key, value in pairs]
    return encode(*entries) + b"\x18\x01\x20\x01" + encode((7, f"id-of-{stack}".encode()), (9, stack.encode()))


@dataclass
class Line:
    """One connection, as a provider of a run has it."""

    channel: grpc.aio.Channel

    async def __call__(self, method: str, body: bytes = b"", **options: object) -> bytes:
        return await self.channel.unary_unary(SERVICE + method)(body, **options)  # type: ignore[arg-type, call-arg]

    async def attached(self, *pairs: tuple[str, str], stack: str = "one") -> str:
        """What a run says first; returns the answer to Configure."""
        await self("Attach", encode((1, b"127.0.0.1:1")))
        await self("CheckConfig", request(stack=stack))
        return (await self("Configure", configure(*pairs, stack=stack))).decode()

    async def pid(self) -> int:
        """Of the plugin that answers."""
        return int((await self("Diff", request())).split()[0])

    async def refused(self, method: str, body: bytes = b"") -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(self(method, body), 30)
        return caught.value


@dataclass
class Bench:
    serving: Serving
    settings: BrokerSettings

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        # a channel of its own: gRPC would share the connection of two to the same address
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 100 << 20)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.serving.port}", options=options) as channel:
            yield Line(channel)


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., BrokerSettings]:
    def make(*manner: str, **changes: object) -> BrokerSettings:
        plugin = (sys.executable, str(SCRIPTED), *manner)
        return BrokerSettings(plugin=plugin, scratch=tmp_path / "scratch", **changes)

    return make


@pytest.fixture
def broker(settings: Callable[..., BrokerSettings]) -> Callable[..., object]:
    """`async with broker(...) as bench:` with scripted plugins of a manner, and settings."""

    @asynccontextmanager
    async def start(*manner: str, **changes: object) -> AsyncIterator[Bench]:
        chosen = settings(*manner, **changes)
        async with serving(chosen) as running:
            yield Bench(running, chosen)

    return start


async def until(done: Callable[[], bool], *, seconds: float = PATIENCE_S) -> None:
    async with asyncio.timeout(seconds):
        while not done():
            await asyncio.sleep(0.02)
