"""A rule, the objects that it judges, and a violation of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, overload

from policies.facts import LeaseFacts

__all__ = [
    "BOTH",
    "OWNER_LABEL",
    "Check",
    "Domain",
    "Level",
    "Manifest",
    "ObjectProblem",
    "Objects",
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

OWNER_LABEL = "akash.network/lease.id.owner"


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


class Domain(StrEnum):
    """The stack whose objects a rule judges: a lease's, or the cluster's own."""

    LEASE = "lease"
    CLUSTER = "cluster"


BOTH = (Domain.LEASE, Domain.CLUSTER)


class Objects(Sequence[Manifest]):
    """Objects that are judged together. `lease`: the facts of their lease, None where only the objects are known."""

    def __init__(self, listed: Iterable[Manifest], lease: LeaseFacts | None = None) -> None:
        self._listed = tuple(listed)
        self.lease = lease

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Manifest]: ...
    def __getitem__(self, index: int | slice) -> Manifest | Sequence[Manifest]:
        return self._listed[index]

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[Manifest]:
        return iter(self._listed)

    def of_kinds(self, *kinds: str) -> Iterator[Manifest]:
        """The objects of these kinds."""
        for kind in kinds:
            yield from self._by_kind.get(kind, ())

    @cached_property
    def _by_kind(self) -> Mapping[str, Sequence[Manifest]]:
        found: dict[str, list[Manifest]] = {}
        for manifest in self._listed:
            found.setdefault(str(manifest.get("kind")), []).append(manifest)
        return found

    def is_kept(self, manifest: Manifest) -> bool:
        """Whether the object is a workload that is kept as an older builder made it, with all that an API server and
        operators added to it: the provider does not choose its fields.
        """
        metadata = manifest.get("metadata")
        name = str(metadata.get("name")) if isinstance(metadata, Mapping) else ""
        rented = self.lease.services.get(name) if self.lease else None
        return rented is not None and rented.kept and manifest.get("kind") in ("Deployment", "StatefulSet")

    @cached_property
    def lease_namespaces(self) -> Mapping[str, str]:
        """The owner of the lease by the name of its namespace, of the namespaces of leases among the objects."""
        found = {}
        for space in self.of_kinds("Namespace"):
            metadata = space.get("metadata")
            labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
            if isinstance(metadata, Mapping) and isinstance(labels, Mapping) and OWNER_LABEL in labels:
                found[str(metadata.get("name"))] = str(labels[OWNER_LABEL])
        return found


@dataclass(frozen=True, slots=True)
class ObjectProblem:
    """The object that breaks a rule, and how."""

    manifest: Manifest
    text: str


Check = Callable[[Objects], Iterable[ObjectProblem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`reason` says why the rule exists, `remedy` what to do. A rule of scope OBJECT judges each object alone.

    `form`: the first form of a lease's objects (lease.spec.FORM) that the rule judges. `fence`: the rule also guards
    the registration of objects. A rule that is no fence judges what is new to a lease and never what runs already: it
    is an operator's choice, and what ran before the choice goes on running and is repaired. `keeps` and `breaks` are
    objects of examples, which `lessor policy test` judges.
    """

    id: str
    severity: Severity
    level: Level
    reason: str
    remedy: str
    check: Check
    scope: RuleScope = RuleScope.OBJECT
    form: int = 1
    domains: Collection[Domain] = (Domain.LEASE,)
    fence: bool = True
    topic: str = ""
    keeps: Sequence[Manifest] = field(default=())
    breaks: Sequence[Manifest] = field(default=())


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule at one object, as an operator reads it. `exempted`: the reason of the exemption that makes a
    mandatory rule advisory for this owner.
    """

    rule: str
    severity: Severity
    level: Level
    object: str
    problem: str
    remedy: str
    exempted: str = ""

    @property
    def mandatory(self) -> bool:
        return self.level is Level.MANDATORY

    def __str__(self) -> str:
        return f"{self.object}: {self.problem} ({self.rule}, {self.severity}). {self.remedy}"


def fence(
    id_: str,
    check: Check,
    *,
    reason: str,
    remedy: str,
    scope: RuleScope = RuleScope.OBJECT,
    form: int = 1,
    domains: Collection[Domain] = (Domain.LEASE,),
    severity: Severity = Severity.CRITICAL,
) -> Rule:
    """A mandatory rule whose violation harms other tenants or the node."""
    return Rule(
        id=id_,
        severity=severity,
        level=Level.MANDATORY,
        reason=reason,
        remedy=remedy,
        check=check,
        scope=scope,
        form=form,
        domains=domains,
    )


def of_each(check: Callable[[Manifest], Iterable[str]], *kinds: str) -> Check:
    """A check of one object, which returns its problems, as a check of many. `kinds`: the only kinds that it judges."""

    def check_all(objects: Objects) -> Iterable[ObjectProblem]:
        chosen = objects.of_kinds(*kinds) if kinds else objects
        return (ObjectProblem(manifest, text) for manifest in chosen for text in check(manifest))

    return check_all


def describe(manifest: Manifest) -> str:
    """`Deployment namespace/name`, as far as the object has them."""
    metadata = manifest.get("metadata")
    where = metadata if isinstance(metadata, Mapping) else {}
    name = "/".join(str(where[key]) for key in ("namespace", "name") if where.get(key))
    return f"{manifest.get('kind') or 'object'} {name or '(no name)'}"
