"""`lessor bid explain --sdl` asks a running provider: a socket in its home, one line of JSON each way.

Only who may write the home (mode 0700, the socket 0600) can ask, so the answer may name nodes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lease.groups import GroupSpec
from provider.errors import ProviderError
from provider.local_socket import ProviderUnreachable, ask_provider, serve_socket
from provider.market.explanation import explanation_json
from provider.market.screening import Screening

__all__ = ["answer", "ask_market", "market_socket", "serve_questions"]

_LONGEST = 4 << 20
_SECONDS = 60.0
_SPEC: TypeAdapter[GroupSpec] = TypeAdapter(GroupSpec)


def market_socket(home: Path) -> Path:
    return home / "market.sock"


async def serve_questions(screening: Screening, path: Path) -> None:
    """Listen until cancelled."""
    await serve_socket(path, lambda line: answer(screening, line), longest=_LONGEST, seconds=_SECONDS)


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
    return {"ok": True, "groups": [explanation_json(inputs, each) for inputs, each in found]}


def ask_market(
    path: Path, groups: tuple[GroupSpec, ...], *, owner: str, reclamation_ns: int | None
) -> list[dict[str, Any]]:
    """What a running provider says of each group. Raises `ProviderUnreachable`, also with its own word why not."""
    request = {
        "groups": [_SPEC.dump_python(group, mode="json") for group in groups],
        "owner": owner,
        "reclamation_ns": reclamation_ns,
    }
    told = ask_provider(path, request, seconds=_SECONDS)
    if not told.get("ok"):
        raise ProviderUnreachable(str(told.get("text")))
    groups_told: list[dict[str, Any]] = told["groups"]
    return groups_told
