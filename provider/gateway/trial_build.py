"""A manifest is built before it is answered: 200 means that its objects can be made (differences.md, taken-is-built).

That what the checks let pass can be built is a law with a test of its own; here it is held for the very manifest, this
provider's settings and the reserved cards. Building says nothing of what runs already: what an update may not change is
told in the lease's status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from components.errors import BuildError
from components.lease import lease_objects
from lease.build import sharing_keys
from lease.errors import SpecRefused
from lease.spec import GpuPlacement
from provider.lifecycle.parts import MakeLeaseSpec
from provider.records.manifests import ManifestRecord

__all__ = ["TrialBuild", "trial_build"]

TrialBuild: TypeAlias = Callable[[ManifestRecord], Awaitable[str]]
"""Why a manifest cannot be built, in words for its tenant; empty when it can."""

_ADDRESS = "192.0.2.1"
_CARD = GpuPlacement(vendor="nvidia", model="unknown")
"""Stand-ins (RFC 5737): address and card may be chosen after the answer, and a tenant is not refused for our delay."""
_AT_ONCE = 10
"""Services that are built without a thread, 0.25 ms each; a hundred take 25 ms, in which nobody else is answered."""


def trial_build(make: MakeLeaseSpec) -> TrialBuild:
    """`make` as the lease loop uses it, but noting nothing."""

    async def trial(record: ManifestRecord) -> str:
        services = record.group.services or ()
        return _problem(make, record) if len(services) <= _AT_ONCE else await asyncio.to_thread(_problem, make, record)

    return trial


def _problem(make: MakeLeaseSpec, record: ManifestRecord) -> str:
    addresses = dict.fromkeys(sharing_keys(record.lease.owner, record.group), _ADDRESS)
    whole = replace(record, resource_version="0", placements=_placements(record))
    try:
        lease_objects(make(whole, withheld=frozenset(), addresses=addresses, previous=None))
    except (SpecRefused, BuildError) as error:
        return str(error)
    return ""


def _placements(record: ManifestRecord) -> Mapping[int, GpuPlacement | None]:
    wanted = (service.resources for service in record.group.services or ())
    return {each.id: record.placements.get(each.id) or _CARD for each in wanted if each.gpu_units}
