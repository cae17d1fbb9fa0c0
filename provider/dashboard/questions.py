"""The socket in the provider's home for `lessor inventory`, `address` and `hostname`: what the pages show too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from provider.dashboard.views import Sources, Views
from provider.errors import ProviderError
from provider.local_socket import serve_socket, views_socket

__all__ = ["answer_view", "serve_views"]

_LONGEST = 4096
_ANSWER_S = 10.0


async def serve_views(sources: Sources, home: Path) -> None:
    """Listen until cancelled. When this fails, leases go on without it."""
    views = Views(sources)
    await serve_socket(views_socket(home), lambda line: answer_view(views, line), longest=_LONGEST, seconds=_ANSWER_S)


async def answer_view(views: Views, line: bytes) -> dict[str, Any]:
    """The answer to one request, `{"view": "inventory"}` or `{"view": "addresses"}`. Never raises, whatever the line
    is.
    """
    try:
        view = json.loads(line)["view"]
    except (ValueError, KeyError, TypeError, RecursionError):
        view = None
    try:
        match view:
            case "inventory":
                return {"ok": True, **await views.inventory(rows=None)}
            case "addresses":
                return {"ok": True, **await views.addresses(), "count": views.counts()}
    except ProviderError as error:
        return {"ok": False, "text": str(error)}
    return {"ok": False, "text": "this provider does not know this request"}
