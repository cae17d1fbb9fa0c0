"""The connection to one node: RPC requests over HTTP, bounded in time and size, and its websocket (chain.md §7).

`QueryClient` and `NodeClient` are what queries and transactions need of a node, or of several nodes as one.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import aiohttp
from pydantic_core import from_json
from yarl import URL

from provider.errors import ChainError
from provider.protocols.chain import Head
from provider.tls import ClientTls

__all__ = [
    "AbciAnswer",
    "AskHead",
    "Connection",
    "NodeClient",
    "QueryClient",
    "QueryError",
    "RpcError",
    "TryLater",
    "shown",
]

_MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""The answer for a block of 240 bids has a few MB; anything larger than this is not an answer."""
_MAX_FRAME_BYTES = 4 * 1024 * 1024
_LATER = frozenset({429, 502, 503, 504})
_MAX_LATER_S = 60.0
_T = TypeVar("_T")


class RpcError(ChainError):
    """A JSON-RPC error of the node: `code` and its text (`data` where given). Not retried."""

    def __init__(self, address: str, method: str, *, code: int, text: str) -> None:
        super().__init__(address, f"{method}: {text} ({code})")
        self.code = code
        self.text = text


class QueryError(ChainError):
    """An error code of `abci_query`; codespace is always `sdk`: 22 not found, 18 invalid argument, else 6
    (recording, §5).
    """

    def __init__(self, address: str, path: str, *, codespace: str, code: int, log: str) -> None:
        super().__init__(address, f"query {path}: {log} ({codespace} {code})")
        self.codespace = codespace
        self.code = code
        self.log = log


class TryLater(ChainError):
    """The node, or a proxy before it, is overloaded. `seconds` as in its Retry-After header, 0 without one."""

    def __init__(self, address: str, problem: str, *, seconds: float) -> None:
        super().__init__(address, problem)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class AbciAnswer:
    """Protobuf bytes and the height of the state that they were read from."""

    value: bytes
    height: int


class QueryClient(Protocol):
    """What answers queries: one node, or several as one. `query` is bounded in time and raises `ChainError`."""

    @property
    def address(self) -> str: ...

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer: ...


class NodeClient(QueryClient, Protocol):
    """CometBFT's RPC, as sending transactions needs it. `call` is bounded in time and raises `ChainError`."""

    async def call(self, method: str, **params: Any) -> dict[str, Any]: ...


AskHead: TypeAlias = Callable[[], Awaitable[Head]]


class Connection:
    """One address, with or without a path prefix. The session opens at the first request; `close` it at the end."""

    def __init__(self, address: str, *, timeout: float = 10.0, tls: ClientTls | None = None) -> None:
        self._url = URL(address)
        self._websocket = self._url.with_path(self._url.path.rstrip("/") + "/websocket").with_query(self._url.query)
        self.address = shown(address)
        self.timeout = timeout
        self._tls = tls if self._url.scheme == "https" else None
        self._session: aiohttp.ClientSession | None = None
        self._next_id = 0

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, method: str, params: dict[str, Any], *, seconds: float = 0.0) -> dict[str, Any]:
        """The `result` object of one request, not retried. Integer parameters must be text (recording, §8)."""
        name = _named(method, params)
        return self._result(name, *await self._answer(name, method, params, seconds=seconds or self.timeout))

    async def read(self, method: str, params: dict[str, Any], decode: Callable[[bytes], _T]) -> _T:
        """As `call`, for an answer too large to be built as dicts: `decode` gets the body of the answer.

        Raises the ValueError of `decode` when `call` would have accepted the answer.
        """
        name = _named(method, params)
        status, text = await self._answer(name, method, params, seconds=self.timeout)
        try:
            return decode(text)
        except ValueError:
            self._result(name, status, text)
            raise

    async def _answer(self, name: str, method: str, params: dict[str, Any], *, seconds: float) -> tuple[int, bytes]:
        """HTTP status and body of one request."""
        self._next_id += 1
        body = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        try:
            async with (
                asyncio.timeout(seconds),
                self._open().post(self._url, json=body, ssl=self._ssl(), allow_redirects=False) as response,
            ):
                text = await self._read(name, response)
        except TimeoutError as error:
            raise ChainError(self.address, f"{name}: no answer within {seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ChainError(self.address, f"{name}: {_without_url(error)}") from error
        self._refuse_other(name, response)
        return response.status, text

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        """`abci_query` with a gRPC method path; `height` 0 means the latest."""
        params = {"path": path, "data": request.hex(), "height": str(height), "prove": False}
        return _abci_answer(self.address, path, await self.call("abci_query", params))

    async def websocket(self, *, ping_seconds: float) -> aiohttp.ClientWebSocketResponse:
        """A connected websocket; it closes when the peer leaves a ping unanswered for half of `ping_seconds`."""
        timeout = aiohttp.ClientWSTimeout(ws_close=2.0)
        async with asyncio.timeout(self.timeout):
            return await self._open().ws_connect(
                self._websocket, heartbeat=ping_seconds, timeout=timeout, max_msg_size=_MAX_FRAME_BYTES, ssl=self._ssl()
            )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(headers={"Accept-Encoding": "identity"})
        return self._session

    def _ssl(self) -> Any:
        return True if self._tls is None else self._tls.context()

    async def _read(self, name: str, response: aiohttp.ClientResponse) -> bytes:
        text = bytearray()
        async for piece in response.content.iter_any():
            text += piece
            if len(text) > _MAX_ANSWER_BYTES:
                response.close()
                raise ChainError(self.address, f"{name}: the answer is larger than {_MAX_ANSWER_BYTES} bytes")
        return bytes(text)

    def _refuse_other(self, name: str, response: aiohttp.ClientResponse) -> None:
        """Raise for the statuses with which a proxy answers in place of the node."""
        status = response.status
        if status in _LATER:
            seconds = _seconds(response.headers.get("Retry-After", ""))
            raise TryLater(self.address, f"{name}: HTTP {status}, the node is overloaded", seconds=seconds)
        if 300 <= status < 400:
            place = shown(response.headers.get("Location", ""))
            raise ChainError(
                self.address, f"{name}: HTTP {status}, redirected to {place!r}: set AP_NODE to the right address"
            )

    def _result(self, name: str, status: int, text: bytes) -> dict[str, Any]:
        try:
            answer = from_json(text)
        except ValueError as error:
            raise ChainError(self.address, f"{name}: HTTP {status}, not JSON: {text[:80]!r}") from error
        if not isinstance(answer, dict):
            raise ChainError(self.address, f"{name}: HTTP {status}, not a JSON object: {text[:80]!r}")
        if answer.get("error"):
            raise self._refusal(name, answer["error"])
        return _member(self.address, name, answer, "result")

    def _refusal(self, name: str, error: Any) -> ChainError:
        if not isinstance(error, dict):
            return ChainError(self.address, f"{name}: malformed error {str(error)[:80]!r}")
        text = str(error.get("data") or error.get("message") or "")[:2000]
        code = error.get("code")
        return RpcError(self.address, name, code=code if isinstance(code, int) else 0, text=text)


def shown(address: str) -> str:
    """The address without secrets, for logs: no user, no password, no query; a path segment that looks like a key is
    cut short.
    """
    bare = re.sub(r"//[^/@\s]*@", "//", address).split("?")[0].split("#")[0].rstrip("/")
    head, slashes, rest = bare.partition("//")
    host, *segments = rest.split("/")
    segments = [f"{part[:3]}…" if len(part) >= 20 and re.search(r"\d", part) else part for part in segments]
    return head + slashes + "/".join((host, *segments))


def _named(method: str, params: dict[str, Any]) -> str:
    """The method with its subject: the path of a query, a height."""
    path, height = params.get("path"), str(params.get("height", "0"))
    return method + (f" {path}" if path else "") + (f" at height {height}" if height != "0" else "")


def _without_url(error: Exception) -> str:
    """The error's text with addresses made safe: aiohttp puts the address, and a key in its path, into some texts."""
    return re.sub(r"(?:https?|wss?)://[^\s'\"),]+", lambda found: shown(found[0]), str(error)) or type(error).__name__


def _seconds(text: str) -> float:
    """Retry-After in seconds; 0 for its other form, a date."""
    return min(_MAX_LATER_S, float(text)) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


def _abci_answer(address: str, path: str, result: dict[str, Any]) -> AbciAnswer:
    response = _member(address, f"query {path}", result, "response")
    try:
        code, height = int(response.get("code") or 0), int(response.get("height") or 0)
        if code:
            log, codespace = str(response.get("log", "")), str(response.get("codespace", ""))
            raise QueryError(address, path, codespace=codespace, code=code, log=log)
        if height <= 0:
            raise ChainError(address, f"query {path}: the answer is for height {height}: the node has no block yet")
        return AbciAnswer(base64.b64decode(response.get("value") or "", validate=True), height)
    except (ValueError, TypeError, OverflowError) as error:  # JSON allows numbers that no integer holds: 1e999
        text = f"query {path}: the answer is not base64 with a code and a height: {error}"
        raise ChainError(address, text) from error


def _member(address: str, name: str, container: dict[str, Any], member: str) -> dict[str, Any]:
    value = container.get(member)
    if not isinstance(value, dict):
        raise ChainError(address, f"{name}: the answer has no {member}: {str(container)[:120]}")
    return value
