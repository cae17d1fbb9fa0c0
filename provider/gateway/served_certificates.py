"""The certificates that the gateway serves, chosen by the name that a client asks for (gateway.md §1).

A client that names the public hostname gets the CA's certificate, if there is one, and is asked for none. Every other
client gets the account certificate and may send a certificate of its own. Either is replaced without a restart.
"""

from __future__ import annotations

from typing import Protocol

import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL

from provider.gateway.config import CaFiles
from provider.gateway.tls import AccountCertificate
from provider.gateway.tls_session import TlsContext, ask_client, openssl_context
from provider.watched_file import file_mark

__all__ = ["ServedAccount", "ServedCertificates"]

_log = structlog.get_logger(__name__)
_REMEDY = "write the certificate, the chain above it and its unencrypted key, in PEM"


class ServedAccount(Protocol):
    """The account certificate that clients get, here or in a gateway process."""

    account: AccountCertificate

    def replace(self, account: AccountCertificate) -> None: ...


class _CaCertificate:
    """The CA's certificate. Files that change are read again; while they are not valid, what was read last is used."""

    def __init__(self, files: CaFiles) -> None:
        self._files = files
        self._mark: tuple[tuple[int, ...], ...] = ()
        self._context: SSL.Context | None = None

    def context(self) -> SSL.Context | None:
        mark = (file_mark(self._files.certificate), file_mark(self._files.key))
        if mark != self._mark:
            self._mark = mark
            self._read()
        return self._context

    def _read(self) -> None:
        names = {"certificate": str(self._files.certificate), "key": str(self._files.key)}
        try:
            chain = x509.load_pem_x509_certificates(self._files.certificate.read_bytes())
            key = load_pem_private_key(self._files.key.read_bytes(), password=None)
            self._context = openssl_context(chain, key, asks=False)
            _log.info("gateway.ca_certificate_read", ends=chain[0].not_valid_after_utc.isoformat(), **names)
        except (OSError, ValueError, TypeError, SSL.Error) as error:
            problem = getattr(error, "strerror", None) or str(error) or type(error).__name__
            _log.error("gateway.ca_certificate_not_read", problem=problem, remedy=_REMEDY, **names)


class ServedCertificates:
    """`account` is the account certificate, which `replace` replaces for new connections. Without `hostname` or `files`
    it serves every name.
    """

    def __init__(self, account: AccountCertificate, *, hostname: str = "", files: CaFiles | None = None) -> None:
        self._hostname = hostname.encode()
        self._ca = _CaCertificate(files) if files is not None else None
        if self._ca is not None:
            self._ca.context()  # a file that is not valid is an error in the log at the start, too
        self.replace(account)

    def replace(self, account: AccountCertificate) -> None:
        """Serve `account` from the next connection on."""
        self.account = account
        self._rest = openssl_context([account.certificate], account.key, asks=True)
        self._grpc = openssl_context([account.certificate], account.key, asks=True, protocols=(b"h2",))
        self._rest.set_tlsext_servername_callback(self._choose)

    def rest(self) -> TlsContext:
        """TLS of the REST gateway. ALPN is ignored, as recorded: a client that offers it connects and uses HTTP/1.1."""
        return TlsContext(lambda: self._rest)

    def grpc(self) -> TlsContext:
        """TLS of the gRPC gateway, which serves the account certificate to every name, as the Go provider does."""
        return TlsContext(lambda: self._grpc)

    def _choose(self, connection: SSL.Connection) -> None:
        if self._ca is None or not self._hostname or connection.get_servername() != self._hostname:
            return
        if (context := self._ca.context()) is not None:
            connection.set_context(context)
            ask_client(connection, asks=False)
