"""Removal of an API server's messages from a stack's state: a message about a refused object may quote secrets.

The engine keeps such a message in clear beside the object (`initErrors`), so that its next run tries the object again.
Only the presence of a message matters to the engine; the masked text is in the operation's result.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stacks.common.files import write_private

__all__ = ["hide_quotes"]

_MARK = b'"initErrors"'
_SHOWN = "the API server's message is in the record of the run"


def hide_quotes(folder: Path) -> int:
    """Replace the messages in every checkpoint (the state, its backup, the history) below `folder`, a stack's
    `.pulumi`. Returns how many files were changed; a file that is no checkpoint is left to `recover`.
    """
    files = [path for part in ("stacks", "history") for path in (folder / part).glob("**/*.json*")]
    return sum(_hidden(path) for path in files)


def _hidden(path: Path) -> bool:
    try:
        content = path.read_bytes()
        if _MARK not in content:
            return False
        document = json.loads(content)
        found = [errors for errors in _errors(document) if errors != [_SHOWN]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False
    for errors in found:
        errors[:] = [_SHOWN]
    if found:
        write_private(path, json.dumps(document))
    return bool(found)


def _errors(document: dict[str, Any]) -> list[list[str]]:
    """Lists of messages: of resources, and of those in pending operations."""
    latest = (document.get("checkpoint") or {}).get("latest") or {}
    pending = [item.get("resource") or {} for item in latest.get("pending_operations") or ()]
    resources = [*(latest.get("resources") or ()), *pending]
    return [resource["initErrors"] for resource in resources if resource.get("initErrors")]
