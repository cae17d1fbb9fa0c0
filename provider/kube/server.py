"""The HTTP connections to the API server, made anew when the kubeconfig changes or a plugin gives another certificate.

Credentials in a kubeconfig are renewed by programs beside the provider (k3s, kubeadm, a cloud's tools); a provider that
had read them once would be refused until its restart. Whatever is wrong with the credentials is an error of one
request, as when the server does not answer: a plugin that fails once, hours after the start, must not end the provider.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

import aiohttp
import structlog
from cryptography.x509 import load_pem_x509_certificate
from yarl import URL

from provider.errors import ClusterError, SettingsError
from provider.kube.pod_account import in_a_pod, pod_kubeconfig
from provider.watched_file import file_mark
from stacks.common import EngineError, kubeconfig_files, read_kubeconfig
from stacks.kube import Connection, CredentialsError, connect

__all__ = ["CERTIFICATE_SOON_S", "ApiServer", "Fence", "Request"]

_DAY_S = 86400.0
CERTIFICATE_SOON_S = 14 * _DAY_S
_CONNECTIONS = 100
_KEPT_S = 60.0
"""An idle connection is used again for so long; the API server itself closes it after 90 s."""
_MESSAGE_BYTES = 4 * 1024 * 1024
"""Of a WebSocket; the API server's own are 32 KiB."""
_CLOSE_S = 2.0
Fence: TypeAlias = Callable[[], str] | None
"""Asked in each write for the reason why this process may write nothing at this moment; empty for none."""
_log = structlog.get_logger(__name__)


async def _fenced(content: bytes, fence: Callable[[], str]) -> AsyncIterator[bytes]:
    if problem := fence():
        raise aiohttp.ClientError(problem)
    yield content


class _Connector(aiohttp.TCPConnector):
    """Connections to the API server. TLS to a proxy before it is checked against the system's authorities, and without
    the client's certificate.
    """

    def __init__(self, proxy: URL | None, **options: Any) -> None:
        super().__init__(**options)
        self._proxy = proxy

    def _get_ssl_context(self, req: aiohttp.ClientRequest) -> ssl.SSLContext | None:
        if self._proxy is not None and req.url == self._proxy and req.is_ssl():
            return ssl.create_default_context()
        return super()._get_ssl_context(req)


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `path`: relative to the API server's address, quoted already. `silent_s`: for how long the API
    server may send nothing of its response. `most_bytes` of the response's body. A `stream` has a connection that does
    not count among those of other requests: tenants open streams, and the lease loop must not wait for them.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    silent_s: float | None = None
    most_bytes: int | None = None
    stream: bool = False

    def url(self, base: str) -> URL:
        query = f"?{urlencode(self.params)}" if self.params else ""
        return URL(f"{base}/{self.path.lstrip('/')}{query}", encoded=True)


class _Client:
    """Sends requests over one kubeconfig's connection, with its credentials."""

    def __init__(self, connection: Connection, *, timeout_seconds: float, fence: Fence) -> None:
        self.connection = connection
        self._fence = fence
        self.certificates = connection.credentials.certificates
        self._base = str(URL(connection.address)).rstrip("/")
        self._proxy = URL(connection.proxy) if connection.proxy else None
        self._timeout = timeout_seconds
        self._renewing = asyncio.Lock()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def send(self, request: Request) -> aiohttp.ClientResponse:
        """The response, its body unread. The request is sent once more if its credentials are refused and others are
        found. Raises `CredentialsError`, and what aiohttp raises.
        """
        credentials = self.connection.credentials
        async with self._renewing:
            if credentials.due():
                await asyncio.to_thread(credentials.renew)
        used = credentials.header
        response = await self._send(request)
        if response.status != 401:
            return response
        await response.read()  # the connection is free for the second request
        return await self._send(request) if await self._renewed_since(used) else response

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    async def _renewed_since(self, used: str) -> bool:
        """Whether there are other credentials than those that were refused; one request renews them for all."""
        credentials = self.connection.credentials
        async with self._renewing:
            return credentials.header != used or await asyncio.to_thread(credentials.renew)

    async def _send(self, request: Request) -> aiohttp.ClientResponse:
        return await self._open(stream=request.stream).request(
            request.method,
            request.url(self._base),
            data=self._body(request),
            headers=self._headers(request.headers) | self._length(request),
            ssl=self.connection.verify,
            server_hostname=self.connection.server_name or None,
            proxy=self._proxy,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=self._timeout, sock_read=request.silent_s),
        )

    def _body(self, request: Request) -> bytes | AsyncIterator[bytes] | None:
        """The body. The fence of a write is asked when its last byte is sent, however long the process was suspended
        after it had begun: an API server does nothing with half a request.
        """
        if self._fence is None or request.method == "GET":
            return request.content
        return _fenced(request.content or b"", self._fence)

    def _length(self, request: Request) -> dict[str, str]:
        """The header that a fenced body needs: without it the body would go in chunks."""
        fenced = self._fence is not None and request.content is not None
        return {"Content-Length": str(len(request.content or b""))} if fenced else {}

    async def open_socket(self, request: Request, protocols: Sequence[str]) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket. Raises what `send` raises."""
        credentials = self.connection.credentials
        async with self._renewing:
            if credentials.due():
                await asyncio.to_thread(credentials.renew)
        return await self._open(stream=True).ws_connect(
            request.url(self._base),
            protocols=protocols,
            headers=self._headers(request.headers),
            ssl=self.connection.verify,
            server_hostname=self.connection.server_name or None,
            proxy=self._proxy,
            max_msg_size=_MESSAGE_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_S),
        )

    def _headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        header = self.connection.credentials.header
        return {**headers, "Authorization": header} if header else dict(headers)

    def _open(self, *, stream: bool) -> aiohttp.ClientSession:
        if stream not in self._sessions:
            limit = 0 if stream else _CONNECTIONS
            connector = _Connector(self._proxy, limit=limit, keepalive_timeout=_KEPT_S)
            self._sessions[stream] = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._sessions[stream]


class ApiServer:
    """`address`: where the API server is. Raises `SettingsError` for a kubeconfig that cannot be used at the start;
    later a wrong one is logged, and the last one that could be used stays in use.
    """

    def __init__(self, kubeconfig: Path | None, *, timeout_seconds: float, fence: Fence = None) -> None:
        self._fence = fence
        self._source = kubeconfig or _found()
        self._paths = kubeconfig_files(self._source) if self._source else ()
        self._timeout = timeout_seconds
        self._files = self._file_marks()
        self._client = self._made(self._connect())
        self._retired: list[_Client] = []
        self._warned_at = 0.0

    @property
    def address(self) -> str:
        return self._client.connection.address

    def certificate_s(self) -> float | None:
        """Seconds until the client's certificate in the kubeconfig ends; None without one."""
        try:
            found = load_pem_x509_certificate(self._client.connection.certificate)
        except ValueError:
            return None
        return found.not_valid_after_utc.timestamp() - time.time()

    def _warn_of_the_end(self) -> None:
        """Once a day while the certificate ends soon: afterwards every request is refused."""
        if time.monotonic() - self._warned_at < _DAY_S and self._warned_at:
            return
        self._warned_at = time.monotonic()
        if (left := self.certificate_s()) is not None and left < CERTIFICATE_SOON_S:
            _log.warning(
                "kube.certificate_ends",
                days=round(left / _DAY_S, 1),
                remedy=f"renew the client's certificate in {self._source}; it is read again without a restart",
            )

    @asynccontextmanager
    async def request(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response to one request. Raises `ClusterError` for a request that gets none, also while its body is read
        within the context. The caller limits the time.
        """
        client = await self._current()
        try:
            response = await client.send(request)
            try:
                yield response
            finally:
                response.release()
        except TimeoutError:
            raise
        except (aiohttp.ClientError, CredentialsError, OSError, ValueError) as error:
            raise ClusterError(self.address, f"{request.method} {request.path}: {_error_text(error)}") from error

    @asynccontextmanager
    async def websocket(
        self, request: Request, protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """A WebSocket to the API server, which offers one of `protocols`. Raises `ClusterError`."""
        client = await self._current()
        try:
            async with asyncio.timeout(self._timeout):
                socket = await client.open_socket(request, protocols)
        except aiohttp.WSServerHandshakeError as error:
            text = f"{request.method} {request.path}: refused (HTTP {error.status})"
            raise ClusterError(self.address, text, status=error.status) from error
        except (aiohttp.ClientError, CredentialsError, OSError, ValueError) as error:
            raise ClusterError(self.address, f"{request.method} {request.path}: {_error_text(error)}") from error
        try:
            yield socket
        finally:
            await socket.close()

    async def _current(self) -> _Client:
        """The client for one request. Requests under way keep theirs."""
        if (marks := self._file_marks()) != self._files:
            self._files = marks
            try:
                self._replace(self._connect())
                self._warned_at = 0.0
                _log.info("kube.kubeconfig_read", kubeconfig=str(self._source), server=self.address)
            except SettingsError as error:
                _log.error("kube.kubeconfig_wrong", problem=str(error), kept="the kubeconfig that was read last")
        elif self._client.connection.credentials.certificates > max(self._client.certificates, 1):
            self._replace(self._client.connection)
        self._warn_of_the_end()
        while len(self._retired) > 1:
            await self._retired.pop(0).close()
        return self._client

    async def aclose(self) -> None:
        await asyncio.gather(*(each.close() for each in (*self._retired, self._client)))

    def _replace(self, connection: Connection) -> None:
        """Use a new client. The one before stays open for the requests under way, until the next change."""
        self._retired.append(self._client)
        self._client = self._made(connection)

    def _made(self, connection: Connection) -> _Client:
        return _Client(connection, timeout_seconds=self._timeout, fence=self._fence)

    def _connect(self) -> Connection:
        try:
            document = read_kubeconfig(self._source) if self._source else pod_kubeconfig()
        except EngineError as error:
            raise SettingsError(str(error)) from error
        try:
            return connect(document)
        except EngineError as error:
            raise SettingsError(f"the kubeconfig {self._source} cannot be used: {error}") from error

    def _file_marks(self) -> tuple[tuple[int, ...], ...]:
        return tuple(map(file_mark, self._paths))


def _error_text(error: Exception) -> str:
    """The error as a text. Some errors have no text of their own; then the type alone names them."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _found() -> Path | None:
    """None: inside a pod, where its account is used; else $KUBECONFIG or the user's own file."""
    if in_a_pod():
        return None
    return Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
