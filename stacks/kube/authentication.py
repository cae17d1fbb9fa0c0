"""Credentials on each request of an httpx client.

Whatever is wrong with the credentials is an error of the request, as when the server does not answer: a plugin that
fails once, hours after the start, must not end the provider.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator

import httpx2

from stacks.kube.credentials import Credentials, CredentialsError

__all__ = ["Authentication"]


class Authentication(httpx2.Auth):
    """Asks for new credentials when the old ones expire, and once for a request that was answered with 401."""

    def __init__(self, credentials: Credentials, *, server_name: str = "") -> None:
        self._credentials = credentials
        self._server_name = server_name
        self._renewing = asyncio.Lock()

    @property
    def certificates(self) -> int:
        """How many certificates a plugin has given: an open connection keeps the one that it was made with."""
        return self._credentials.certificates

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if self._credentials.due():
            self._renew(request)
        response = yield self._dressed(request)
        if response.status_code == 401 and self._renew(request):
            yield self._dressed(request)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self._renewing:
            if self._credentials.due():
                await asyncio.to_thread(self._renew, request)
        used = self._credentials.header
        response = yield self._dressed(request)
        if response.status_code == 401 and await self._renewed_since(used, request):
            yield self._dressed(request)

    async def _renewed_since(self, used: str, request: httpx2.Request) -> bool:
        """Whether there are other credentials than those that were refused; one request renews them for all."""
        async with self._renewing:
            if self._credentials.header != used:
                return True
            return await asyncio.to_thread(self._renew, request)

    def _renew(self, request: httpx2.Request) -> bool:
        try:
            return self._credentials.renew()
        except CredentialsError as error:
            raise httpx2.RequestError(str(error), request=request) from None

    def _dressed(self, request: httpx2.Request) -> httpx2.Request:
        if self._credentials.header:
            request.headers["Authorization"] = self._credentials.header
        if self._server_name:
            request.extensions["sni_hostname"] = self._server_name
        return request
