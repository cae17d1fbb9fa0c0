"""The ends of all certificates that the provider shows to others: to the API server, to tenants, to nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cryptography.x509 import load_pem_x509_certificate

from provider.daemon.backends import Backends
from provider.gateway.issuer.config import issued_certificate
from provider.observe.findings import CERTIFICATE_SOON_S
from provider.observe.operator_status import CertificateEnd

__all__ = ["certificate_ends"]

_RENEWING = "the provider renews it when the chain takes the new one; see certificate.not_published in the log"
_ORDERING = "the provider orders the next one; see gateway.certificate_not_issued in the log"
_RENEW = "renew it; it is read again without a restart"


def certificate_ends(backends: Backends, *, revoked: bool = False) -> tuple[CertificateEnd, ...]:
    """When each certificate ends. One that cannot be read has another problem, which is logged where it is used.
    `revoked`: the chain calls the account certificate revoked.
    """
    return tuple(_ends(backends, revoked=revoked))


def _ends(backends: Backends, *, revoked: bool) -> Iterator[CertificateEnd]:
    settings, now = backends.settings, backends.clock.now()
    if (left := backends.cluster.certificate_s) is not None:
        yield CertificateEnd(f"the client certificate in the kubeconfig {settings.kubeconfig}", left, _RENEW)
    if (ends := _end_of(settings.home / f"{backends.address}.pem")) is not None:
        problem = "the chain calls it revoked" if revoked else ""
        yield CertificateEnd("the account certificate, which tenants pin", ends - now, _RENEWING, problem)
    if (file := settings.gateway_tls_cert) is not None and (ends := _end_of(file)) is not None:
        yield CertificateEnd(f"the certificate AP_GATEWAY_TLS_CERT={file}", ends - now, _RENEW, soon=_soon(file))
    if (file := issued_certificate(settings)) is not None and (ends := _end_of(file)) is not None:
        what = f"the CA's certificate for {settings.public_hostname}"
        yield CertificateEnd(what, ends - now, _ORDERING, soon=_soon(file))
    if (file := settings.node_cert_file) is not None and (ends := _end_of(file)) is not None:
        yield CertificateEnd(f"the client certificate LESSOR_NODE_CERT_FILE={file}", ends - now, _RENEW)


def _end_of(file: Path) -> float | None:
    """The end of the first certificate in a PEM file, Unix seconds; None without a file that can be read."""
    span = _span(file)
    return span[1] if span is not None else None


def _soon(file: Path) -> float:
    """A sixth of the certificate's life, two weeks at most: CAs issue certificates of days too."""
    begins, ends = _span(file) or (0.0, 0.0)
    return min(CERTIFICATE_SOON_S, (ends - begins) / 6)


def _span(file: Path) -> tuple[float, float] | None:
    try:
        found = load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError):
        return None
    return found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
