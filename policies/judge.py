"""All rules, and judging objects by them."""

from __future__ import annotations

from collections.abc import Iterable

from policies import limits, privileges
from policies.rules import Finding, Manifest, Rule, describe

__all__ = ["RULES", "judge"]

RULES: tuple[Rule, ...] = (*privileges.RULES, *limits.RULES)
"""Every topic's rules; a new topic is a module and its name here."""


def judge(manifests: Iterable[Manifest], rules: Iterable[Rule] = RULES) -> tuple[Finding, ...]:
    """What is wrong with `manifests`, in the order of rules and objects. Refuse them if any finding is `mandatory`."""
    listed = tuple(manifests)
    return tuple(
        Finding(
            rule=rule.id,
            severity=rule.severity,
            level=rule.level,
            object=describe(problem.manifest),
            problem=problem.text,
            remedy=rule.remedy,
        )
        for rule in rules
        for problem in rule.check(listed)
    )
