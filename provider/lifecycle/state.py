"""The status of a lease for operators: one phase, one reason, since when (docs/architecture.md §2, rule 6)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lease.ids import LeaseId
from provider.protocols.bus import Topic
from stacks.common import StackResult

__all__ = [
    "LEASE_STATE",
    "STACK_RESULT",
    "WITH_MANIFEST",
    "LeaseStatus",
    "Outcome",
    "Phase",
    "StackReport",
    "tenant_text",
]


class Phase(StrEnum):
    """The state of a lease. The reason beside it says what the lease waits for or what went wrong."""

    UNKNOWN = "unknown"
    """The chain or the cluster could not be asked, or its answer proves nothing: nothing is changed."""
    WAITING_FOR_MANIFEST = "waiting for manifest"
    BLOCKED = "blocked"
    """The newest version cannot be applied because of a hostname, an address, a namespace or the manifest itself."""
    APPLYING = "applying"
    RUNNING = "running"
    DEGRADED = "degraded"
    FAILED = "failed"
    """The first version could not be applied."""
    UPDATE_FAILED = "update failed (running the previous version)"
    CLOSING = "closing"
    QUARANTINED = "quarantined"
    """The lease has ended, and only its volumes are kept for a time."""
    CLOSED = "closed"


WITH_MANIFEST = frozenset(
    {Phase.BLOCKED, Phase.APPLYING, Phase.RUNNING, Phase.DEGRADED, Phase.FAILED, Phase.UPDATE_FAILED}
)
"""The phases of a lease whose tenant has sent a manifest that was accepted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one check of a lease. `again_in`: seconds until the next check, None for no check without an event.

    `retry` asks for another check after a growing pause instead: the provider is at fault, not the tenant.
    `of_the_tenant`: the application does not run, everything could be seen, and the application alone is the cause.
    `remark`: the part of the reason that says which parts of the manifest the lease goes without; of a blocked lease
    what its tenant reads in place of the reason. `waits_for`: the names of the claims of these parts, whose end asks
    for another check. `of_the_provider`: the lease does not run as its manifest says, and the tenant is not the cause:
    a node, capacity, an address, a record.
    """

    phase: Phase
    reason: str = ""
    again_in: float | None = None
    retry: bool = False
    of_the_tenant: bool = False
    of_the_provider: bool = False
    remark: str = ""
    waits_for: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """`since`: Unix seconds of the last change; `attempts`: checks in a row that failed through the provider's fault.
    `ending`: when the provider ends the lease, a part of `reason`; empty without a notice. `remark` and
    `of_the_provider`: as in `Outcome`.
    """

    lease: LeaseId
    phase: Phase
    reason: str
    since: float
    attempts: int = 0
    ending: str = ""
    remark: str = ""
    of_the_provider: bool = False


@dataclass(frozen=True, slots=True)
class StackReport:
    lease: LeaseId
    result: StackResult


LEASE_STATE: Topic[LeaseStatus] = Topic("lease.state")
"""The state of a lease, published when it differs from the one before. A reason may quote a tenant's secret."""
STACK_RESULT: Topic[StackReport] = Topic("stack.result")
"""Published after every operation of the engine."""


_OF_THE_TENANT = (Phase.BLOCKED, Phase.DEGRADED, Phase.FAILED, Phase.UPDATE_FAILED)


def tenant_text(status: LeaseStatus | None) -> str:
    """What the tenant reads of why the lease does not run as the newest manifest says, which parts of it the lease
    goes without, and of a notice; empty when there is none of this, or nothing is known.

    Trouble of the provider is admitted but not described: addresses and errors of the cluster are not for tenants.
    """
    if status is None or status.phase not in (*_OF_THE_TENANT, Phase.APPLYING):
        return _joined(status.remark, status.ending) if status is not None else ""
    if status.attempts:
        trouble = _joined(status.remark, "the provider has trouble of its own and tries again", status.ending)
        return f"{status.phase}: {trouble}"
    if status.phase is Phase.APPLYING and not status.reason.startswith("service "):
        return _joined(status.remark, status.ending)
    if status.phase is Phase.APPLYING:
        return _rollout_text(status.reason)
    if status.phase is Phase.BLOCKED and status.remark:
        return f"{status.phase}: {_joined(status.remark, status.ending)}"
    return f"{status.phase}: {status.reason}{_remedy(status)}"


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _remedy(status: LeaseStatus) -> str:
    """What helps after a failure, unless the reason says it."""
    if status.phase not in (Phase.FAILED, Phase.UPDATE_FAILED) or "send a manifest" in status.reason:
        return ""
    return "; send a corrected manifest, or the same one again to have it tried again"


def _rollout_text(reason: str) -> str:
    """Services whose pods are of an older version are named first, so the first tells an update from a start."""
    return f"{'update under way' if ' pods updated' in reason.partition(';')[0] else 'starting'}: {reason}"
