"""Checks: of a manifest, of group specs, of one against the other, and of a manifest against a provider's settings.

Each check returns nothing or raises with the text of the Go provider's answer.
"""

from __future__ import annotations

from lease.validation.acceptance import check_new_manifest
from lease.validation.cross import check_version, cross_validate
from lease.validation.groups import group_problems, validate_groups
from lease.validation.manifest import manifest_problems, validate_manifest
from lease.validation.provider import check_for_provider, group_hostnames

__all__ = [
    "check_for_provider",
    "check_new_manifest",
    "check_version",
    "cross_validate",
    "group_hostnames",
    "group_problems",
    "manifest_problems",
    "validate_groups",
    "validate_manifest",
]
