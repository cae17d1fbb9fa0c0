"""The HTTP client of the ACME library, with limits: a CA that is slow, endless or wrong costs a thread of its own for a
while, and nothing waits for that thread.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import requests
from acme import messages
from acme.client import ClientNetwork, ClientV2
from josepy import jwa, jwk

__all__ = ["Network", "demanded_pause", "in_own_thread"]

_ANSWER_S = 30
"""Of silence; and of a whole body."""
_LONGEST_BODY = 1024 * 1024
_NONCES = 20
"""How often a request is sent at most that the CA answers with `badNonce`: a CA of several machines forgets nonces."""
_Result = TypeVar("_Result")


class Network(ClientNetwork):
    """`retry_after_s`: what the last refusal demanded, 0 for nothing."""

    key: jwk.JWK
    retry_after_s = 0.0

    def __init__(self, key: jwk.JWK, algorithm: jwa.JWASignature, *, roots: str = "") -> None:
        super().__init__(key, alg=algorithm, user_agent="lessor", timeout=_ANSWER_S)
        if roots:
            self.session.verify = roots
            self.verify_ssl = roots  # type: ignore[assignment]  # `requests` takes the path of a file too
        self.session.hooks["response"].append(self._receive)

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        """As the library's, which repeats once what was refused for its nonce."""
        for _ in range(_NONCES // 2 - 1):
            try:
                return super().post(*args, **kwargs)
            except messages.Error as error:
                if error.code != "badNonce":
                    raise
        return super().post(*args, **kwargs)

    def _receive(self, response: requests.Response, *_: Any, **__: Any) -> None:
        if not response.ok:
            self.retry_after_s = demanded_pause(response)
        try:
            response.raw = io.BytesIO(_body(response))
        except Exception:
            response.close()
            raise


def demanded_pause(response: requests.Response) -> float:
    """The seconds of `Retry-After`; 0 without one, and for one that is no time."""
    try:
        return max(0.0, (ClientV2.retry_after(response, 0) - datetime.now()).total_seconds())
    except (ValueError, OverflowError):
        return 0.0


def _body(response: requests.Response) -> bytes:
    """Raises `requests.ConnectionError` for a body that is too long, or too slow."""
    end, body = time.monotonic() + _ANSWER_S, bytearray()
    while part := response.raw.read1(64 * 1024, decode_content=True):
        body += part
        if len(body) > _LONGEST_BODY:
            raise requests.ConnectionError(f"its answer is longer than {_LONGEST_BODY} bytes")
        if time.monotonic() > end:
            raise requests.ConnectionError(f"its answer took longer than {_ANSWER_S} s")
    response.raw.release_conn()
    return bytes(body)


async def in_own_thread(work: Callable[..., _Result], *args: Any) -> _Result:
    """The result of `work` in a thread that the end of the process does not wait for, unlike one of the loop's pool."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[_Result] = loop.create_future()

    def settle(result: _Result | None, error: BaseException | None) -> None:
        if found.done():
            return
        if error is not None:
            found.set_exception(error)
        else:
            found.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, problem = None, None
        try:
            result = work(*args)
        except Exception as error:
            problem = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=run, name="certificate order", daemon=True).start()
    return await found
