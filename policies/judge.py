"""The list of all rules, and their application to objects."""

from __future__ import annotations

from collections.abc import Iterable

from lease.spec import FORM
from policies import escapes, limits, privileges, reach
from policies.rules import Manifest, Rule, Violation, describe

__all__ = ["RULES", "judge"]

RULES: tuple[Rule, ...] = (*privileges.RULES, *escapes.RULES, *reach.RULES, *limits.RULES)
"""The rules of every topic; a new topic needs a module and an entry here."""


def judge(manifests: Iterable[Manifest], rules: Iterable[Rule] = RULES, *, form: int = FORM) -> tuple[Violation, ...]:
    """The violations in `manifests`, in the order of rules and objects. The caller refuses the objects if one is
    `mandatory`. `form`: of a lease's objects; rules of a later form do not judge them.
    """
    listed = tuple(manifests)
    return tuple(
        Violation(
            rule=rule.id,
            severity=rule.severity,
            level=rule.level,
            object=describe(problem.manifest),
            problem=problem.text,
            remedy=rule.remedy,
        )
        for rule in rules
        if rule.form <= form
        for problem in rule.check(listed)
    )
