"""The trial build: a manifest is built before it is accepted, so that 200 means that its objects can be made
(differences.md, taken-is-built).

A test of its own checks that every manifest that passes the checks can be built; the trial build holds it for this very
manifest, this provider's settings and the reserved GPUs. It does not compare with what runs already: the lease's status
reports what an update may not change.
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
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.records.manifests import ManifestRecord

__all__ = ["TrialBuild", "trial_build"]

TrialBuild: TypeAlias = Callable[[ManifestRecord], Awaitable[str]]
"""The reason why a manifest cannot be built, as a text for its tenant; empty when it can."""

_ADDRESS = "192.0.2.1"
_CARD = GpuPlacement(vendor="nvidia", model="unknown")
"""Placeholders (RFC 5737): the address and the GPU may be chosen after the response."""
_MAX_INLINE = 10
"""Services that are built without a thread, 0.25 ms each; a hundred would block other requests for 25 ms."""


def trial_build(specs: SpecMaker) -> TrialBuild:
    """The check that a manifest can be built. `specs`: the lease loop's, without `cards` and `note`."""

    async def trial(record: ManifestRecord) -> str:
        services = record.group.services or ()
        if len(services) <= _MAX_INLINE:
            return _problem(specs, record)
        return await asyncio.to_thread(_problem, specs, record)

    return trial


def _problem(specs: SpecMaker, record: ManifestRecord) -> str:
    addresses = dict.fromkeys(sharing_keys(record.lease.owner, record.group), _ADDRESS)
    whole = replace(record, resource_version="0", placements=_placements(record))
    try:
        lease_objects(specs.make(SpecInputs(whole, addresses=addresses)))
    except (SpecRefused, BuildError) as error:
        return str(error)
    return ""


def _placements(record: ManifestRecord) -> Mapping[int, GpuPlacement | None]:
    resources = (service.resources for service in record.group.services or ())
    return {each.id: record.placements.get(each.id) or _CARD for each in resources if each.gpu_units}
