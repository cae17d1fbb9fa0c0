"""CometBFT JSON-RPC over HTTP: one call, bounded in time, retried with backoff and jitter, its errors naming the
address (chain.md §7).
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from dataclasses import dataclass
from typing import Any

import aiohttp

from provider.errors import ChainError
from provider.protocols import Clock

__all__ = ["AbciAnswer", "QueryError", "RpcClient", "RpcError", "jittered"]

_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.2
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
"""A block of 240 bids answers with a few MB; what is larger than this is not an answer."""


def jittered(seconds: float) -> float:
    """Half to the whole of it, so that clients that failed together do not return together."""
    return seconds * random.uniform(0.5, 1)  # noqa: S311


class RpcError(ChainError):
    """The node answered with a JSON-RPC error: `code` and its text (`data` where given). Not retried."""

    def __init__(self, address: str, method: str, *, code: int, text: str) -> None:
        super().__init__(address, f"{method}: {text} ({code})")
        self.code = code
        self.text = text


class QueryError(ChainError):
    """abci_query answered with a code; codespace is always `sdk`: 22 not found, 18 invalid argument, else 6
    (recording, §5).
    """

    def __init__(self, address: str, path: str, *, codespace: str, code: int, log: str) -> None:
        super().__init__(address, f"query {path}: {log} ({codespace} {code})")
        self.codespace = codespace
        self.code = code
        self.log = log


@dataclass(frozen=True, slots=True)
class AbciAnswer:
    """Protobuf bytes and the height of the state they were read from (0 when the node did not say)."""

    value: bytes
    height: int


class RpcClient:
    """One node's RPC address, with or without a path prefix. The session opens at the first call; `close` it at the
    end.
    """

    def __init__(self, address: str, *, clock: Clock, timeout: float = 10.0) -> None:
        self.address = address.rstrip("/")
        self._clock = clock
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._next_id = 0

    def session(self) -> aiohttp.ClientSession:
        """The HTTP session, also for the websocket."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession()
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The `result` object. Integer parameters must be given as text (recording, §8)."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._once(method, params)
            except RpcError:
                raise
            except ChainError:
                if attempt == _ATTEMPTS:
                    raise
                await self._clock.sleep(jittered(_FIRST_PAUSE_SECONDS * 2**attempt))
        raise AssertionError("unreachable")

    async def query(self, path: str, request: bytes, *, height: int = 0) -> AbciAnswer:
        """`abci_query` with a gRPC method path; `height` 0 means the latest."""
        result = await self.call("abci_query", path=path, data=request.hex(), height=str(height), prove=False)
        response = _member(self.address, "abci_query", result, "response")
        code = int(response.get("code") or 0)
        if code:
            text = str(response.get("log", ""))
            raise QueryError(self.address, path, codespace=str(response.get("codespace", "")), code=code, log=text)
        try:
            return AbciAnswer(
                base64.b64decode(response.get("value") or "", validate=True), int(response.get("height") or 0)
            )
        except (ValueError, TypeError) as error:
            raise ChainError(self.address, f"query {path}: the answer is not base64 with a height: {error}") from error

    async def _once(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._next_id += 1
        body = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        try:
            async with asyncio.timeout(self._timeout), self.session().post(self.address, json=body) as response:
                text = await response.content.read(_MAX_ANSWER_BYTES + 1)
                while not response.content.at_eof() and len(text) <= _MAX_ANSWER_BYTES:
                    text += await response.content.read(_MAX_ANSWER_BYTES + 1 - len(text))
                status = response.status
        except TimeoutError as error:
            raise ChainError(self.address, f"{method}: no answer within {self._timeout:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ChainError(self.address, f"{method}: {error or type(error).__name__}") from error
        return self._result(method, status, text)

    def _result(self, method: str, status: int, text: bytes) -> dict[str, Any]:
        if len(text) > _MAX_ANSWER_BYTES:
            raise ChainError(self.address, f"{method}: the answer is larger than {_MAX_ANSWER_BYTES} bytes")
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ChainError(self.address, f"{method}: HTTP {status}, not JSON: {text[:80]!r}") from error
        if not isinstance(answer, dict):
            raise ChainError(self.address, f"{method}: HTTP {status}, not a JSON object: {text[:80]!r}")
        if answer.get("error"):
            raise self._refusal(method, answer["error"])
        return _member(self.address, method, answer, "result")

    def _refusal(self, method: str, error: Any) -> ChainError:
        if not isinstance(error, dict):
            return ChainError(self.address, f"{method}: malformed error {str(error)[:80]!r}")
        text = str(error.get("data") or error.get("message") or "")
        code = error.get("code")
        return RpcError(self.address, method, code=code if isinstance(code, int) else 0, text=text)


def _member(address: str, method: str, container: dict[str, Any], name: str) -> dict[str, Any]:
    value = container.get(name)
    if not isinstance(value, dict):
        raise ChainError(address, f"{method}: the answer has no {name}: {str(container)[:120]}")
    return value
