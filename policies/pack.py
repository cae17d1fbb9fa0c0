"""The rules as a Pulumi policy pack: `pulumi preview --policy-pack policies`.

The only module of this package that imports Pulumi.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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

from policies.judge import RULES
from policies.rules import Manifest, Rule, RuleScope, describe

__all__ = ["manifest", "policies", "serve"]

_KUBERNETES = "kubernetes:"


def serve() -> None:
    """Run the pack for the engine that started this process, until the engine ends it."""
    PolicyPack("lessor", policies(RULES))


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
        _report(rule, [(args.resource_type, args.props)], report)

    return ResourceValidationPolicy(validate=validate, **_common(rule))


def _stack_policy(rule: Rule) -> Policy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        _report(rule, [(item.resource_type, item.props) for item in args.resources], report)

    return StackValidationPolicy(validate=validate, **_common(rule))


def _report(rule: Rule, resources: Iterable[tuple[str, Mapping[str, Any]]], report: ReportViolation) -> None:
    manifests = [found for item in resources if (found := manifest(*item)) is not None]
    for problem in rule.check(manifests):
        report(f"{describe(problem.manifest)}: {problem.text}. {rule.remedy}", None)


def _common(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.id,
        "description": rule.reason,
        "enforcement_level": EnforcementLevel(rule.level.value),
        "severity": PulumiSeverity(rule.severity.value),
        "remediation_steps": rule.remedy,
    }
