"""Credentials on each request of an httpx client.

Whatever is wrong with the credentials is an error of the request, as when the server does not answer.
"""

from __future__ import annotations

from collections.abc import Generator

import httpx2

from stacks.kube.credentials import Credentials, CredentialsError

__all__ = ["Authentication"]


class Authentication(httpx2.Auth):
    """Asks for new credentials when the old ones expire, and once for a request that was answered with 401."""

    def __init__(self, credentials: Credentials, *, server_name: str = "") -> None:
        self._credentials = credentials
        self._server_name = server_name

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        if self._credentials.due():
            self._renew(request)
        response = yield self._dressed(request)
        if response.status_code == 401 and self._renew(request):
            yield self._dressed(request)

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
