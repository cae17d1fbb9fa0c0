"""The CA's certificate that the provider orders itself by ACME. The names are those of the Go provider's issuer."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from provider.settings.kinds import AcmeDirectory, HostnameList, ListenOrPort, ap, lessor

__all__ = ["IssuerSettings"]


class IssuerSettings(BaseModel, defer_build=True):
    """Certificate issuer"""

    cert_issuer: bool = Field(
        False,
        validation_alias=ap("CERT_ISSUER_ENABLED"),
        description="Order the CA's certificate for AP_CLUSTER_PUBLIC_HOSTNAME by ACME (HTTP-01), and renew it when a "
        "third of its life is left. Starting it agrees to the CA's terms of service.",
    )
    cert_issuer_directory: AcmeDirectory = Field(
        "",
        validation_alias=ap("CERT_ISSUER_CA_DIR_URL"),
        description="URL of the CA's ACME directory, such as `https://acme-v02.api.letsencrypt.org/directory`.",
    )
    cert_issuer_email: str = Field(
        "",
        pattern=r"^([^\s@,]+@[^\s@,]+)?$",
        validation_alias=ap("CERT_ISSUER_EMAIL"),
        description="Address at which the CA reaches the operator. Empty: none.",
    )
    cert_issuer_names: HostnameList = Field(
        (),
        validation_alias=lessor("CERT_ISSUER_NAMES"),
        description="Names in the certificate. AP_CLUSTER_PUBLIC_HOSTNAME must be one of them, and is the only one for "
        "which the gateway serves it. Empty: AP_CLUSTER_PUBLIC_HOSTNAME alone.",
    )
    cert_issuer_listen: ListenOrPort = Field(
        "0.0.0.0:5002",
        validation_alias=ap("CERT_ISSUER_HTTP_CHALLENGE_PORT"),
        description="Where the CA's challenges are answered over plain HTTP while an order is open. What arrives at "
        "port 80 of each name below `/.well-known/acme-challenge/` must be passed on to it.",
    )
    cert_issuer_account_key: Path | None = Field(
        None,
        validation_alias=lessor("CERT_ISSUER_ACCOUNT_KEY"),
        description="PEM file of the private key of the account at the CA; P-256, P-384 or RSA, not encrypted. It is "
        "made, with mode 0600, when it is not there. Empty: `issuer/account.pem` in the home.",
    )
    cert_issuer_kid: str = Field(
        "",
        validation_alias=ap("CERT_ISSUER_KID"),
        description="Key id of an external account, for a CA that demands one.",
    )
    cert_issuer_hmac: SecretStr = Field(
        SecretStr(""),
        validation_alias=ap("CERT_ISSUER_HMAC"),
        description="HMAC key of the external account, in base64url.",
    )
    cert_issuer_ca_file: Path | None = Field(
        None,
        validation_alias=lessor("CERT_ISSUER_CA_FILE"),
        description="PEM file of the roots that the ACME server's own certificate is checked against, for a private "
        "CA. Empty: the usual public ones.",
    )
