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
from lease.errors import ManifestRefused, SpecRefused
from lease.manifest import Group
from lease.spec import GpuPlacement
from lease.validation import check_new_manifest
from policies.book import RuleBook
from policies.facts import facts_of
from provider.gateway.budget import budget_problem, group_problem
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.records.manifests import ManifestRecord

__all__ = ["TrialBuild", "trial_build"]

TrialBuild: TypeAlias = Callable[[ManifestRecord], Awaitable[str]]
"""The reason why a manifest cannot be built, as a text for its tenant; empty when it can."""

_ADDRESS = "192.0.2.1"
_CARD = GpuPlacement(vendor="nvidia", model="unknown")
"""Placeholders (RFC 5737): the address and the GPU may be chosen after the response."""
_OF_CHOSEN_ADDRESSES = ("address-in-range",)
"""Rules that judge the address: the lease loop asks them again with the address that it chose."""
_MAX_INLINE = 10
"""Services that are built without a thread, 0.25 ms each; a hundred would block other requests for 25 ms."""
_MAX_INLINE_TEXTS = 200
"""Exposes, variables and arguments, for the same reason."""
_MAX_INLINE_TEXT = 64 * 1024


def trial_build(specs: SpecMaker, *, policies: RuleBook = RuleBook()) -> TrialBuild:  # noqa: B008 (frozen)
    """The check that a manifest can be built and that its objects break no mandatory rule. `specs`: the lease loop's,
    without `cards` and `note`.
    """
    rules = policies.without(*_OF_CHOSEN_ADDRESSES)

    async def trial(record: ManifestRecord) -> str:
        if problem := group_problem(record.group):
            return problem
        if _is_small(record.group):
            return _problem(specs, record, rules)
        return await asyncio.to_thread(_problem, specs, record, rules)

    return trial


def _is_small(group: Group) -> bool:
    services = group.services or ()
    texts = [
        text for service in services for text in (*(service.env or ()), *(service.args or ()), *(service.command or ()))
    ]
    exposes = sum(len(service.expose or ()) for service in services)
    many = len(services) > _MAX_INLINE or len(texts) + exposes > _MAX_INLINE_TEXTS
    return not many and sum(map(len, texts)) <= _MAX_INLINE_TEXT


def _problem(specs: SpecMaker, record: ManifestRecord, rules: RuleBook) -> str:
    addresses = dict.fromkeys(sharing_keys(record.lease.owner, record.group), _ADDRESS)
    whole = replace(record, resource_version="0", placements=_placements(record))
    try:
        check_new_manifest(record.group, owner=record.lease.owner)
        spec = specs.make(SpecInputs(whole, addresses=addresses))
        objects = lease_objects(spec)
        found = rules.judge(objects, form=spec.form, lease=facts_of(spec))
        refused = "; ".join(str(each) for each in found if each.mandatory)
        return refused or budget_problem(record, spec, objects)
    except ManifestRefused as error:
        return error.problem
    except (SpecRefused, BuildError) as error:
        return str(error)


def _placements(record: ManifestRecord) -> Mapping[int, GpuPlacement | None]:
    resources = (service.resources for service in record.group.services or ())
    return {each.id: record.placements.get(each.id) or _CARD for each in resources if each.gpu_units}
