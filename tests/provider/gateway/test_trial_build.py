"""A manifest is built before the answer 200: nothing is stored that has no Kubernetes form."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from components.errors import BuildError
from lease.errors import SpecRefused
from lease.manifest_decode import manifest_from_json
from lease.spec import GpuPlacement, LeaseSpec
from policies.book import read_book
from provider.gateway.trial_build import trial_build
from provider.lifecycle.spec_maker import SpecInputs
from provider.records.manifests import ManifestRecord
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import DSEQ, TENANT, body, lease, rent, service
from tests.provider.gateway.world import SPECS, new_world
from tests.world.patience import PATIENCE_S
from tests.world.specs import scripted_maker


def a_record(*services: dict[str, Any], **changes: Any) -> ManifestRecord:
    made = list(services) or [service(**changes)]
    data = json.dumps([{"name": "dc", "services": made}]).encode()
    return ManifestRecord(lease(), manifest_from_json(data)[0], {})


def with_a_gpu() -> ManifestRecord:
    attributes = [{"key": "vendor/nvidia/model/*", "value": "true"}]
    return a_record(resources=service()["resources"] | {"gpu": {"units": {"val": "1"}, "attributes": attributes}})


def with_an_address() -> ManifestRecord:
    expose = {
        "port": 80,
        "externalPort": 80,
        "proto": "TCP",
        "service": "",
        "global": True,
        "hosts": None,
        "ip": "front",
    }
    return a_record(expose=[expose])


@pytest.mark.parametrize("make", [a_record, with_a_gpu, with_an_address])
async def test_a_manifest_that_can_be_built_is_accepted_before_gpu_and_address_are_chosen(make: Any) -> None:
    assert await trial_build(SPECS)(make()) == ""


async def test_the_trial_build_uses_the_reserved_gpu() -> None:
    seen: list[ManifestRecord] = []

    def build(inputs: SpecInputs) -> LeaseSpec:
        seen.append(inputs.record)
        return SPECS.build(inputs)

    record, card = with_a_gpu(), GpuPlacement(vendor="nvidia", model="a100")
    await trial_build(scripted_maker(build))(ManifestRecord(record.lease, record.group, {1: card}))
    assert seen[0].placements == {1: card}


def _refused(inputs: SpecInputs) -> LeaseSpec:
    raise SpecRefused('service "web" cannot be')


def _not_built(inputs: SpecInputs) -> LeaseSpec:
    raise BuildError("image", "\x00", "something printable")


@pytest.mark.parametrize(("make", "words"), [(_refused, 'service "web" cannot be'), (_not_built, "image")])
async def test_a_manifest_that_cannot_be_built_is_422_with_the_builders_text_and_nothing_is_stored(
    tmp_path: Path, make: Any, words: str
) -> None:
    world = new_world(tmp_path)
    world.build = trial_build(scripted_maker(make))
    world.clock.set(NOW)
    async with world.running():
        rent(world, body(), lease())
        answer = await world.put_manifest(DSEQ, body(), TENANT.token())
    assert answer.status == 422 and answer.text.startswith("manifest rejected: ") and words in answer.text
    assert world.cluster.applied == [] and world.bus.published == []


@pytest.mark.parametrize(("count", "beside"), [(10, False), (11, True)])
async def test_many_services_are_built_outside_the_event_loop(count: int, beside: bool) -> None:
    threads: list[int] = []

    def build(inputs: SpecInputs) -> LeaseSpec:
        threads.append(threading.get_ident())
        return SPECS.build(inputs)

    record = a_record(*(service(f"web{number:02}") for number in range(count)))
    async with asyncio.timeout(PATIENCE_S):
        assert await trial_build(scripted_maker(build))(record) == ""
    assert (threads[0] != threading.get_ident()) is beside


async def test_a_manifest_with_a_denied_image_is_not_built() -> None:
    build = trial_build(SPECS, policies=read_book(None, images_denied=("*miner*",)))
    assert await build(a_record(image="nginx")) == ""
    refused = await build(a_record(image="docker.io/a/miner:1"))
    assert "image that this provider does not run: docker.io/a/miner:1 (denied-image" in refused
