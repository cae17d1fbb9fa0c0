"""The card of a manifest that was accepted without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from lease.spec import GpuPlacement
from provider.lifecycle.placement import placing
from provider.records.manifests import ManifestRecord
from tests.provider.lifecycle.world import a_group, a_lease

T4, A100 = GpuPlacement(vendor="nvidia", model="t4"), GpuPlacement(vendor="nvidia", model="a100")


def gpu_group() -> Any:
    group = a_group()
    service = group.services[0]
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

    def make(record: ManifestRecord, **_: Any) -> Any:
        seen.append(record.placements)

    record = ManifestRecord(a_lease(), gpu_group(), stored, "1")
    placing(make, lambda lease: chosen)(record, withheld=frozenset(), addresses={}, previous=None)
    assert seen == [made_with]


def test_nobody_is_asked_for_a_lease_without_gpus() -> None:
    def asked(lease: object) -> None:
        raise AssertionError(lease)

    seen: list[ManifestRecord] = []
    record = ManifestRecord(a_lease(), a_group(), {}, "1")
    placing(lambda item, **_: seen.append(item), asked)(  # type: ignore[arg-type, return-value]
        record, withheld=frozenset(), addresses={}, previous=None
    )
    assert seen == [record]
