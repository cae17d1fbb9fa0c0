"""The result of an engine operation as plain data: the daemon reads it and never imports Pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Durations", "FailureCause", "Operation", "PropertyChange", "ResourceChange", "StackResult"]


class Operation(StrEnum):
    PREVIEW = "preview"
    UP = "up"
    REFRESH = "refresh"
    DESTROY = "destroy"
    STATE = "state"
    """An operator's command that changes the state or its settings and no object; the engine itself never does."""


class FailureCause(StrEnum):
    """The cause of a failed operation, determined once, by the engine (`stacks.common.causes`)."""

    UNREACHABLE = "cluster unreachable"
    OVERLOADED = "cluster overloaded"
    """The API server answers that it cannot now: too many requests, etcd without leader, internal errors."""
    ENGINE = "engine failed"
    """A process of the engine was killed, hung or could not start."""
    LOCKED = "stack locked"
    NO_ROOM = "no room on the provider's machine"
    """Disk, memory, file descriptors."""
    TERMINATING = "namespace terminating"
    CONFLICT = "changed at the same time"
    MANAGED_ELSEWHERE = "field managed by someone else"
    EXISTS = "object exists and is not this lease's"
    IMMUTABLE = "field cannot be changed"
    INVALID = "refused as invalid"
    DENIED = "denied by an admission webhook"
    FORBIDDEN = "not permitted to the provider"
    QUOTA = "quota exceeded"
    POLICY = "refused by policy"
    BUILD = "cannot be built"
    """The spec has no Kubernetes form."""
    UNKNOWN = "unknown"

    @property
    def provider_fault(self) -> bool:
        """Whether nothing that the tenant wrote caused the failure: the same operation may succeed later.

        An unknown cause is the provider's: only what the API server says of the tenant's own objects is the tenant's,
        and its texts for that are known.
        """
        return self not in _REFUSALS


_REFUSALS = frozenset(
    {
        FailureCause.IMMUTABLE,
        FailureCause.INVALID,
        FailureCause.DENIED,
        FailureCause.QUOTA,
        FailureCause.POLICY,
        FailureCause.BUILD,
    }
)


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """One changed path of an object. `kind` is Pulumi's name (add, update, delete, with `-replace` where it replaces).

    Values are texts as they are, anything else as JSON; None where there is none; `[secret]` for a tenant's secret.
    """

    path: str
    kind: str = "update"
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One step as Pulumi reports it: `op` is its name (create, update, delete, replace), `diff` holds changed paths.

    `properties` are the same paths with their values; empty for an object that is created or deleted.
    """

    op: str
    type: str
    name: str
    urn: str = ""
    diff: tuple[str, ...] = ()
    properties: tuple[PropertyChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Durations:
    """The parts of an operation's time in seconds; a part that did not happen is 0.

    queue_s: from the request until a worker took it; engine_start_s: until the engine's first event; plugin_s: from
    there to the first object's step (plugin start, its configuration); objects_s: from there to the end.
    """

    queue_s: float = 0.0
    engine_start_s: float = 0.0
    plugin_s: float = 0.0
    objects_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StackResult:
    """`changes` has no entry for unchanged objects; `summary` counts every op. `error` is empty and `cause` None on
    success; `spec_hash` is empty where no spec was given. `seconds` is the worker's part, without the queue.
    """

    operation: Operation
    stack: str
    ok: bool
    seconds: float
    changes: tuple[ResourceChange, ...] = ()
    summary: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
    cause: FailureCause | None = None
    durations: Durations = Durations()
    spec_hash: str = ""
