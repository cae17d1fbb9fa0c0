"""A client of the provider's REST gateway, with a JWT and a pinned account certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

import aiohttp
from cryptography import x509
from cryptography.x509.oid import NameOID

from devnet.errors import DevnetError
from devnet.tenant.account import Account
from devnet.tenant.token import full_access, sign_token

__all__ = ["GatewayAnswer", "ProviderGateway"]

Published: TypeAlias = Callable[[int], Awaitable[bool]]
_PUBLISHED_S, _POLL_S = 60.0, 0.2


@dataclass(frozen=True, slots=True)
class GatewayAnswer:
    """The status, body text and content type of an answer."""

    status: int
    body: str
    content_type: str


class ProviderGateway:
    """The gateway of one provider. Its first certificate must name the provider's account and be valid on the chain, as
    the stock clients demand; no other is accepted. `published` asks the chain for a serial of the provider.
    """

    def __init__(self, host_uri: str, *, provider: str, account: Account, published: Published) -> None:
        self._published = published
        self._uri = host_uri.rstrip("/")
        self._provider = provider
        self._account = account
        self._tls: ssl.SSLContext | None = None

    async def put_manifest(self, dseq: int, body: bytes, *, token: str | None = None) -> GatewayAnswer:
        """`PUT /deployment/<dseq>/manifest`."""
        return await self.request("PUT", f"/deployment/{dseq}/manifest", body=body, token=token)

    async def lease_status(self, dseq: int, *, gseq: int = 1, oseq: int = 1) -> GatewayAnswer:
        """`GET /lease/<dseq>/<gseq>/<oseq>/status`."""
        return await self.request("GET", f"/lease/{dseq}/{gseq}/{oseq}/status")

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, token: str | None = None
    ) -> GatewayAnswer:
        """Send one request, with a new token of full access unless `token` is given (empty: no token)."""
        if self._tls is None:
            self._tls = await _pinned_context(self._uri, self._provider, self._published)
        bearer = sign_token(self._account.key, full_access(self._account.address)) if token is None else token
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        timeout = aiohttp.ClientTimeout(total=130)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, self._uri + path, data=body, headers=headers, ssl=self._tls) as answer,
        ):
            return GatewayAnswer(answer.status, await answer.text(), answer.headers.get("Content-Type", ""))


async def _pinned_context(uri: str, provider: str, published: Published) -> ssl.SSLContext:
    """A context that trusts only the certificate served now. Raises `DevnetError` unless its subject is `provider` and
    the chain calls it valid; a provider that has just started has some seconds to publish it.
    """
    parts = urlsplit(uri)
    address = (parts.hostname or "", parts.port or 443)
    pem = await asyncio.to_thread(ssl.get_server_certificate, address, timeout=_PUBLISHED_S)
    certificate = x509.load_pem_x509_certificate(pem.encode())
    subject = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = [str(name.value) for name in subject]
    if names != [provider]:
        raise DevnetError(
            f"{uri} serves a certificate of {names}, not of provider {provider}; check the host_uri in its record"
        )
    await _wait_until(lambda: published(certificate.serial_number), f"{uri}: its certificate is not valid on the chain")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.load_verify_locations(cadata=pem)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context


async def _wait_until(holds: Callable[[], Awaitable[bool]], problem: str) -> None:
    for _ in range(int(_PUBLISHED_S / _POLL_S)):
        if await holds():
            return
        await asyncio.sleep(_POLL_S)
    raise DevnetError(problem)
