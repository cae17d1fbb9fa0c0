"""The rules as a Pulumi policy pack: `pulumi preview --policy-pack policies`.

The only module of this package that imports Pulumi. `LESSOR_POLICY_FILE` names the operator's file, as for the
provider. Objects of the project `lessor` are the cluster stack's, all others a lease's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Severity as PulumiSeverity

from policies.book import read_book
from policies.rules import Domain, Manifest, Objects, Rule, RuleScope, describe

__all__ = ["manifest", "policies", "serve"]

_KUBERNETES = "kubernetes:"
_CLUSTER_PROJECT = "lessor"
_LEASE = "lessor:lease:Lease"
"""The type of `components.resources.lease.LeaseComponent`."""


def serve() -> None:
    """Run the pack for the engine that started this process, until the engine ends it."""
    path = os.environ.get("LESSOR_POLICY_FILE")
    PolicyPack("lessor", policies(read_book(Path(path) if path else None).rules))


def policies(rules: Iterable[Rule]) -> list[Policy]:
    """Each rule as one of Pulumi's policies, with the same name, level and severity."""
    return [_stack_policy(rule) if rule.scope is RuleScope.STACK else _resource_policy(rule) for rule in rules]


def manifest(type_token: str, properties: Mapping[str, Any]) -> Manifest | None:
    """The plain manifest of a Pulumi resource; None for a resource that is no Kubernetes object.

    The plugin's inputs are the manifest's own fields. `apiVersion` and `kind` come from the type where a program left
    them out: `kubernetes:core/v1:Pod` is kind Pod of `v1`.
    """
    if not type_token.startswith(_KUBERNETES):
        return None
    version, _, kind = type_token.removeprefix(_KUBERNETES).rpartition(":")
    return {"apiVersion": version.removeprefix("core/"), "kind": kind, **properties}


def _resource_policy(rule: Rule) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        _report(rule, [args], report)

    return ResourceValidationPolicy(validate=validate, **_common(rule))


def _stack_policy(rule: Rule) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        for together in _by_lease(args.resources):
            _report(rule, together, report)

    return StackValidationPolicy(validate=validate, **_common(rule))


class _Resource(Protocol):
    resource_type: str
    props: Mapping[str, Any]
    urn: str

    @property
    def parent(self) -> _Resource | None: ...


def _by_lease(resources: Iterable[_Resource]) -> Iterable[Sequence[_Resource]]:
    """The resources of each lease, and those of none: a lease keeps its rules alone, whatever else its stack has."""
    found: dict[str, list[_Resource]] = {"": []}
    for resource in resources:
        found.setdefault(_lease_of(resource), []).append(resource)
    return found.values()


def _lease_of(resource: _Resource) -> str:
    """The URN of the lease's component around a resource, empty for a resource of no lease."""
    above: _Resource | None = resource
    while above is not None and above.resource_type != _LEASE:
        above = above.parent
    return above.urn if above is not None else ""


def _report(rule: Rule, resources: Iterable[_Resource], report: ReportViolation) -> None:
    judged = (item for item in resources if _domain(item.urn) in rule.domains)
    manifests = [found for item in judged if (found := manifest(item.resource_type, item.props)) is not None]
    for problem in rule.check(Objects(manifests)):
        report(f"{describe(problem.manifest)}: {problem.text}. {rule.remedy}", None)


def _domain(urn: str) -> Domain:
    """The domain of `urn:pulumi:STACK::PROJECT::TYPE::NAME`."""
    return Domain.CLUSTER if urn.split("::")[1:2] == [_CLUSTER_PROJECT] else Domain.LEASE


def _common(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.id,
        "description": rule.reason,
        "enforcement_level": EnforcementLevel(rule.level.value),
        "severity": PulumiSeverity(rule.severity.value),
        "remediation_steps": rule.remedy,
    }
