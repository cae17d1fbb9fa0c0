"""A TLS listener for peers that nobody knows: connections are limited before their handshake, in number, in time and
in the memory that each one takes.

asyncio's own server accepts without a limit, waits a minute for a handshake and keeps 256 KiB a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from functools import partial

import structlog

from provider.errors import SettingsError
from provider.gateway.admission import Admission
from provider.gateway.auth.certificates import ClientCertificates
from provider.gateway.client_gate import ClientGate, still_valid
from provider.gateway.tls_session import TlsContext, TlsSession
from provider.gateway.turns import Turns

__all__ = ["TlsListener"]

_BACKLOG = 128
_SHUTDOWN_S = 5.0
_READ_BYTES = 32 * 1024
"""Encrypted bytes that wait for a connection that reads nothing at the moment; asyncio's own limit is 256 KiB."""
_RETRY_S = 1.0
_RECHECK_S = 20.0
_HTTP = frozenset({b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"})
_NO_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = structlog.get_logger("gateway")


def _nothing() -> None:
    """Return at once."""


class _Tls(SSLProtocol):
    """TLS of one connection. What arrives waits for a turn, and `lost` is called once at the end."""

    max_size = 8 * 1024

    def __init__(
        self,
        protocol: asyncio.BaseProtocol,
        context: TlsContext,
        *,
        handshake_s: float,
        turns: Turns,
        lost: Callable[[], None],
        answers_http: bool = False,
    ) -> None:
        self._turns = turns
        self._lost = lost
        self._answers_http = answers_http
        loop = asyncio.get_running_loop()
        super().__init__(
            loop,
            protocol,
            context,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            server_side=True,
            ssl_handshake_timeout=handshake_s,  # type: ignore[arg-type]
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )
        self._set_read_buffer_limits(high=_READ_BYTES)  # type: ignore[attr-defined]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._peer = transport
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Read nothing more of this connection until its turn has come: the buffer is in use."""
        self._peer.pause_reading()
        self._turns.add(partial(self._take, nbytes))

    def eof_received(self) -> bool:  # type: ignore[override]
        """The peer has left; a thousand may leave at once."""
        self._turns.add(self._end)
        return True

    @property
    def session(self) -> TlsSession:
        session: TlsSession = self._sslobj  # type: ignore[attr-defined]
        return session

    def _on_handshake_complete(self, handshake_exc: BaseException | None) -> None:
        """Send the alert that tells the client why; asyncio would drop it."""
        if handshake_exc is not None and not self._peer.is_closing():
            self._process_outgoing()  # type: ignore[attr-defined]
        super()._on_handshake_complete(handshake_exc)

    def _check_handshake_timeout(self) -> None:
        self._turns.add(super()._check_handshake_timeout)

    def _end(self) -> None:
        """Nothing can be sent to the peer any more, so what it has sent is not worked on either."""
        if self._peer.is_closing():
            return
        if self._app_reading_paused:  # type: ignore[attr-defined]
            self._peer.abort()
        elif not super().eof_received():
            self._peer.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Free the connection's memory now. What is left refers to itself, and garbage is collected after thousands of
        connections.
        """
        super().connection_lost(exc)
        self._lost()
        self._lost = _nothing
        if (session := self._sslobj) is not None:  # type: ignore[attr-defined]
            session.release()

    def abort(self) -> None:
        if self._transport is not None:
            self._peer.abort()

    def _take(self, nbytes: int) -> None:
        if self._peer.is_closing() or self._answered_http():
            return
        try:
            super().buffer_updated(nbytes)
        except Exception as error:
            _log.error("gateway.connection_failed", error=type(error).__name__)
            self._peer.abort()
        if not self._ssl_reading_paused:  # type: ignore[attr-defined]
            self._peer.resume_reading()

    def _answered_http(self) -> bool:
        """Whether the peer's first bytes were HTTP without TLS, which is answered as the Go provider does."""
        first, self._answers_http = self._answers_http, False
        if not first or bytes(self._ssl_buffer_view[:5]) not in _HTTP:  # type: ignore[attr-defined]
            return False
        self._peer.write(_NO_TLS)
        self._peer.close()
        return True


class TlsListener:
    """Accepts connections for `make`, which returns the protocol of a new connection from the peer's address and the
    account of its client certificate. One connection is accepted a pass of the loop.

    `answers_http`: whether HTTP without TLS gets an answer in clear text, and a refused client one with the reason.
    """

    def __init__(
        self,
        make: Callable[[str, str], asyncio.BaseProtocol],
        context: TlsContext,
        *,
        clients: ClientCertificates,
        admission: Admission,
        turns: Turns,
        answers_http: bool = False,
    ) -> None:
        self._clients = clients
        self._answers_http = answers_http
        self._make = make
        self._context = context
        self._admission = admission
        self._turns = turns
        self._sockets: list[socket.socket] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._open: set[_Tls] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._rechecks: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port; the actual port also when 0 was asked for."""
        host, port = self._sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def start(self, host: str, port: int, *, setting: str) -> None:
        """Listen. An empty host means all addresses. Raises `SettingsError`, which names the environment variable
        `setting`, for an address that is not available.
        """
        try:
            self._sockets += await asyncio.to_thread(_bound, host, port)
        except OSError as error:
            raise SettingsError(
                f"{setting}={host}:{port}: {error.strerror or error}; "
                "stop the program that listens there, or set another address of this machine"
            ) from error
        self._listen()
        self._rechecks = asyncio.get_running_loop().create_task(self._recheck())

    def close(self) -> None:
        """Accept nothing more. Connections stay."""
        for timer in (self._retry, self._rechecks):
            if timer is not None:
                timer.cancel()
        for each in self._sockets:
            asyncio.get_running_loop().remove_reader(each)
            each.close()
        self._sockets.clear()

    async def abort(self) -> None:
        """End the connections that are still open."""
        for each in list(self._open):
            each.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next pass of the loop

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(_RECHECK_S)
            await self.check_certificates()

    async def check_certificates(self) -> None:
        """Cut off the connections whose client certificate is no longer valid."""
        for each in list(self._open):
            if each in self._open and each.session.account and not await still_valid(each.session, self._clients):
                self._admission.refusals.count("client certificates that were revoked meanwhile", peer="")
                each.abort()

    def _listen(self) -> None:
        for each in self._sockets:
            asyncio.get_running_loop().add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        try:
            connection, peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self._rest(listening, error)
            return
        address = str(peer[0])
        if not self._admission.admit(address):
            connection.close()
            return
        connection.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._serve(connection, address))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _rest(self, listening: socket.socket, error: OSError) -> None:
        """Accept nothing for a second: descriptors or memory are used up."""
        loop = asyncio.get_running_loop()
        if error.errno in _EXHAUSTED:
            _log.error("gateway.accept_failed", problem=error.strerror, next_try_s=_RETRY_S)
            loop.remove_reader(listening)
            self._retry = loop.call_later(_RETRY_S, self._listen)

    async def _serve(self, connection: socket.socket, address: str) -> None:
        def lost() -> None:
            self._open.discard(tls)
            self._admission.release(address)

        refusals = self._admission.refusals
        gate = ClientGate(
            partial(self._make, address),
            self._clients,
            address=address,
            refusals=refusals,
            answers_http=self._answers_http,
        )
        tls = _Tls(
            gate,
            self._context,
            handshake_s=self._admission.limits.handshake_s,
            turns=self._turns,
            lost=lost,
            answers_http=self._answers_http,
        )
        self._open.add(tls)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: tls, connection)
        except OSError:
            with contextlib.suppress(OSError):
                connection.close()
            lost()


def _bound(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address of the host. `::` serves IPv6 only, as asyncio's own server does."""
    infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    found: list[socket.socket] = []
    try:
        for family, address in sorted({(family, address[:2]) for family, _, _, _, address in infos}):
            if family != socket.AF_INET6 or socket.has_ipv6:
                found.append(socket.create_server(address, family=family, backlog=_BACKLOG))
                found[-1].setblocking(False)
    except OSError:
        for each in found:
            each.close()
        raise
    return found
