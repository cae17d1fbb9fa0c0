"""`lessor bid explain --sdl` asks a running provider: a socket in its home, one line of JSON each way.

Only who may write the home (mode 0700, the socket 0600) can ask, so the answer may name nodes.
"""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

from lease.groups import GroupSpec
from provider.errors import ProviderError
from provider.market.explained_json import explained_json
from provider.market.screening import Screening

__all__ = ["NobodyAnswers", "answer", "ask_market", "market_socket", "serve_questions"]

_LONGEST = 4 << 20
_SECONDS = 60.0
_SPEC: TypeAdapter[GroupSpec] = TypeAdapter(GroupSpec)
_log = structlog.get_logger(__name__)


class NobodyAnswers(ProviderError):
    """No provider runs with this home, or it does not answer."""


def market_socket(home: Path) -> Path:
    return home / "market.sock"


async def serve_questions(screening: Screening, path: Path) -> None:
    """Listen until cancelled. A socket that cannot be made is loud and stops nothing."""
    try:
        server = await asyncio.start_unix_server(_answering(screening), path, limit=_LONGEST)
        path.chmod(0o600)
    except OSError as error:
        _log.error("market.questions_not_heard", path=str(path), problem=str(error))
        return
    async with server:
        try:
            await server.serve_forever()
        finally:
            path.unlink(missing_ok=True)


async def answer(screening: Screening, line: bytes) -> dict[str, Any]:
    """The answer to one request; whatever it says, it never raises."""
    try:
        request = json.loads(line)
        specs = [_SPEC.validate_python(group) for group in request["groups"]]
        owner, notice = str(request.get("owner", "")), request.get("reclamation_ns")
        if notice is not None and not isinstance(notice, int):
            raise ValueError("reclamation_ns")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return {"ok": False, "text": "this is no question that this provider knows"}
    try:
        found = [await screening.screen(spec, owner=owner, reclamation_ns=notice) for spec in specs]
    except ProviderError as error:
        return {"ok": False, "text": str(error)}
    return {"ok": True, "groups": [explained_json(inputs, each) for inputs, each in found]}


def ask_market(
    path: Path, groups: tuple[GroupSpec, ...], *, owner: str, reclamation_ns: int | None
) -> list[dict[str, Any]]:
    """What a running provider says of each group. Raises `NobodyAnswers`, also with its own word why not."""
    request = {
        "groups": [_SPEC.dump_python(group, mode="json") for group in groups],
        "owner": owner,
        "reclamation_ns": reclamation_ns,
    }
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_SECONDS)
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            told = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    except (OSError, ValueError) as error:
        raise NobodyAnswers(
            f"no provider answers at {path} ({error}): does `lessor run` run with this AP_HOME?"
        ) from error
    if not isinstance(told, dict) or not told.get("ok"):
        raise NobodyAnswers(
            str(told.get("text")) if isinstance(told, dict) else f"what answers at {path} is no provider"
        )
    groups_told: list[dict[str, Any]] = told["groups"]
    return groups_told


def _answering(screening: Screening) -> Any:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                said = await answer(screening, await reader.readline())
                writer.write(json.dumps(said).encode())
                await writer.drain()
        except (OSError, ValueError, TimeoutError):
            pass  # who asked has gone, or says more than a question can be
        finally:
            writer.close()

    return handle
