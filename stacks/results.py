"""What an engine operation did, in plain data: the daemon reads it and never imports Pulumi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["Operation", "ResourceChange", "StackResult"]


class Operation(StrEnum):
    PREVIEW = "preview"
    UP = "up"
    REFRESH = "refresh"
    DESTROY = "destroy"


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One step as Pulumi reports it: `op` is its word (create, update, delete, replace), `diff` names changed paths."""

    op: str
    type: str
    name: str
    urn: str = ""
    diff: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StackResult:
    """`changes` leaves out what stayed the same; `summary` counts every op. `error` is empty on success."""

    operation: Operation
    stack: str
    ok: bool
    seconds: float
    changes: tuple[ResourceChange, ...] = ()
    summary: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict)
