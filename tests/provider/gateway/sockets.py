"""A WebSocket client that shows what is on the wire: the response to the handshake, and every frame."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from wsproto.frame_protocol import Frame, FrameProtocol, Opcode

from tests.provider.gateway.world import Answer, World, bearer, parse_answer
from tests.world.patience import PATIENCE_S

__all__ = ["Client", "opened"]


def upgrade_headers() -> list[tuple[str, str]]:
    key = base64.b64encode(os.urandom(16)).decode()
    return [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", key),
        ("Sec-WebSocket-Version", "13"),
    ]


@dataclass
class Client:
    """`answer`: to the handshake. Frames that arrive are read one by one; None is the end of the connection."""

    answer: Answer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    protocol: FrameProtocol = field(default_factory=lambda: FrameProtocol(client=True, extensions=[]))
    waiting: list[Frame] = field(default_factory=list)
    begun: list[object] = field(default_factory=list)

    async def frame(self) -> Frame | None:
        async with asyncio.timeout(PATIENCE_S):
            while not self.waiting:
                data = await self.reader.read(1 << 16)
                if not data:
                    return None
                self.feed(data)
        return self.waiting.pop(0)

    def feed(self, data: bytes) -> None:
        self.protocol.receive_bytes(data)
        for each in self.protocol.received_frames():
            if each.opcode >= Opcode.CLOSE:
                self.waiting.append(each)
                continue
            self.begun.append(each.payload)
            if each.message_finished:
                whole = self.begun[0][:0].join(self.begun)  # type: ignore[arg-type,index]
                self.waiting.append(Frame(each.opcode, whole, True, True))
                self.begun = []

    async def frames(self, count: int) -> list[Frame]:
        found = [await self.frame() for _ in range(count)]
        return [each for each in found if each is not None]

    async def rest(self) -> list[Frame]:
        """Every frame to the end of the connection."""
        found: list[Frame] = []
        while (each := await self.frame()) is not None:
            found.append(each)
        return found

    async def texts(self, count: int) -> list[str]:
        return [str(each.payload) for each in await self.frames(count)]

    def send(self, opcode: Opcode, payload: bytes) -> None:
        sender = FrameProtocol(client=True, extensions=[])
        self.writer.write(bytes(sender._serialize_frame(opcode, payload)))

    def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def opened(
    world: World, path: str, token: str = "", *, headers: Sequence[tuple[str, str]] | None = None, method: str = "GET"
) -> AsyncIterator[Client]:
    """A client after its handshake; `headers` replace those of an upgrade."""
    reader, writer = await world.connect()
    sent = [*(upgrade_headers() if headers is None else headers), *bearer(token)]
    if not any(name.lower() == "host" for name, _ in sent):
        sent.append(("Host", "localhost"))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent)]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
    answer = parse_answer(head)
    if answer.status != 101 and (length := int(answer.header("Content-Length") or 0)):
        answer.body = await reader.readexactly(length)
    client = Client(answer, reader, writer)
    try:
        yield client
    finally:
        client.close()
