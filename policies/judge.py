"""The list of all rules, and their application to objects: the one function behind every use of the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lease.spec import FORM
from policies import (
    accounts,
    addresses,
    cluster,
    gpu,
    hostnames,
    images,
    isolation,
    kinds,
    labels,
    network,
    resources,
    storage,
)
from policies import annotations as annotation_rules
from policies.facts import LeaseFacts
from policies.rules import Domain, Manifest, Objects, Rule, Violation, describe

__all__ = ["RULES", "judge"]

_TOPICS = {
    "isolation": isolation.RULES,
    "rights": accounts.RULES,
    "kinds": kinds.RULES,
    "resources": resources.RULES,
    "network": network.RULES,
    "addresses": addresses.RULES,
    "hostnames": hostnames.RULES,
    "annotations": annotation_rules.RULES,
    "images": images.RULES,
    "gpu": gpu.RULES,
    "labels": labels.RULES,
    "storage": storage.RULES,
    "cluster": cluster.RULES,
}

RULES: tuple[Rule, ...] = tuple(replace(rule, topic=topic) for topic, rules in _TOPICS.items() for rule in rules)
"""The rules of every topic; a new topic needs a module and an entry in `_TOPICS`."""


def judge(
    manifests: Iterable[Manifest],
    rules: Iterable[Rule] = RULES,
    *,
    form: int = FORM,
    lease: LeaseFacts | None = None,
    domain: Domain = Domain.LEASE,
) -> tuple[Violation, ...]:
    """The violations in `manifests`, in the order of rules and objects. The caller refuses the objects if one is
    `mandatory`. `form`: of a lease's objects; rules of a later form do not judge them. `lease`: the facts of the lease,
    without which rules that compare with them judge nothing.
    """
    objects = Objects(manifests, lease)
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
        if rule.form <= form and domain in rule.domains
        for problem in rule.check(objects)
    )
