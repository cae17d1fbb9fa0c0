"""Secrets out of error texts: what a tenant gave us must not come back in a log, a status or a store."""

from __future__ import annotations

from lease.spec import LeaseSpec

__all__ = ["mask"]

SHORTEST = 5
"""Shorter values ("1", "true") would blot out every second word of a message and protect nothing."""


def mask(text: str, spec: LeaseSpec | None) -> str:
    """`text` without any value of the tenant's environment and credentials; the provider's AKASH_* are no secret."""
    if spec is None or not text:
        return text
    for secret in sorted(_secrets(spec), key=len, reverse=True):
        text = text.replace(secret, "[secret]")
    return text


def _secrets(spec: LeaseSpec) -> set[str]:
    own = {
        variable.value.get_secret_value()
        for service in spec.services
        for variable in service.environment
        if not variable.name.startswith("AKASH_")
    }
    passwords = {s.credentials.password.get_secret_value() for s in spec.services if s.credentials}
    return {value for value in own | passwords if len(value) >= SHORTEST}
