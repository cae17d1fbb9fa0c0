"""One order: the account, a challenge for each name, and the certificate that is checked before it is used.

The library speaks ACME and blocks, so each of its calls runs in a thread. What waits (for the CA to validate) waits in
the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from acme import challenges, messages
from acme.client import ClientV2
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from provider.gateway.issuer.account import account_network, registered_client
from provider.gateway.issuer.challenges import challenge_listener
from provider.gateway.issuer.config import IssuerConfig
from provider.gateway.issuer.errors import NotIssued
from provider.gateway.issuer.network import Network, demanded_pause, in_own_thread
from provider.gateway.issuer.problems import no_challenge, not_issued, not_valid
from provider.protocols import Clock

__all__ = ["order_certificate"]

_LONGEST_S = 900.0
_FINALIZE_S = 180.0
_POLL_S = (1.0, 60.0)
"""Between two questions, at least and at most, whatever the CA demands."""
_WRONG = "none: it is tried again by itself; if it lasts, name another CA (AP_CERT_ISSUER_CA_DIR_URL)"


async def order_certificate(config: IssuerConfig, clock: Clock) -> str:
    """PEM of the certificate, the chain above it and its key. Raises `NotIssued`."""
    network: Network | None = None
    try:
        async with asyncio.timeout(_LONGEST_S):
            network = await in_own_thread(account_network, config)
            client = await in_own_thread(registered_client, network, config)
            return await _Order(client, config, clock).carry_out()
    except Exception as error:
        raise not_issued(error, config, retry_after_s=network.retry_after_s if network is not None else 0.0) from error
    finally:
        if network is not None:
            network.session.close()


class _Order:
    def __init__(self, client: ClientV2, config: IssuerConfig, clock: Clock) -> None:
        self._client = client
        self._config = config
        self._clock = clock
        self._answers: dict[str, str] = {}

    async def carry_out(self) -> str:
        key = generate_private_key(SECP256R1())
        order = await in_own_thread(self._client.new_order, _request(key, self._config.names))
        async with challenge_listener(self._config.listen, self._answers):
            chosen = [(each, self._challenge(each)) for each in order.authorizations if _is_open(each)]
            for _, challenge in chosen:
                await in_own_thread(self._answer, challenge)
            for authorization, _ in chosen:
                await self._validated(authorization)
        deadline = datetime.now() + timedelta(seconds=_FINALIZE_S)
        issued = await in_own_thread(self._client.finalize_order, order, deadline)
        return checked(issued.fullchain_pem, key, self._config.names, now=self._clock.now())

    def _challenge(self, authorization: messages.AuthorizationResource) -> messages.ChallengeBody:
        """The challenge over HTTP, which is answered from now on."""
        for each in authorization.body.challenges:
            if isinstance(each.chall, challenges.HTTP01):
                self._answers[each.chall.path] = each.chall.validation(self._client.net.key)
                return each
        raise no_challenge(authorization.body.identifier.value)

    def _answer(self, challenge: messages.ChallengeBody) -> None:
        self._client.answer_challenge(challenge, challenge.chall.response(self._client.net.key))

    async def _validated(self, authorization: messages.AuthorizationResource) -> None:
        while True:
            authorization, response = await in_own_thread(self._client.poll, authorization)
            if authorization.body.status == messages.STATUS_VALID:
                return
            if not _is_open(authorization):
                body = authorization.body
                raise not_valid(body.identifier.value, list(body.challenges), self._config)
            await self._clock.sleep(_pause(response))


def _is_open(authorization: messages.AuthorizationResource) -> bool:
    return authorization.body.status in (messages.STATUS_PENDING, messages.STATUS_PROCESSING)


def _pause(response: requests.Response) -> float:
    least, most = _POLL_S
    return max(least, min(most, demanded_pause(response)))


def _request(key: EllipticCurvePrivateKey, names: Sequence[str]) -> bytes:
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = x509.CertificateSigningRequestBuilder(x509.Name([])).add_extension(alternatives, critical=False)
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def checked(chain: Any, key: EllipticCurvePrivateKey, names: Sequence[str], *, now: float) -> str:
    """`chain` and the key in PEM. Raises `NotIssued` unless the first certificate is of this key, names all of `names`
    and is valid now.
    """
    try:
        certificates = x509.load_pem_x509_certificates(str(chain).encode())
        alternatives = certificates[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, IndexError, x509.ExtensionNotFound) as error:
        raise NotIssued("the CA has issued what is no certificate of names", _WRONG) from error
    first = certificates[0]
    if first.public_key() != key.public_key():
        raise NotIssued("the CA has issued a certificate of another key", _WRONG)
    if missing := set(names) - set(alternatives.get_values_for_type(x509.DNSName)):
        raise NotIssued(f"the CA has issued a certificate without {', '.join(sorted(missing))}", _WRONG)
    if not first.not_valid_before_utc <= datetime.fromtimestamp(now, UTC) < first.not_valid_after_utc:
        span = f"{first.not_valid_before_utc:%Y-%m-%d %H:%M} to {first.not_valid_after_utc:%Y-%m-%d %H:%M}"
        raise NotIssued(f"the CA has issued a certificate for {span} UTC", "set the clock of this machine")
    parts = [each.public_bytes(Encoding.PEM) for each in certificates]
    return b"".join([*parts, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]).decode()
