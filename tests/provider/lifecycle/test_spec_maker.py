"""The card of a manifest that was accepted without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lease.build import SpecSettings
from lease.spec import ClusterFacts, GpuPlacement
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.records.manifests import ManifestRecord
from tests.provider.lifecycle.world import a_group, a_lease
from tests.world.specs import scripted_maker

T4, A100 = GpuPlacement(vendor="nvidia", model="t4"), GpuPlacement(vendor="nvidia", model="a100")


def gpu_group() -> Any:
    group = a_group()
    (service,) = group.services or ()
    return replace(group, services=(replace(service, resources=replace(service.resources, gpu_units=1)),))


@pytest.mark.parametrize(
    ("stored", "chosen", "made_with"),
    [
        ({}, {1: A100}, {1: A100}),
        ({1: None}, {1: A100}, {1: A100}),
        ({1: T4}, {1: A100}, {1: T4}),
        ({}, None, {}),
    ],
)
def test_what_is_stored_holds_and_what_it_lacks_is_asked_for(
    stored: Mapping[int, GpuPlacement | None],
    chosen: Mapping[int, GpuPlacement | None] | None,
    made_with: Mapping[int, GpuPlacement | None],
) -> None:
    seen: list[Mapping[int, GpuPlacement | None]] = []

    def build(inputs: SpecInputs) -> Any:
        seen.append(inputs.record.placements)

    record = ManifestRecord(a_lease(), gpu_group(), stored, "1")
    replace(scripted_maker(build), cards=lambda lease: chosen).make(SpecInputs(record))
    assert seen == [made_with]


def test_nobody_is_asked_for_a_lease_without_gpus() -> None:
    def asked(lease: object) -> None:
        raise AssertionError(lease)

    seen: list[ManifestRecord] = []
    record = ManifestRecord(a_lease(), a_group(), {}, "1")
    build: Any = lambda inputs: seen.append(inputs.record)  # noqa: E731
    replace(scripted_maker(build), cards=asked).make(SpecInputs(record))
    assert seen == [record]


def test_a_spec_is_made_anew_when_anything_that_it_is_made_from_is_new() -> None:
    maker, record = SpecMaker(ClusterFacts()), ManifestRecord(a_lease(), a_group(), {}, "1")
    made = maker.make(SpecInputs(record))
    assert maker.make(SpecInputs(replace(record))) is made
    maker.facts = ClusterFacts(ingress_class="other")
    assert maker.make(SpecInputs(record)).cluster.ingress_class == "other"
    maker.rules = SpecSettings(runtime_class="gvisor")
    assert maker.make(SpecInputs(record)).services[0].runtime_class == "gvisor"
    other = ManifestRecord(a_lease(), a_group(image="other:2"), {}, "2")
    assert maker.make(SpecInputs(other)).services[0].image == "other:2"
    assert maker.make(SpecInputs(record, form=1)).form == 1
    assert maker.make(SpecInputs(record, previous=made, form=1)) is not made
