"""The control plane's certificate authority and its certificates, made once and kept in the data folder."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Certificates", "Outward", "make_certificates"]

_LIFE = timedelta(days=365)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")


@dataclass(frozen=True)
class Certificates:
    """Paths of PEM files under one folder (mode 0700, keys 0600)."""

    folder: Path

    def certificate(self, name: str) -> Path:
        """`ca`, `apiserver`, `admin` (O=system:masters) or `kubelet-client`; with a real node also its name and `edge`,
        which is for `*.example.com`.
        """
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """The private key of a certificate, or `service-accounts`, which has no certificate."""
        return self.folder / f"{name}.key"


@dataclass(frozen=True)
class Outward:
    """The settings for a control plane with a real node: the API server listens on every interface and advertises
    `address`.

    `node` is the name of the real node; its kubelet gets certificates for `node` and `address`.
    """

    address: str
    node: str


def make_certificates(folder: Path, outward: Outward | None = None) -> Certificates:
    """Make all certificates and keys, unless the folder has them already: after a restart clients still trust them."""
    made = Certificates(folder)
    if made.key("service-accounts").exists():  # written last
        return made
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = _sign(_name("lessor-devnet"), ca_key.public_key(), ca_key, issuer=_name("lessor-devnet"), extensions=_CA)
    _write(made, "ca", ca_key, ca)
    server = [x509.DNSName(name) for name in _SERVER_NAMES]
    named = (*_SERVER_ADDRESSES, *([outward.address] if outward else ()))
    addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in named]
    alternative = x509.SubjectAlternativeName([*server, *addresses])
    _leaf(made, "apiserver", (ca_key, ca), [alternative, x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])])
    client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    # O=system:masters: the controller manager runs without service account credentials of its own (toolchain.md §2)
    for name in ("admin", "kubelet-client"):
        _leaf(made, name, (ca_key, ca), [client], organization="system:masters")
    if outward is not None:
        _leaf(made, f"system:node:{outward.node}", (ca_key, ca), [client], organization="system:nodes")
        kubelet = x509.SubjectAlternativeName(
            [x509.DNSName(outward.node), x509.IPAddress(ipaddress.ip_address(outward.address))]
        )
        server_use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        _leaf(made, outward.node, (ca_key, ca), [kubelet, server_use])
        tenants = x509.SubjectAlternativeName([x509.DNSName("*.example.com")])
        _leaf(made, "edge", (ca_key, ca), [tenants, server_use])
    _write(made, "service-accounts", ec.generate_private_key(ec.SECP256R1()), None)
    return made


_CA: Sequence[x509.ExtensionType] = (x509.BasicConstraints(ca=True, path_length=0),)


def _leaf(
    made: Certificates,
    name: str,
    authority: tuple[ec.EllipticCurvePrivateKey, x509.Certificate],
    extensions: Sequence[x509.ExtensionType],
    *,
    organization: str = "",
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    ca_key, ca = authority
    subject = _name(name, organization)
    _write(made, name, key, _sign(subject, key.public_key(), ca_key, issuer=ca.subject, extensions=extensions))


def _name(common: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _sign(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    issuer: x509.Name,
    extensions: Sequence[x509.ExtensionType],
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # allows for differences between clocks
        .not_valid_after(now + _LIFE)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    return builder.sign(signer, hashes.SHA256())


def _write(
    made: Certificates, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate | None
) -> None:
    path = made.key(name)
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    if certificate is not None:
        made.certificate(name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
