"""Topic: what a container may do to its node."""

from __future__ import annotations

from collections.abc import Iterator

from policies.pods import all_containers, at, named
from policies.rules import Level, Manifest, Rule, Severity, of_each

__all__ = ["RULES"]


def _privileged(manifest: Manifest) -> Iterator[str]:
    """Anything but an absent or false `privileged` counts: a text or a number is no promise."""
    for container in all_containers(manifest):
        if at(container, "securityContext").get("privileged") not in (None, False):
            yield f"{named(container)} is privileged"


RULES = (
    Rule(
        id="no-privileged-container",
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        reason="A privileged container owns its node, and with it every other tenant there.",
        remedy="Remove securityContext.privileged, or set it to false.",
        check=of_each(_privileged),
    ),
)
