"""Rules about the resources that a container may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from policies.pods import LONG_RUNNING, all_containers, at, named
from policies.rules import Level, Manifest, Rule, Severity, of_each

__all__ = ["RULES"]

_QUANTITY = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?")


def _without(*resources: str) -> Callable[[Manifest], Iterator[str]]:
    """A check that names each container without a limit of one of `resources`."""

    def check(manifest: Manifest) -> Iterator[str]:
        for container in all_containers(manifest, LONG_RUNNING):
            limits = at(container, "resources", "limits")
            missing = [name for name in resources if not _positive(limits.get(name))]
            if missing:
                yield f"{named(container)} has no limit of {' and '.join(missing)}"

    return check


def _positive(value: object) -> bool:
    """Whether this is a quantity above zero; runtimes read a limit of zero as no limit."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    found = _QUANTITY.fullmatch(str(value))
    return found is not None and float(found[1]) > 0


RULES = (
    Rule(
        id="cpu-and-memory-limits",
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        reason="A container without limits can use resources that other tenants pay for.",
        remedy="Set resources.limits.cpu and resources.limits.memory to the rented amounts.",
        check=of_each(_without("cpu", "memory")),
    ),
    Rule(
        id="ephemeral-storage-limit",
        severity=Severity.HIGH,
        level=Level.MANDATORY,
        reason="A container without this limit can fill its node's disk.",
        remedy="Set resources.limits.ephemeral-storage.",
        form=2,
        check=of_each(_without("ephemeral-storage")),
    ),
)
