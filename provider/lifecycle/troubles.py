"""Is a failure the tenant's or ours? Only ours is tried again by itself (docs/architecture.md §2, rule 5)."""

from __future__ import annotations

from random import Random

from stacks.results import FailureCause, StackResult

__all__ = ["ours", "pause"]

_REFUSED = ("is invalid:", "denied the request", "exceeded quota", "refused by policy")
"""Looked for first: a tenant's own words, which an error may quote, cannot make a refusal look like our trouble."""

_OURS = (
    # the API server is away (kubernetes-objects.md §9, T32) or overloaded
    "apiserver not ready",
    "connection refused",
    "connection reset",
    "cluster is unreachable",
    "network is unreachable",
    "no route to host",
    "no such host",
    "i/o timeout",
    "tls handshake",
    "deadline exceeded",
    "timed out",
    "unexpected eof",
    "too many requests",
    "service unavailable",
    "internal error occurred",
    "etcdserver",
    "did not answer",
    "could not be read",
    "could not be deleted",
    "the server was unable to return a response",
    # the engine: killed, stuck, locked, out of room
    "did not end within",
    "the next one repairs it",
    "the worker ",
    "the worker's pipe",
    "signal:",
    "currently locked",
    "is locked by process",
    "in use by another lessor process",
    "no space left",
    "too many open files",
    "cannot allocate memory",
    # a moment later it is different
    "the object has been modified",
    "is being terminated",
    "is still terminating",
)
"""Lower-case parts of error texts, for failures whose cause the engine does not know. Whatever is not listed is a
refusal: the same again would be refused again.
"""

_LONGEST_PAUSE_S = 300.0


def ours(result: StackResult) -> bool:
    """Whether a failed operation may succeed unchanged later. The engine's own word counts before the text."""
    if result.cause not in (None, FailureCause.UNKNOWN):
        return result.cause.ours
    text = result.error.lower()
    return not any(part in text for part in _REFUSED) and any(part in text for part in _OURS)


def pause(attempts: int, *, random: Random, longest: float = _LONGEST_PAUSE_S) -> float:
    """Seconds before try `attempts` + 1: 1, 2, 4 … `longest`, each cut by up to a half, so that leases spread."""
    return min(longest, 2.0 ** min(attempts - 1, 20)) * random.uniform(0.5, 1.0)
