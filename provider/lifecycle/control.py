"""Operators' requests to a running provider: a socket in the provider's home, one line of JSON each way.

A request is carried out once; it is not a setting. Only an account that may write the home (mode 0700, the socket 0600)
can send one. A request is `{"word": …, "lease": "owner/dseq/gseq/oseq/provider"}`, an answer `{"ok": …, "text": …}`;
the answer to `standing` also lists what waits for an operator.
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
from provider.volumes.restore import RestoreRequest

__all__ = ["OperatedLoop", "OperatorRequest", "answer_request", "control_path", "send_request", "serve_control"]

_LONGEST = 4096
_LIMIT_S = 30.0
_log = structlog.get_logger(__name__)


class OperatorRequest(StrEnum):
    """The value of `word` in a request."""

    WAITING = "standing"
    """List what waits for an operator: suspects, leases that the brake holds, stacks of no known lease."""
    CLOSE = "close"
    """End a lease that looks closed without proof, or that the brake holds."""
    RECREATE = "recreate"
    """Make anew what another builder made, pods too."""
    RETRY = "retry"
    """Try the refused version again."""
    RELEASE_BRAKE = "release-brake"
    """Let the leases go that the brake holds."""
    VOLUMES = "volumes"
    """List the volumes in quarantine."""
    RESTORE = "restore"
    """Give a lease's volumes to another lease; `volumes.restore.RestoreRequest` has the other fields of the request."""


class OperatedLoop(Protocol):
    """The lease loop, as far as operators steer it. `close`, `recreate` and `retry` return why nothing is done, empty
    when it is done.
    """

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
    async def write_directives(self) -> bool: ...
    @property
    def quarantined(self) -> list[dict[str, Any]]: ...
    async def restore(self, request: RestoreRequest) -> str: ...


def control_path(home: Path) -> Path:
    """The path of the socket."""
    return home / "control.sock"


async def serve_control(loop: OperatedLoop, path: Path) -> None:
    """Answer requests until cancelled. When this fails, leases go on without it."""
    await serve_socket(path, lambda line: answer_request(loop, line), longest=_LONGEST, seconds=_LIMIT_S)


async def answer_request(loop: OperatedLoop, line: bytes) -> dict[str, Any]:
    """Carry out one request and return the answer. Never raises, whatever the line is."""
    try:
        fields = json.loads(line)
        kind = OperatorRequest(fields["word"])
        lease = _lease(fields["lease"]) if fields.get("lease") else None
        restore = _restore_request(fields, lease) if lease and kind is OperatorRequest.RESTORE else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"ok": False, "text": "this provider does not know this request"}
    try:
        return await (_restore(loop, restore) if restore else _answer(loop, kind, lease))
    except ProviderError as error:
        return {"ok": False, "text": str(error)}


def send_request(path: Path, kind: OperatorRequest, lease: LeaseId | None = None, **more: object) -> dict[str, Any]:
    """Send a request to the provider at `path` and return its answer. `more`: other fields of the request. Raises
    `ProviderUnreachable`.
    """
    fields = {"word": kind.value} | ({"lease": str(lease)} if lease else {}) | more
    return ask_provider(path, fields, seconds=_LIMIT_S)


async def _answer(loop: OperatedLoop, kind: OperatorRequest, lease: LeaseId | None) -> dict[str, Any]:
    if kind is OperatorRequest.WAITING:
        return _waiting(loop)
    if kind is OperatorRequest.VOLUMES:
        return {"ok": True, "text": "", "volumes": loop.quarantined}
    if kind is OperatorRequest.RELEASE_BRAKE:
        return await _release_brake(loop)
    if lease is None:
        return {"ok": False, "text": f"{kind} needs a lease"}
    _log.warning("lifecycle.operator_request", request=kind.value, lease=str(lease))
    if kind is OperatorRequest.CLOSE:
        problem = loop.close(lease)
        note = await _not_written(loop)
    else:
        problem = await (loop.recreate(lease) if kind is OperatorRequest.RECREATE else loop.retry(lease))
        note = ""
    return {"ok": not problem, "text": problem or f"{kind}: {lease} is checked now{note}"}


async def _release_brake(loop: OperatedLoop) -> dict[str, Any]:
    released = loop.release_brake()
    text = f"{len(released)} leases are removed now" if released else "the brake holds no lease"
    return {"ok": True, "text": text + await _not_written(loop), "leases": [str(each) for each in released]}


async def _not_written(loop: OperatedLoop) -> str:
    """Write the directive before the answer, so that a restart keeps it. Returns the warning when that failed."""
    return "" if await loop.write_directives() else "; it could not be written to the database, a restart forgets it"


def _waiting(loop: OperatedLoop) -> dict[str, Any]:
    return {
        "ok": True,
        "text": "",
        "suspects": {str(lease): reason for lease, reason in sorted(loop.suspects.items())},
        "braked": sorted(map(str, loop.braked)),
        "unknown_stacks": list(loop.unknown_stacks),
    }


async def _restore(loop: OperatedLoop, request: RestoreRequest) -> dict[str, Any]:
    kind, lease, into = OperatorRequest.RESTORE.value, str(request.lease), str(request.into)
    _log.warning("lifecycle.operator_request", request=kind, lease=lease, into=into)
    return {"ok": True, "text": await loop.restore(request)}


def _restore_request(fields: Mapping[str, Any], lease: LeaseId) -> RestoreRequest:
    """Raises what `answer_request` expects of a malformed request. A flag counts only when it is `true` itself."""
    only = fields.get("only") or []
    if not isinstance(only, list) or not all(isinstance(name, str) for name in only):
        raise TypeError("only")
    return RestoreRequest(
        lease=lease,
        into=_lease(fields["into"]) if fields.get("into") else lease,
        only=tuple(only),
        force_owner=fields.get("force_owner") is True,
        swap=fields.get("swap") is True,
    )


def _lease(text: str) -> LeaseId:
    """Raises ValueError."""
    owner, dseq, gseq, oseq, provider = text.split("/")
    return LeaseId(owner, int(dseq), int(gseq), int(oseq), provider)
