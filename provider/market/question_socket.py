"""The socket in the provider's home for `lessor bid explain --sdl`: one line of JSON each way.

Only a user who can write to the home (mode 0700, the socket 0600) can ask, so the answer may name nodes.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lease.groups import GroupSpec
from provider.errors import ProviderError
from provider.local_socket import ask_provider, serve_socket
from provider.market.explanation import explanation_json
from provider.market.screening import Screening

__all__ = ["answer", "ask_market", "market_socket", "serve_questions"]

_LONGEST = 4 << 20
_ANSWER_S = 60.0


@cache
def _spec_adapter() -> TypeAdapter[GroupSpec]:
    """Made when it is used: a start waits for none of it."""
    return TypeAdapter(GroupSpec)


def market_socket(home: Path) -> Path:
    return home / "market.sock"


async def serve_questions(screening: Screening, path: Path) -> None:
    """Listen until cancelled."""
    await serve_socket(path, lambda line: answer(screening, line), longest=_LONGEST, seconds=_ANSWER_S)


async def answer(screening: Screening, line: bytes) -> dict[str, Any]:
    """The answer to one request. A request that cannot be read is answered with an error; nothing is raised."""
    try:
        request = json.loads(line)
        specs = [_spec_adapter().validate_python(group) for group in request["groups"]]
        owner, notice = str(request.get("owner", "")), request.get("reclamation_ns")
        if notice is not None and not isinstance(notice, int):
            raise ValueError("reclamation_ns")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return {"ok": False, "text": "this provider does not know this request"}
    try:
        found = [await screening.screen(spec, owner=owner, reclamation_ns=notice) for spec in specs]
    except ProviderError as error:
        return {"ok": False, "text": str(error)}
    return {"ok": True, "groups": [explanation_json(inputs, each) for inputs, each in found]}


def ask_market(
    path: Path, groups: tuple[GroupSpec, ...], *, owner: str, reclamation_ns: int | None
) -> list[dict[str, Any]]:
    """The running provider's explanation for each group. Raises `ProviderUnreachable`, or `ProviderError` with the
    provider's own reason.
    """
    request = {
        "groups": [_spec_adapter().dump_python(group, mode="json") for group in groups],
        "owner": owner,
        "reclamation_ns": reclamation_ns,
    }
    reply = ask_provider(path, request, seconds=_ANSWER_S)
    if not reply.get("ok"):
        raise ProviderError(str(reply.get("text")))
    explained: list[dict[str, Any]] = reply["groups"]
    return explained
