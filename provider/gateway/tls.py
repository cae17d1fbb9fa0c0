"""The account certificate and the TLS context of the gateway (gateway.md §1, §2.1).

The certificate is made at the first start: P-256, self-signed, CN = provider address. Unlike the Go provider's it has
digitalSignature too, so that BoringSSL clients (Python's grpcio) can connect. Tenants pin it.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provider.errors import SettingsError

__all__ = ["AccountCertificate", "ensure_certificate", "server_context"]

_MARK = x509.ObjectIdentifier("2.23.133.2.6")
_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class AccountCertificate:
    """A file with the certificate first and its private key second (PEM), mode 0600."""

    path: Path
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """The certificate that a tenant pins, without the key."""
        return self.certificate.public_bytes(Encoding.PEM).decode()


def ensure_certificate(provider: str, data_dir: Path, *, now: float, hostname: str = "") -> AccountCertificate:
    """The certificate in `data_dir`; a new one when there is none or it has expired at `now` (Unix seconds).

    Raises `SettingsError` for a file that holds anything else: it is never overwritten.
    """
    path = data_dir / f"{provider}.pem"
    moment = datetime.fromtimestamp(now, UTC)
    kept = _load(path, provider)
    if kept is not None and kept.certificate.not_valid_after_utc > moment:
        return kept
    key = generate_private_key(SECP256R1())
    certificate = _make(key, provider, moment, hostname)
    _write(path, certificate, key)
    return AccountCertificate(path, certificate)


def server_context(path: Path, *, protocols: Sequence[str] = ()) -> ssl.SSLContext:
    """A context with TLS 1.3 only, for the certificate and key in the file `path`. `protocols`: for ALPN. REST has
    none, as recorded: a client that offers ALPN connects and uses HTTP/1.1.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(path)
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def _load(path: Path, provider: str) -> AccountCertificate | None:
    try:
        pem = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"account certificate {path} cannot be read: {error.strerror}") from error
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key = load_pem_private_key(pem[pem.index(b"-----END CERTIFICATE-----") :], password=None)
        matches = certificate.public_key() == key.public_key() and _common_name(certificate) == provider
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"account certificate {path} is damaged ({error}); move it away, and a new one is made"
        ) from error
    if not matches:
        raise SettingsError(
            f"account certificate {path} is not for {provider}, or its key does not match; move it away"
        )
    return AccountCertificate(path, certificate)


def _common_name(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def _make(key: EllipticCurvePrivateKey, provider: str, now: datetime, hostname: str) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, provider), x509.NameAttribute(_MARK, "v0.0.1")])
    start = now.replace(microsecond=0)
    builder = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(int(now.timestamp() * 1_000_000) * 1000)
        .not_valid_before(start)
        .not_valid_after(start + _LIFETIME)
        .add_extension(_key_usage(), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if hostname:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(hostname)]), critical=False)
    return builder.sign(key, SHA256())


def _key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=True,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, certificate: x509.Certificate, key: EllipticCurvePrivateKey) -> None:
    """Write the file completely or not at all; other users can never read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = certificate.public_bytes(Encoding.PEM)
    content += key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
