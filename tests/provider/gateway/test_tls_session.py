"""The server's end of one TLS connection over memory."""

from __future__ import annotations

import ssl
from pathlib import Path

from OpenSSL import SSL

from provider.gateway.tls import ensure_certificate
from provider.gateway.tls_session import TlsSession, openssl_context
from tests.provider.gateway.world import PROVIDER

_NOW = 1_800_000_000.0
_SENT = b"x" * 200_000


def _connected(folder: Path) -> tuple[TlsSession, ssl.MemoryBIO, ssl.SSLObject, ssl.MemoryBIO]:
    """The session with what arrives for it, and its client with what the client sends."""
    account = ensure_certificate(PROVIDER, folder, now=_NOW)
    context = openssl_context([account.certificate], account.key, asks=True)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    arrived, answered, sent = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO()
    session = TlsSession(SSL.Connection(context, None), arrived, answered)
    client = client_context.wrap_bio(answered, sent)
    for end in (client, session, client, session):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            arrived.write(sent.read())
        arrived.write(sent.read())
    return session, arrived, client, sent


def test_openssl_gets_no_more_than_it_uses_next(tmp_path: Path) -> None:
    """Its buffer never shrinks, and a thousand connections would keep the most that each has ever been sent at once."""
    session, arrived, client, sent = _connected(tmp_path)
    client.write(_SENT)
    arrived.write(sent.read())
    assert len(session.read(8192)) > 0  # type: ignore[arg-type]
    assert arrived.pending > len(_SENT) - 4 * 8192


def test_everything_that_arrived_is_read_in_order_whatever_its_parts(tmp_path: Path) -> None:
    session, arrived, client, sent = _connected(tmp_path)
    data = bytes(range(256)) * 800
    client.write(data)
    got, encrypted = b"", sent.read()
    for start in range(0, len(encrypted), 7001):
        arrived.write(encrypted[start : start + 7001])
        try:
            while True:
                got += session.read(5000)  # type: ignore[operator]
        except ssl.SSLWantReadError:
            pass
    assert got == data
