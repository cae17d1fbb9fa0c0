"""Certificates of tests: of tenants as their clients make them, and of a CA."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from provider.protocols.chain import CertificateState, PublishedCertificate
from tests.provider.gateway.accounts import NOW
from tests.world.chain import FakeChain

_MARK = x509.ObjectIdentifier("2.23.133.2.6")


@dataclass(frozen=True)
class Certified:
    """A certificate with its key, and the certificates above it."""

    certificate: x509.Certificate
    key: Any
    above: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def write(self, path: Path) -> Path:
        above = b"".join(item.public_bytes(Encoding.PEM) for item in self.above)
        path.write_bytes(self.pem + above + self.key_pem)
        return path

    def published(self, state: CertificateState = CertificateState.VALID) -> PublishedCertificate:
        key = self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return PublishedCertificate(state, self.pem, key.replace(b" PUBLIC KEY", b" EC PUBLIC KEY"))


def publish(
    chain: FakeChain, owner: str, certified: Certified, state: CertificateState = CertificateState.VALID
) -> None:
    chain.published[owner, certified.certificate.serial_number] = certified.published(state)


def certified(
    subject: str,
    *,
    issuer: str | None = None,
    serial: int = 1_795_820_000_000_000_000,
    begins: float = NOW - 3600,
    days: float = 365,
    purpose: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
    key: Any = None,
    signed_by: Any = None,
    signs: bool = False,
) -> Certified:
    """A self-signed certificate in the profile of tenants (gateway.md §2.1): no digitalSignature unless it `signs`,
    without which clients of BoringSSL do not show it.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    start = datetime.fromtimestamp(begins, UTC)
    builder = (
        x509.CertificateBuilder(name(issuer or subject), name(subject), key.public_key(), serial)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(_usage(signs=signs), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    return Certified(builder.sign(signed_by or key, SHA256()), key)


def name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common), x509.NameAttribute(_MARK, "v0.0.1")])


def _usage(*, signs: bool) -> x509.KeyUsage:
    flags = ("content_commitment", "key_agreement", "key_cert_sign", "crl_sign")
    return x509.KeyUsage(
        **dict.fromkeys(flags, False),
        digital_signature=signs,
        key_encipherment=True,
        data_encipherment=True,
        encipher_only=False,
        decipher_only=False,
    )


def by_a_ca(hostname: str, *, common: str = "test ca") -> Certified:
    """A certificate for a hostname or an IPv4 address, signed by a CA that stands above it."""
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    above = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hostname)])
    ca = _signed(above, above, ca_key, ca_key, x509.BasicConstraints(ca=True, path_length=None))
    own = _signed(above, subject, key, ca_key, x509.SubjectAlternativeName([_general_name(hostname)]))
    return Certified(own, key, (ca,))


def _general_name(hostname: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(IPv4Address(hostname))
    except ValueError:
        return x509.DNSName(hostname)


def _signed(issuer: x509.Name, subject: x509.Name, key: Any, signer: Any, extension: Any) -> x509.Certificate:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    return (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .add_extension(extension, critical=False)
        .sign(signer, SHA256())
    )
