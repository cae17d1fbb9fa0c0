"""What a rule is and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Finding", "Level", "Manifest", "Problem", "Rule", "Scope", "Severity", "describe", "of_each"]

Manifest = Mapping[str, Any]
"""One plain Kubernetes object; it may be anybody's, so nothing about its inside is taken for granted."""


class Severity(StrEnum):
    """How bad it would be."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Level(StrEnum):
    """What follows: a mandatory finding stops the update, an advisory one is reported."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"


class Scope(StrEnum):
    """Whether one object is enough to decide, or only all of them together."""

    OBJECT = "object"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class Problem:
    """Where a rule is broken and how."""

    manifest: Manifest
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`reason` says why the rule exists, `remedy` what to do. A rule of scope OBJECT is true of each object alone."""

    id: str
    severity: Severity
    level: Level
    reason: str
    remedy: str
    check: Callable[[Sequence[Manifest]], Iterable[Problem]]
    scope: Scope = Scope.OBJECT


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken rule at one object, in words an operator can act on."""

    rule: str
    severity: Severity
    level: Level
    object: str
    problem: str
    remedy: str

    @property
    def mandatory(self) -> bool:
        return self.level is Level.MANDATORY

    def __str__(self) -> str:
        return f"{self.object}: {self.problem} ({self.rule}, {self.severity}). {self.remedy}"


def of_each(check: Callable[[Manifest], Iterable[str]]) -> Callable[[Sequence[Manifest]], Iterable[Problem]]:
    """A check of one object (it returns what is wrong with it) as a check of many."""

    def check_all(manifests: Sequence[Manifest]) -> Iterable[Problem]:
        return (Problem(manifest, text) for manifest in manifests for text in check(manifest))

    return check_all


def describe(manifest: Manifest) -> str:
    """`Deployment namespace/name`, as far as the object says so."""
    metadata = manifest.get("metadata")
    where = metadata if isinstance(metadata, Mapping) else {}
    name = "/".join(str(where[key]) for key in ("namespace", "name") if where.get(key))
    return f"{manifest.get('kind') or 'object'} {name or '(no name)'}"
