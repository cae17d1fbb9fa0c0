"""A rule, and a violation of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = [
    "Level",
    "Manifest",
    "ObjectProblem",
    "Rule",
    "RuleScope",
    "Severity",
    "Violation",
    "describe",
    "fence",
    "of_each",
]

Manifest = Mapping[str, Any]
"""One plain Kubernetes object. Its content may be of any shape, since any program may have written it."""


class Severity(StrEnum):
    """The harm that a violation would do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class Level(StrEnum):
    """The consequence of a violation: a mandatory one stops the update, an advisory one is reported."""

    ADVISORY = "advisory"
    MANDATORY = "mandatory"


class RuleScope(StrEnum):
    """Whether a rule needs one object or all of them together."""

    OBJECT = "object"
    STACK = "stack"


@dataclass(frozen=True, slots=True)
class ObjectProblem:
    """The object that breaks a rule, and how."""

    manifest: Manifest
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`reason` says why the rule exists, `remedy` what to do. A rule of scope OBJECT judges each object alone. `form`:
    the first form of a lease's objects (lease.spec.FORM) that the rule judges.
    """

    id: str
    severity: Severity
    level: Level
    reason: str
    remedy: str
    check: Callable[[Sequence[Manifest]], Iterable[ObjectProblem]]
    scope: RuleScope = RuleScope.OBJECT
    form: int = 1


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule at one object, as an operator reads it."""

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


def fence(
    id_: str,
    check: Callable[[Sequence[Manifest]], Iterable[ObjectProblem]],
    *,
    reason: str,
    remedy: str,
    scope: RuleScope = RuleScope.OBJECT,
    form: int = 1,
) -> Rule:
    """A mandatory rule whose violation harms other tenants or the node."""
    return Rule(
        id=id_,
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        reason=reason,
        remedy=remedy,
        check=check,
        scope=scope,
        form=form,
    )


def of_each(check: Callable[[Manifest], Iterable[str]]) -> Callable[[Sequence[Manifest]], Iterable[ObjectProblem]]:
    """A check of one object, which returns its problems, as a check of many."""

    def check_all(manifests: Sequence[Manifest]) -> Iterable[ObjectProblem]:
        return (ObjectProblem(manifest, text) for manifest in manifests for text in check(manifest))

    return check_all


def describe(manifest: Manifest) -> str:
    """`Deployment namespace/name`, as far as the object has them."""
    metadata = manifest.get("metadata")
    where = metadata if isinstance(metadata, Mapping) else {}
    name = "/".join(str(where[key]) for key in ("namespace", "name") if where.get(key))
    return f"{manifest.get('kind') or 'object'} {name or '(no name)'}"
