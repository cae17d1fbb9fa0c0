"""The relay before the gRPC server: the gateway's own listener takes the connections and their TLS, and passes the
bytes on to the server, which listens on a socket in a folder that only this user can enter.

grpcio's listener cannot refuse TLS 1.2, and knows no limit of connections of one address.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from pathlib import Path
from urllib.parse import unquote

from provider.gateway.admission import peer_group
from provider.gateway.grpc.frames import FrameGuard
from provider.gateway.refusals import Refusals

__all__ = ["GrpcRelay", "relayed_account", "relayed_peer"]

_BUFFER_BYTES = 64 * 1024
_SEPARATOR, _PARTS = "|", 3


class _End(asyncio.Protocol):
    """One end of a relayed connection: what arrives here is written to the other end. A connection whose peer takes
    nothing for `write_s` ends.
    """

    def __init__(self, write_s: float) -> None:
        self._write_s = write_s
        self._timer: asyncio.TimerHandle | None = None
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()
        self._timer = asyncio.get_running_loop().call_later(self._write_s, self._abort)

    def resume_writing(self) -> None:
        self._stop_timer()
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _abort(self) -> None:
        self._timer = None
        if self.transport is not None:
            self.transport.abort()


class _Front(_End):
    """The end towards the peer. It reads nothing before the other end is connected."""

    def __init__(self, relay: GrpcRelay, address: str, account: str, *, write_s: float) -> None:
        super().__init__(write_s)
        self._relay = relay
        self._peer = peer_group(address)
        self._account = account
        self._guard = FrameGuard()
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.transport is not None:
            self.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        if self._guard.admits(data):
            super().data_received(data)
        else:
            self._relay.refusals.count("frames of one gRPC connection", peer=self._peer)
            self._abort()

    async def _connect(self) -> None:
        try:
            self.other = await self._relay.connect(self._peer, self._account, front=self)
        except OSError:
            self._abort()
            return
        if self.transport is None:
            self.connection_lost(None)  # the peer left meanwhile
        else:
            self.transport.resume_reading()


class GrpcRelay:
    """Connects peers with the server on the socket `path`. Each connection is bound to a name that holds its peer and
    the account of its client certificate, so that the server's `context.peer()` shows both (`relayed_peer`,
    `relayed_account`).
    """

    def __init__(self, path: Path, *, write_s: float, refusals: Refusals) -> None:
        self._path = path
        self.refusals = refusals
        self._write_s = write_s
        self._name = secrets.token_hex(8)
        self._connections = 0

    def end(self, address: str, account: str) -> asyncio.Protocol:
        """The protocol of a new connection from `address` with the client certificate of `account`."""
        return _Front(self, address, account, write_s=self._write_s)

    async def connect(self, peer: str, account: str, *, front: _End) -> _End:
        """A connection to the server for `front`. Raises `OSError`, also for a name that is too long: it is never
        cut.
        """
        loop = asyncio.get_running_loop()
        self._connections += 1
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.bind(os.fsencode(_SEPARATOR.join((f"\0l{self._name}{self._connections}", account, peer))))
            await loop.sock_connect(connection, str(self._path))
        except BaseException:
            connection.close()
            raise
        back = _End(self._write_s)
        back.other = front
        await loop.create_unix_connection(lambda: back, sock=connection)
        return back


def relayed_peer(peer: str) -> str:
    """What limits count by, from the text of `context.peer()` behind a relay."""
    return unquote(peer).rpartition(_SEPARATOR)[2]


def relayed_account(peer: str) -> str:
    """The account of the client certificate, from the same text; empty without one."""
    parts = unquote(peer).split(_SEPARATOR)
    return parts[1] if len(parts) == _PARTS else ""
