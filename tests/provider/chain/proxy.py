"""A TCP proxy before a node: it can go half open (connections stay, nothing passes), refuse connections,
and use TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Proxy", "proxy_before"]


class Proxy:
    """`freeze`: what is connected now hangs for ever. `frozen`: so does what connects later. `websockets`: how many
    connections asked for one.
    """

    def __init__(self, target: str) -> None:
        self._host, self._port = target.removeprefix("http://").split(":")
        self.frozen = False
        self.websockets = 0
        self.connections = 0
        self._gates: list[asyncio.Event] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def freeze(self) -> None:
        """Half open: the other side receives neither data nor an end."""
        for gate in self._gates:
            gate.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        gate = asyncio.Event()
        self._gates.append(gate)
        if not self.frozen:
            gate.set()
        onward, back = await asyncio.open_connection(self._host, int(self._port))
        pumps = [
            asyncio.create_task(self._pump(reader, back, gate, asks=True)),
            asyncio.create_task(self._pump(onward, writer, gate)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for side in (writer, back):
            side.close()
            with contextlib.suppress(OSError):
                await side.wait_closed()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event, *, asks: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                self.websockets += asks and b"Upgrade: websocket" in data
                await gate.wait()
                sink.write(data)
                await sink.drain()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def proxy_before(target: str, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[tuple[str, Proxy]]:
    """The address of the proxy, and the proxy."""
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}", proxy
    finally:
        server.close()
        proxy.stop()
        await asyncio.sleep(0)
