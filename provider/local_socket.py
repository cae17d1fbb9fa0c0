"""Sockets in the provider's home for the command line: the request is one line of JSON, the answer one document.

Only users who may write the home (mode 0700, the socket 0600) can connect.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from provider.errors import ProviderUnreachable

__all__ = ["ask_provider", "serve_socket", "status_socket", "views_socket"]


def status_socket(home: Path) -> Path:
    """Where `observe.operator_status` is served."""
    return home / "status.sock"


def views_socket(home: Path) -> Path:
    """Where `dashboard.questions` answers."""
    return home / "views.sock"


async def serve_socket(
    path: Path, answer: Callable[[bytes], Awaitable[Mapping[str, Any]]], *, longest: int, seconds: float
) -> None:
    """Listen until cancelled; `answer` must not raise. A line of more than `longest` bytes, or an answer that takes
    more than `seconds`, closes the connection. A socket that cannot be created is an error in the log and stops
    nothing.
    """
    try:
        server = await asyncio.start_unix_server(_handler(answer, seconds), path, limit=longest)
        path.chmod(0o600)
    except OSError as error:
        import structlog  # noqa: PLC0415  the command line, which uses this module too, logs nothing

        structlog.get_logger(__name__).error("local_socket.not_listening", path=str(path), problem=str(error))
        return
    async with server:
        try:
            await server.serve_forever()
        finally:
            path.unlink(missing_ok=True)


def ask_provider(path: Path, request: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
    """Send the request and return the answer. Raises `ProviderUnreachable`."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    except (OSError, ValueError) as error:
        raise ProviderUnreachable(
            f"no provider answers at {path} ({error}): start `lessor run` with this AP_HOME"
        ) from error
    if not isinstance(answer, dict):
        raise ProviderUnreachable(f"the program that answers at {path} is not a provider")
    return answer


def _handler(answer: Callable[[bytes], Awaitable[Mapping[str, Any]]], seconds: float) -> Any:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(seconds):
                reply = await answer(await reader.readline())
                writer.write(json.dumps(reply).encode())
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # the client has gone, or its line is longer than a request can be
        finally:
            writer.close()

    return handle
