"""A socket in the provider's home, for the command line: one line of JSON there, one document back.

Only who may write the home (mode 0700, the socket 0600) can speak.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

from provider.errors import ProviderError

__all__ = ["NobodyAnswers", "ask_provider", "serve_socket"]

_log = structlog.get_logger(__name__)


class NobodyAnswers(ProviderError):
    """No provider runs with this home, or it does not answer."""


async def serve_socket(
    path: Path, answer: Callable[[bytes], Awaitable[Mapping[str, Any]]], *, longest: int, seconds: float
) -> None:
    """Listen until cancelled; `answer` never raises. A line of more than `longest` bytes, or an answer that takes more
    than `seconds`, closes the connection. A socket that cannot be made is loud and stops nothing.
    """
    try:
        server = await asyncio.start_unix_server(_handler(answer, seconds), path, limit=longest)
        path.chmod(0o600)
    except OSError as error:
        _log.error("local_socket.not_listening", path=str(path), problem=str(error))
        return
    async with server:
        try:
            await server.serve_forever()
        finally:
            path.unlink(missing_ok=True)


def ask_provider(path: Path, request: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
    """Say it and wait for the answer. Raises `NobodyAnswers`."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    except (OSError, ValueError) as error:
        raise NobodyAnswers(
            f"no provider answers at {path} ({error}): does `lessor run` run with this AP_HOME?"
        ) from error
    if not isinstance(answer, dict):
        raise NobodyAnswers(f"what answers at {path} is no provider")
    return answer


def _handler(answer: Callable[[bytes], Awaitable[Mapping[str, Any]]], seconds: float) -> Any:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(seconds):
                said = await answer(await reader.readline())
                writer.write(json.dumps(said).encode())
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # who asked has gone, or says more than a request can be
        finally:
            writer.close()

    return handle
