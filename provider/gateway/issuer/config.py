"""What the issuer orders, from the settings, and where it keeps what it gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from provider.settings import Settings

__all__ = ["IssuerConfig", "issued_certificate", "issuer_config"]


@dataclass(frozen=True, slots=True)
class IssuerConfig:
    """`directory`: URL of the CA's directory. `names`: in the certificate, the public hostname first. `listen`: address
    of the listener that answers challenges. `folder`: holds account key, certificate and its key. `roots`: PEM file for
    a private CA. `external_account`: key id and HMAC key, empty for none.
    """

    directory: str
    names: tuple[str, ...]
    listen: str
    folder: Path
    account_key: Path
    email: str = ""
    roots: Path | None = None
    external_account: tuple[str, str] = field(default=("", ""), repr=False)

    @property
    def certificate(self) -> Path:
        """PEM file: the certificate, the chain above it, and its key."""
        return self.folder / "certificate.pem"


def issuer_config(settings: Settings) -> IssuerConfig | None:
    """None when the provider orders no certificate."""
    if not settings.cert_issuer:
        return None
    host, folder = settings.public_hostname.lower(), _folder(settings)
    others = (name for name in settings.cert_issuer_names if name != host)
    return IssuerConfig(
        directory=settings.cert_issuer_directory,
        names=(host, *dict.fromkeys(others)),
        listen=settings.cert_issuer_listen,
        folder=folder,
        account_key=settings.cert_issuer_account_key or folder / "account.pem",
        email=settings.cert_issuer_email,
        roots=settings.cert_issuer_ca_file,
        external_account=(settings.cert_issuer_kid, settings.cert_issuer_hmac.get_secret_value()),
    )


def issued_certificate(settings: Settings) -> Path | None:
    """The file of the certificate that the provider orders, which need not exist yet; None when it orders none."""
    return _folder(settings) / "certificate.pem" if settings.cert_issuer else None


def _folder(settings: Settings) -> Path:
    return settings.home / "issuer"
