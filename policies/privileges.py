"""Rules about a container's power over its node."""

from __future__ import annotations

from collections.abc import Iterator

from policies.pods import all_containers, at, named
from policies.rules import Level, Manifest, Rule, Severity, of_each

__all__ = ["RULES"]


def _privileged(manifest: Manifest) -> Iterator[str]:
    """Every value but an absent or false `privileged` counts as true, since a text or a number promises nothing."""
    for container in all_containers(manifest):
        if at(container, "securityContext").get("privileged") not in (None, False):
            yield f"{named(container)} is privileged"


RULES = (
    Rule(
        id="no-privileged-container",
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        reason="A privileged container controls its node and every other tenant's containers there.",
        remedy="Remove securityContext.privileged, or set it to false.",
        check=of_each(_privileged),
    ),
)
