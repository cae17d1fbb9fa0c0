"""The cause of a failed operation, from the error texts of API server, plugin and command line."""

from __future__ import annotations

from stacks.common.results import FailureCause

__all__ = ["cause_of"]

_REFUSED = (
    ("refused by policy", FailureCause.POLICY),
    ("exceeded quota", FailureCause.QUOTA),
    ("denied the request", FailureCause.DENIED),
    ("denied request:", FailureCause.DENIED),  # a ValidatingAdmissionPolicy's words
    ("field is immutable", FailureCause.IMMUTABLE),
    ("are forbidden", FailureCause.IMMUTABLE),  # "updates to statefulset spec for fields other than …"
    ("is invalid:", FailureCause.INVALID),
    ("failed to create typed patch object", FailureCause.INVALID),
    ("strict decoding error", FailureCause.INVALID),
    ("cannot be handled as a", FailureCause.INVALID),
    ("quantities must match the regular expression", FailureCause.INVALID),
    ("request is too large", FailureCause.INVALID),
    ("request entity too large", FailureCause.INVALID),
)
"""Checked first, in this order: a tenant's own text, which an error may quote, cannot make a refusal look like a fault
of the provider. A part that a quota, a webhook and a validation share would decide wrongly, so the narrow parts come
first.
"""

_OTHERS = (
    ("is being terminated", FailureCause.TERMINATING),
    ("is still terminating", FailureCause.TERMINATING),
    ("currently locked", FailureCause.LOCKED),
    ("is locked by process", FailureCause.LOCKED),
    ("in use by another lessor process", FailureCause.LOCKED),
    ("no space left", FailureCause.NO_ROOM),
    ("file too large", FailureCause.NO_ROOM),
    ("disk quota exceeded", FailureCause.NO_ROOM),
    ("read-only file system", FailureCause.NO_ROOM),
    ("too many open files", FailureCause.NO_ROOM),
    ("cannot allocate memory", FailureCause.NO_ROOM),
    ("the object has been modified", FailureCause.CONFLICT),
    ("conflict with", FailureCause.MANAGED_ELSEWHERE),
    ("conflicts with", FailureCause.MANAGED_ELSEWHERE),
    ("is not a lease's", FailureCause.EXISTS),
    ("already exists", FailureCause.EXISTS),
    ("apiserver not ready", FailureCause.UNREACHABLE),
    ("connection refused", FailureCause.UNREACHABLE),
    ("connection reset", FailureCause.UNREACHABLE),
    ("cluster is unreachable", FailureCause.UNREACHABLE),
    ("network is unreachable", FailureCause.UNREACHABLE),
    ("no route to host", FailureCause.UNREACHABLE),
    ("no such host", FailureCause.UNREACHABLE),
    ("i/o timeout", FailureCause.UNREACHABLE),
    ("tls handshake", FailureCause.UNREACHABLE),
    ("did not answer", FailureCause.UNREACHABLE),
    ("could not be read", FailureCause.UNREACHABLE),
    ("could not be deleted", FailureCause.UNREACHABLE),
    ("too many requests", FailureCause.OVERLOADED),
    ("service unavailable", FailureCause.OVERLOADED),
    ("internal error occurred", FailureCause.OVERLOADED),
    ("etcdserver", FailureCause.OVERLOADED),
    ("the server was unable to return a response", FailureCause.OVERLOADED),
    ("deadline exceeded", FailureCause.OVERLOADED),
    ("timed out", FailureCause.OVERLOADED),
    ("unexpected eof", FailureCause.UNREACHABLE),
    (": eof", FailureCause.UNREACHABLE),
    ("broken pipe", FailureCause.UNREACHABLE),
    ("connection lost", FailureCause.UNREACHABLE),
    ("name resolution", FailureCause.UNREACHABLE),
    ("server misbehaving", FailureCause.UNREACHABLE),
    ("x509:", FailureCause.UNREACHABLE),
    ("unauthorized", FailureCause.UNREACHABLE),
    ("no matches for kind", FailureCause.UNREACHABLE),
    ("could not find the requested resource", FailureCause.UNREACHABLE),
    ("did not end within", FailureCause.ENGINE),
    ("the next one repairs it", FailureCause.ENGINE),
    ("the worker ", FailureCause.ENGINE),
    ("the worker's pipe", FailureCause.ENGINE),
    ("a stack worker did not start", FailureCause.ENGINE),
    ("ended by signal", FailureCause.ENGINE),
    ("signal:", FailureCause.ENGINE),
    ("plugin has crashed", FailureCause.ENGINE),
    ("is forbidden:", FailureCause.FORBIDDEN),
    ('namespaces "', FailureCause.TERMINATING),  # "… not found": it went behind the stack's back
)


def cause_of(error: str) -> FailureCause | None:
    """The cause that the error's text shows; None for no error."""
    if not error:
        return None
    lines = [line for line in error.lower().splitlines() if line.strip()]
    text = "\n".join(line for line in lines if _ECHO not in line)
    if not text:
        return FailureCause.ENGINE
    return next((cause for part, cause in (*_REFUSED, *_OTHERS) if part in text), FailureCause.UNKNOWN)


_ECHO = "resource monitor"
"""The program reports that the command line has ended. It reports so after every failed object, so the text counts only
when it is the only error.
"""
