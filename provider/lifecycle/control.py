"""An operator's word to a running provider: a socket in its home, one line of JSON each way.

Words, not settings: what they ask for is done once. Only who may write the home (mode 0700, the socket 0600) can speak.
A request is `{"word": …, "lease": "owner/dseq/gseq/oseq/provider"}`, an answer `{"ok": …, "text": …}` and for
`standing` also what waits for a word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import structlog

from lease.ids import LeaseId
from provider.errors import ProviderError
from provider.local_socket import ask_provider, serve_socket
from provider.volumes.restore import Wish

__all__ = ["Operated", "Word", "control_path", "obey", "serve_control", "tell"]

_LONGEST = 4096
_SECONDS = 30.0
_log = structlog.get_logger(__name__)


class Word(StrEnum):
    STANDING = "standing"
    """What waits for an operator: suspects, leases held by the brake, stacks of nobody."""
    CLOSE = "close"
    """This lease looks closed without proof: end it."""
    RECREATE = "recreate"
    RETRY = "retry"
    """Try the refused version again."""
    RELEASE_BRAKE = "release-brake"
    VOLUMES = "volumes"
    """What is in quarantine."""
    RESTORE = "restore"
    """The lease's volumes go to another; see `volumes.restore.Wish` for what else the request says."""


class Operated(Protocol):
    """The lease loop, as far as operators steer it. Methods with a lease return why not, empty when it is done."""

    @property
    def suspects(self) -> Mapping[LeaseId, str]: ...
    @property
    def braked(self) -> frozenset[LeaseId]: ...
    @property
    def unknown_stacks(self) -> tuple[str, ...]: ...
    def release_brake(self) -> tuple[LeaseId, ...]: ...
    def close(self, lease: LeaseId) -> str: ...
    async def recreate(self, lease: LeaseId) -> str: ...
    async def retry(self, lease: LeaseId) -> str: ...
    async def remember(self) -> bool: ...
    @property
    def quarantined(self) -> list[dict[str, Any]]: ...
    async def restore(self, wish: Wish) -> str: ...


def control_path(home: Path) -> Path:
    return home / "control.sock"


async def serve_control(loop: Operated, path: Path) -> None:
    """Listen until cancelled; leases go on without it."""
    await serve_socket(path, lambda line: obey(loop, line), longest=_LONGEST, seconds=_SECONDS)


async def obey(loop: Operated, line: bytes) -> dict[str, Any]:
    """The answer to one request; whatever it says, it never raises."""
    try:
        request = json.loads(line)
        word = Word(request["word"])
        lease = _lease(request["lease"]) if request.get("lease") else None
        wish = _wish(request, lease) if lease and word is Word.RESTORE else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"ok": False, "text": "this is no request that this provider knows"}
    try:
        return await (_restore(loop, wish) if wish else _obey(loop, word, lease))
    except ProviderError as error:
        return {"ok": False, "text": str(error)}


def tell(path: Path, word: Word, lease: LeaseId | None = None, **more: object) -> dict[str, Any]:
    """Say it and wait for the answer; `more` is what else the request says. Raises `ProviderUnreachable`."""
    request = {"word": word.value} | ({"lease": str(lease)} if lease else {}) | more
    return ask_provider(path, request, seconds=_SECONDS)


async def _obey(loop: Operated, word: Word, lease: LeaseId | None) -> dict[str, Any]:
    if word is Word.STANDING:
        return _standing(loop)
    if word is Word.VOLUMES:
        return {"ok": True, "text": "", "volumes": loop.quarantined}
    if word is Word.RELEASE_BRAKE:
        released = loop.release_brake()
        text = f"{len(released)} leases go now" if released else "the brake holds nothing"
        text += await _unwritten(loop)
        return {"ok": True, "text": text, "leases": [str(each) for each in released]}
    if lease is None:
        return {"ok": False, "text": f"{word} needs a lease"}
    _log.warning("lifecycle.operator_request", request=word.value, lease=str(lease))
    if word is Word.CLOSE:
        problem = loop.close(lease)
        said = await _unwritten(loop)
    else:
        problem = await (loop.recreate(lease) if word is Word.RECREATE else loop.retry(lease))
        said = ""
    return {"ok": not problem, "text": problem or f"{word}: {lease} is looked at now{said}"}


async def _unwritten(loop: Operated) -> str:
    """A word is written down before it is answered, so that a restart does not forget it."""
    return "" if await loop.remember() else "; it could not be written down, a restart forgets it"


def _standing(loop: Operated) -> dict[str, Any]:
    return {
        "ok": True,
        "text": "",
        "suspects": {str(lease): reason for lease, reason in sorted(loop.suspects.items())},
        "braked": sorted(map(str, loop.braked)),
        "unknown_stacks": list(loop.unknown_stacks),
    }


async def _restore(loop: Operated, wish: Wish) -> dict[str, Any]:
    _log.warning("lifecycle.operator_request", request=Word.RESTORE.value, lease=str(wish.lease), into=str(wish.into))
    return {"ok": True, "text": await loop.restore(wish)}


def _wish(request: Mapping[str, Any], lease: LeaseId) -> Wish:
    """Raises what `obey` expects of a request that is none. A flag counts only when it is `true` itself."""
    only = request.get("only") or []
    if not isinstance(only, list) or not all(isinstance(name, str) for name in only):
        raise TypeError("only")
    return Wish(
        lease=lease,
        into=_lease(request["into"]) if request.get("into") else lease,
        only=tuple(only),
        force_owner=request.get("force_owner") is True,
        swap=request.get("swap") is True,
    )


def _lease(text: str) -> LeaseId:
    """Raises ValueError."""
    owner, dseq, gseq, oseq, provider = text.split("/")
    return LeaseId(owner, int(dseq), int(gseq), int(oseq), provider)
