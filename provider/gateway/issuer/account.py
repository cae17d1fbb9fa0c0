"""The account at the CA: its key, which is made when there is none, and its registration."""

from __future__ import annotations

from typing import TypeAlias

from acme import messages
from acme.client import ClientV2
from acme.errors import ConflictError
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from josepy import jwa, jwk

from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued
from provider.gateway.issuer.network import Network
from stacks.common import write_private

__all__ = ["account_network", "registered_client"]

_Key: TypeAlias = tuple[jwk.JWK, jwa.JWASignature]
_CURVES = {"secp256r1": jwa.ES256, "secp384r1": jwa.ES384}


def account_network(config: IssuerConfig) -> Network:
    """The way to the CA with the account's key. Raises `NotIssued` for a key that cannot be used."""
    key, algorithm = _account_key(config)
    return Network(key, algorithm, roots=str(config.roots or ""))


def registered_client(network: Network, config: IssuerConfig) -> ClientV2:
    """A client of the CA with the account, which is registered if the CA does not know it. Blocks. Raises the library's
    errors.
    """
    client = ClientV2(ClientV2.get_directory(config.directory, network), network)
    registration = messages.NewRegistration.from_data(
        email=config.email or None,
        terms_of_service_agreed=True,
        external_account_binding=_binding(client, network.key, config),
    )
    try:
        client.new_account(registration)
    except ConflictError as known:
        network.account = messages.RegistrationResource(uri=known.location, body=registration)
    return client


def _binding(client: ClientV2, key: jwk.JWK, config: IssuerConfig) -> dict[str, object] | None:
    kid, hmac = config.external_account
    if not kid:
        return None
    try:
        return messages.ExternalAccountBinding.from_data(key.public_key(), kid, hmac, client.directory)
    except ValueError as error:
        raise NotIssued(f"AP_CERT_ISSUER_HMAC is not base64url: {error}", "copy it as the CA shows it") from error


def _account_key(config: IssuerConfig) -> _Key:
    path = config.account_key
    remedy = f"correct LESSOR_CERT_ISSUER_ACCOUNT_KEY, or remove {path}: another one is made"
    try:
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = generate_private_key(SECP256R1())
            text = fresh.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            write_private(path, text)
        found = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        problem = getattr(error, "strerror", None) or "it is no private key in PEM without a passphrase"
        raise NotIssued(f"the account's key {path}: {problem}", remedy) from error
    if isinstance(found, EllipticCurvePrivateKey) and found.curve.name in _CURVES:
        return jwk.JWKEC(key=found), _CURVES[found.curve.name]
    if isinstance(found, RSAPrivateKey):
        return jwk.JWKRSA(key=found), jwa.RS256
    raise NotIssued(f"the account's key {path} is of a kind that CAs do not take", remedy)
