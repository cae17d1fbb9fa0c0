"""The account certificate of the gateway (gateway.md §2.1).

The certificate is made at the first start: P-256, self-signed, CN = provider address. Unlike the Go provider's it has
digitalSignature too, so that BoringSSL clients (Python's grpcio) can connect. Tenants pin it.

The file is the Go provider's own: the key is encrypted with a password that only the account's key can make, so either
provider takes over the other's file, and the stock `cert publish` takes it too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provider.errors import SettingsError

__all__ = [
    "AccountCertificate",
    "ensure_certificate",
    "kept_certificate",
    "next_certificate",
    "old_certificates",
    "read_certificate",
    "take_next",
]

_MARK = x509.ObjectIdentifier("2.23.133.2.6")
_END = b"-----END CERTIFICATE-----"
_LIFETIME = timedelta(days=365)
_OLD = ".old-"
_RENEWED = timedelta(days=21)
"""A certificate is renewed this time before its end: a week before an operator would be warned of the end."""


@dataclass(frozen=True, slots=True)
class AccountCertificate:
    """A file with the certificate first and its private key second (PEM), mode 0600. `password` of the key, empty when
    the key is not encrypted.
    """

    path: Path
    certificate: x509.Certificate
    key: EllipticCurvePrivateKey = field(repr=False)
    password: bytes = field(default=b"", repr=False)

    @property
    def pem(self) -> str:
        """The certificate that a tenant pins, without the key."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def is_due(self, now: float) -> bool:
        """Whether it is time to renew the certificate, at `now` (Unix seconds)."""
        return self.certificate.not_valid_after_utc <= datetime.fromtimestamp(now, UTC) + _RENEWED

    @property
    def public_key_pem(self) -> str:
        """The public key as the chain wants it: PKIX bytes under the label EC PUBLIC KEY (chain.md §4.4)."""
        pem = self.certificate.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        return pem.replace(" PUBLIC KEY-----", " EC PUBLIC KEY-----")


def ensure_certificate(
    provider: str, data_dir: Path, *, now: float, hostname: str = "", passwords: Sequence[bytes] = ()
) -> AccountCertificate:
    """The certificate in `data_dir`; a new one when there is none or it has ended at `now` (Unix seconds).

    `passwords`: the key is written with the first and read with any of them; a file whose key is not encrypted is
    written anew, with the same certificate. Raises `SettingsError` for a file that holds anything else: it is never
    overwritten.
    """
    path = data_dir / f"{provider}.pem"
    return _ensure(path, provider, now=now, hostname=hostname, passwords=passwords)


def next_certificate(
    provider: str, data_dir: Path, *, now: float, hostname: str = "", passwords: Sequence[bytes] = ()
) -> AccountCertificate:
    """The certificate that will replace the one in `data_dir`, in a file beside it; made when there is none."""
    path = data_dir / f"{provider}.pem.next"
    return _ensure(path, provider, now=now, hostname=hostname, passwords=passwords)


def take_next(current: AccountCertificate, following: AccountCertificate) -> AccountCertificate:
    """`following` in the place of `current`, whose certificate stays in a file until it is revoked
    (`old_certificates`). A crash at any line leaves one of the two in the place.
    """
    serial = current.certificate.serial_number
    current.path.with_name(f"{current.path.name}{_OLD}{serial}").write_text(current.pem)
    following.path.replace(current.path)
    return replace(following, path=current.path)


def old_certificates(current: AccountCertificate) -> list[tuple[int, Path]]:
    """Serial number and file of each certificate that was replaced and is not revoked yet."""
    prefix = f"{current.path.name}{_OLD}"
    found = ((path.name.removeprefix(prefix), path) for path in current.path.parent.glob(f"{prefix}*"))
    return sorted((int(serial), path) for serial, path in found if serial.isdecimal())


def _ensure(path: Path, provider: str, *, now: float, hostname: str, passwords: Sequence[bytes]) -> AccountCertificate:
    password, moment = passwords[0] if passwords else b"", datetime.fromtimestamp(now, UTC)
    kept = _load(path, provider, passwords)
    if kept is not None and kept[0].not_valid_after_utc > moment:
        certificate, key, used = kept
        if used != password:
            _write(path, certificate, key, password)
        return AccountCertificate(path, certificate, key, password)
    key = generate_private_key(SECP256R1())
    certificate = _make(key, provider, moment, hostname)
    _write(path, certificate, key, password)
    return AccountCertificate(path, certificate, key, password)


def kept_certificate(provider: str, data_dir: Path, *, passwords: Sequence[bytes]) -> AccountCertificate | None:
    """The certificate in `data_dir`, also when it has expired; None when there is none. Raises `SettingsError`."""
    path = data_dir / f"{provider}.pem"
    found = _load(path, provider, passwords)
    return None if found is None else AccountCertificate(path, *found)


_Loaded: TypeAlias = "tuple[x509.Certificate, EllipticCurvePrivateKey, bytes]"
"""The certificate, its key, and the password that opened the key."""


def read_certificate(pem: bytes, provider: str, *, place: str, passwords: Sequence[bytes]) -> x509.Certificate:
    """The certificate in the content of a file. Raises `SettingsError`, which names `place`."""
    return _parse(pem, provider, place=place, passwords=passwords)[0]


def _load(path: Path, provider: str, passwords: Sequence[bytes]) -> _Loaded | None:
    try:
        pem = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"account certificate {path} cannot be read: {error.strerror}") from error
    return _parse(pem, provider, place=str(path), passwords=passwords)


def _parse(pem: bytes, provider: str, *, place: str, passwords: Sequence[bytes]) -> _Loaded:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        key, used = _read_key(pem[pem.index(_END) + len(_END) :], passwords)
        matches = certificate.public_key() == key.public_key() and _common_name(certificate) == provider
    except (ValueError, TypeError) as error:
        raise SettingsError(
            f"account certificate {place} is damaged ({error}); move it away, and a new one is made"
        ) from error
    if not matches:
        raise SettingsError(
            f"account certificate {place} is not for {provider}, or its key does not match; move it away"
        )
    return certificate, key, used


def _read_key(pem: bytes, passwords: Sequence[bytes]) -> tuple[EllipticCurvePrivateKey, bytes]:
    """The key and the password that opened it, empty for a key that is not encrypted. Raises ValueError."""
    encrypted = b"ENCRYPTED" in pem
    problem: Exception = ValueError("its key is encrypted with the password of another account")
    for password in passwords if encrypted else (b"",):
        try:
            key = load_pem_private_key(pem, password=password or None)
        except (ValueError, TypeError) as error:
            problem = problem if encrypted else error
            continue
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ValueError("its key is not an ECDSA key")
        return key, password
    raise ValueError(str(problem))


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


def _write(path: Path, certificate: x509.Certificate, key: EllipticCurvePrivateKey, password: bytes) -> None:
    """Write the file completely or not at all; other users can never read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = certificate.public_bytes(Encoding.PEM)
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    content += key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
