"""TLS to a node: the operator's CA and a client certificate, for nodes behind an mTLS proxy. Changed files are read
again, so that a renewed certificate needs no restart.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from provider.errors import SettingsError

__all__ = ["ClientTls", "TlsFiles"]

_Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. `ca` None: the system's CAs. `certificate` may contain its key and the chain above it."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __bool__(self) -> bool:
        return any((self.ca, self.certificate, self.key))

    def all(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.ca, self.certificate, self.key) if path is not None)


class ClientTls:
    """Provides the context for the next connection. Raises `SettingsError` at construction only: a file that is invalid
    later (half written, removed) is an error in the log, and the last valid context stays in use.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamp = self._stamps()
        self._context = _context(files)

    def context(self) -> ssl.SSLContext:
        stamp = self._stamps()
        if stamp != self._stamp:
            import structlog  # noqa: PLC0415  settings name these files, and commands that read settings log nothing

            self._stamp, log = stamp, structlog.get_logger(__name__)
            try:
                self._context = _context(self._files)
                log.info("chain.tls_reloaded", files=[str(path) for path in self._files.all()])
            except SettingsError as error:
                log.error(
                    "chain.tls_not_reloaded",
                    problem=str(error),
                    remedy="correct the files; the ones read before stay in use",
                )
        return self._context

    def _stamps(self) -> _Stamp:
        return tuple(_stamp(path) for path in self._files.all())


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _context(files: TlsFiles) -> ssl.SSLContext:
    if files.key and not files.certificate:
        raise SettingsError(f"LESSOR_NODE_KEY_FILE={files.key}: a key needs its certificate; set LESSOR_NODE_CERT_FILE")
    context = _trusting(files.ca)
    if files.certificate:
        _identify(context, files.certificate, files.key)
    return context


def _trusting(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise SettingsError(f"LESSOR_NODE_CA_FILE={ca}: {_why(error)}; it must hold PEM certificates") from error


def _identify(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    def no_password() -> bytes:
        raise ValueError("the key is encrypted; write it without a password")

    try:
        context.load_cert_chain(certificate, key, password=no_password)
    except (OSError, ValueError) as error:
        names = f"LESSOR_NODE_CERT_FILE={certificate} with LESSOR_NODE_KEY_FILE={key or certificate}"
        raise SettingsError(
            f"{names}: {_why(error)}; they must hold PEM, and the unencrypted key of that certificate"
        ) from error


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
