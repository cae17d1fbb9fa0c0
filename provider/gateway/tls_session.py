"""TLS that asks a client for a certificate and accepts any: pyOpenSSL's connection under asyncio's TLS protocol.

Python's `ssl` verifies a certificate that it asks for against CAs, and tenants' certificates are signed by no CA
(gateway.md §1). `provider/gateway/client_gate.py` finds out after the handshake whose certificate it is.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from OpenSSL import SSL

__all__ = ["TlsContext", "TlsSession", "ask_client", "openssl_context"]

_MAX_HELLO_BYTES = 32 * 1024
"""What a client may send before its handshake is complete. A tenant's certificate has 700 bytes."""
_CHUNK_BYTES = 16 * 1024
_FROM_OPENSSL_BYTES = 64 * 1024


def openssl_context(
    chain: Sequence[x509.Certificate], key: PrivateKeyTypes, *, asks: bool, protocols: Sequence[bytes] = ()
) -> SSL.Context:
    """A context of TLS 1.3 only that serves the first certificate of `chain`, and keeps no session: a resumed session
    would keep a client certificate that was revoked meanwhile. `asks`: whether clients are asked for a certificate.

    `protocols`: for ALPN. A client that offers none of them and not `http/1.1` is refused with alert 120, as recorded;
    without `protocols` ALPN is ignored.
    """
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"lessor")
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.use_certificate(chain[0])
    context.use_privatekey(key)  # type: ignore[arg-type]
    for above in chain[1:]:
        context.add_extra_chain_cert(above)
    context.check_privatekey()
    ask_client(context, asks=asks)
    if protocols:
        context.set_alpn_select_callback(_selection(protocols))
    return context


def ask_client(of: SSL.Context | SSL.Connection, *, asks: bool) -> None:
    """Request a certificate of clients, or not. Any one is taken, also none."""
    of.set_verify(SSL.VERIFY_PEER if asks else SSL.VERIFY_NONE, lambda *_: True)


class NoProtocolError(Exception):
    """The client offered no protocol of this server."""


def _selection(protocols: Sequence[bytes]) -> Callable[[SSL.Connection, list[bytes]], bytes]:
    def select(_: SSL.Connection, offered: list[bytes]) -> bytes:
        for protocol in protocols:
            if protocol in offered:
                return protocol
        if b"http/1.1" in offered:
            return SSL.NO_OVERLAPPING_PROTOCOLS  # type: ignore[return-value]
        raise NoProtocolError

    return select


class TlsContext:
    """What asyncio's TLS protocol takes for an `ssl.SSLContext`. `choose` returns the context of a new connection."""

    def __init__(self, choose: Callable[[], SSL.Context]) -> None:
        self._choose = choose

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **_: object) -> TlsSession:
        return TlsSession(SSL.Connection(self._choose(), None), incoming, outgoing)


class TlsSession:
    """The part of `ssl.SSLObject` that asyncio's TLS protocol uses, for the server's end of one connection."""

    account = ""
    """The account of the client's certificate once it is verified."""
    ended = False

    def __init__(self, connection: SSL.Connection, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        self._connection = connection
        self._incoming = incoming
        self._outgoing = outgoing
        self._before_done = 0
        self._dry = True
        connection.set_accept_state()

    def do_handshake(self) -> None:
        self._before_done += self._incoming.pending
        if self._before_done > _MAX_HELLO_BYTES:
            raise ssl.SSLError("the handshake is too long")
        self._feed()
        try:
            self._connection.do_handshake()
        except SSL.WantReadError:
            raise ssl.SSLWantReadError from None
        except (SSL.Error, NoProtocolError) as error:
            raise _refused(error) from None
        finally:
            self._flush()

    def read(self, size: int, buffer: memoryview | None = None) -> bytes | int:
        """At most `size` bytes; empty (0) at the client's end of the stream.

        OpenSSL gets the next part when it has used the last one: its own buffer never shrinks while the connection is
        open, and beside asyncio's it would hold the same bytes again.
        """
        size = min(size, _CHUNK_BYTES)
        try:
            while True:
                if self._dry and not self._feed(_CHUNK_BYTES):
                    raise ssl.SSLWantReadError
                try:
                    return self._connection.recv(size) if buffer is None else self._connection.recv_into(buffer, size)
                except SSL.WantReadError:
                    self._dry = True
        except SSL.ZeroReturnError:
            return b"" if buffer is None else 0
        except SSL.Error as error:
            self._flush()
            raise _refused(error) from None

    def write(self, data: bytes) -> int:
        """Encrypt all of `data`; the number of its bytes."""
        view, sent = memoryview(data), 0
        try:
            while sent < len(view):
                sent += self._connection.send(view[sent:])
        except SSL.WantReadError:
            if not sent:
                raise ssl.SSLWantReadError from None
        except SSL.Error as error:
            raise _refused(error) from None
        finally:
            self._flush()
        return sent

    def unwrap(self) -> None:
        """Say that nothing more is sent, and take the client's end of the stream."""
        self._feed()
        try:
            complete = self._connection.shutdown()
        except SSL.WantReadError:
            complete = False
        except SSL.ZeroReturnError:
            complete = True
        except SSL.Error as error:
            raise _refused(error) from None
        finally:
            self._flush()
        if not complete:
            raise ssl.SSLWantReadError

    def certified(self) -> bool:
        """Whether the client sent a certificate."""
        return self._connection.get_peer_certificate() is not None

    def client_certificates(self) -> Sequence[x509.Certificate]:
        """The certificates that the client sent, its own first. Raises ValueError for one that cannot be read, and when
        the connection has ended.
        """
        if self.ended:
            raise ValueError("the connection has ended")
        try:
            own = self._connection.get_peer_certificate(as_cryptography=True)
            above = self._connection.get_peer_cert_chain(as_cryptography=True) or []
        except x509.InvalidVersion as error:
            raise ValueError(str(error)) from error
        return [] if own is None else [own, *above]

    def release(self) -> None:
        """Free what OpenSSL holds of the connection, which has ended. Nothing can be read or written any more."""
        self.ended = True
        del self._connection

    def getpeercert(self) -> None:
        return None

    def cipher(self) -> str | None:
        return self._connection.get_cipher_name()

    def compression(self) -> None:
        return None

    def version(self) -> str:
        return self._connection.get_protocol_version_name()

    def selected_alpn_protocol(self) -> str | None:
        return self._connection.get_alpn_proto_negotiated().decode() or None

    def _feed(self, most: int = -1) -> bool:
        """Give OpenSSL at most so many of the bytes that wait, all by default. Returns whether there were any."""
        if data := self._incoming.read(most):
            self._connection.bio_write(data)
            self._dry = False
        return bool(data)

    def _flush(self) -> None:
        try:
            while True:
                data = self._connection.bio_read(_FROM_OPENSSL_BYTES)
                self._outgoing.write(data)
                if len(data) < _FROM_OPENSSL_BYTES:
                    return
        except SSL.Error:
            return  # nothing is left


def _refused(error: Exception) -> ssl.SSLError:
    reasons = [reason for _, _, reason in error.args[0]] if error.args and isinstance(error.args[0], list) else []
    return ssl.SSLError("; ".join(reasons) or type(error).__name__)
