"""The gate between a handshake and the first byte that is read: a client certificate is checked against the chain.

A client without a certificate passes at once. One whose certificate is refused is cut off, on public routes too
(gateway.md §1). OpenSSL can send no alert after the handshake; over HTTP/1.1 the client's first request is answered
with the reason instead, whatever it asks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from provider.errors import ChainError
from provider.gateway.admission import peer_group
from provider.gateway.auth.certificates import CertificateRefusedError, ClientCertificates
from provider.gateway.errors import AuthError, GatewayError, RequestError
from provider.gateway.refusals import Refusals
from provider.gateway.rest.answers import refused_client
from provider.gateway.tls_session import TlsSession

__all__ = ["ClientGate", "client_account", "still_valid"]

_CHECK_S = 10.0
"""The time that a check may take; a client waits for its first answer meanwhile."""
_REQUEST_S = 5.0
"""The time that a refused client has for its first request."""
_LINGER_S = 1.0
"""What it still sends is read so long: a connection that is closed with bytes unread is reset, and the answer lost."""
_RETRY_AFTER_S = 5
_UNCHECKED = "tls: certificate not checked"
_log = structlog.get_logger("gateway")


class ClientGate(asyncio.Protocol):
    """The protocol of a connection from `address` until its client certificate is checked; then the one that `make`
    returns for the account, which is empty without a certificate. `answers_http`: a client that is refused is told why.
    """

    def __init__(
        self,
        make: Callable[[str], asyncio.BaseProtocol],
        certificates: ClientCertificates,
        *,
        address: str,
        refusals: Refusals,
        answers_http: bool = False,
    ) -> None:
        self._make = make
        self._certificates = certificates
        self._address = address
        self._refusals = refusals
        self._task: asyncio.Task[None] | None = None
        self._answers_http = answers_http
        self._answer = b""
        self._end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        session = transport.get_extra_info("ssl_object")
        if not session.certified():
            self._pass(transport, account="")
            return
        transport.pause_reading()
        self._transport = transport
        self._task = asyncio.get_running_loop().create_task(self._check(transport, session))

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._end is not None:
            self._end.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer the first bytes of a client that is refused, and forget the others. Nothing else arrives here."""
        answer, self._answer = self._answer, b""
        if answer:
            self._transport.write(answer)
            self._end_after(_LINGER_S, self._transport.close)

    async def _check(self, transport: asyncio.Transport, session: TlsSession) -> None:
        try:
            async with asyncio.timeout(_CHECK_S):
                session.account = await self._account(session)
        except (CertificateRefusedError, AuthError, ValueError) as error:
            reason = str(error) if isinstance(error, CertificateRefusedError) else _UNCHECKED
            self._refusals.count(reason, peer=peer_group(self._address))
            self._refuse(error if isinstance(error, GatewayError) else CertificateRefusedError(_UNCHECKED))
        except (ChainError, TimeoutError) as error:
            _log.warning("gateway.certificate_not_checked", problem=str(error) or "no answer in time")
            self._refuse(RequestError(503, f"{_UNCHECKED}: the chain does not answer", retry_after_s=_RETRY_AFTER_S))
        except Exception as error:
            self._refusals.count(f"{_UNCHECKED}: {type(error).__name__}", peer=self._address)
            self._refuse(CertificateRefusedError(_UNCHECKED))
        else:
            transport.resume_reading()  # before: the next protocol may pause it again
            self._pass(transport, account=session.account)

    def _refuse(self, error: GatewayError) -> None:
        if not self._answers_http:
            self._transport.abort()
            return
        self._answer = refused_client(error)
        self._end_after(_REQUEST_S, self._transport.abort)
        self._transport.resume_reading()

    def _end_after(self, seconds: float, end: Callable[[], None]) -> None:
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_later(seconds, end)

    async def _account(self, session: TlsSession) -> str:
        return await self._certificates.account(session.client_certificates(), peer=peer_group(self._address))

    def _pass(self, transport: asyncio.Transport, *, account: str) -> None:
        protocol = self._make(account)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


async def still_valid(session: TlsSession, certificates: ClientCertificates) -> bool:
    """Whether the certificate of an open connection is still valid. It is while the chain does not answer: a node that
    is away must not end the streams of tenants.
    """
    try:
        await certificates.account(session.client_certificates())
    except CertificateRefusedError:
        return False
    except (ChainError, AuthError, ValueError):
        return True
    return True


def client_account(transport: asyncio.BaseTransport | None) -> str:
    """The account of the client certificate of a connection, empty without one."""
    session = None if transport is None else transport.get_extra_info("ssl_object")
    return session.account if isinstance(session, TlsSession) else ""
