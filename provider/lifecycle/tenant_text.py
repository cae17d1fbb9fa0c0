"""What a tenant is told about his lease: his own part of it, in the provider's words (pure).

Trouble of ours is admitted but not described: addresses and errors of the cluster are none of a tenant's business.
"""

from __future__ import annotations

from provider.lifecycle.state import LeaseStatus, Phase

__all__ = ["tenant_words"]

_HIS = (Phase.BLOCKED, Phase.DEGRADED, Phase.FAILED, Phase.UPDATE_FAILED)


def tenant_words(status: LeaseStatus | None) -> str:
    """Why it does not run as the newest manifest says, empty when it does or nothing is known."""
    if status is None or status.phase not in (*_HIS, Phase.APPLYING):
        return ""
    if status.attempts:
        return f"{status.phase}: the provider has trouble of its own and tries again"
    if status.phase is Phase.APPLYING:
        return f"update under way: {status.reason}" if status.reason.startswith("service ") else ""
    return f"{status.phase}: {status.reason}"
