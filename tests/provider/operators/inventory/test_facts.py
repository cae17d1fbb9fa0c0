"""What a pod takes from its node, counted exactly (operators.md §2.6, §9 item 3)."""

from __future__ import annotations

from typing import Any

import pytest

from provider.operators.inventory.facts import node_facts, pod_facts
from tests.provider.operators.inventory.world import node, pod

MI = 1 << 20


def with_spec(**spec: Any) -> dict[str, Any]:
    found = pod("web", cpu="1", memory="100Mi")
    return {**found, "spec": {**found["spec"], **spec}}


def requesting(**requests: str) -> dict[str, Any]:
    return {"name": "x", "resources": {"requests": requests}}


@pytest.mark.parametrize(
    ("spec", "cpu_milli"),
    [
        ({}, 1000),
        ({"initContainers": [requesting(cpu="3")]}, 3000),
        ({"initContainers": [{**requesting(cpu="3"), "restartPolicy": "Always"}]}, 4000),
        ({"overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
        ({"containers": [requesting(cpu="100m"), requesting(cpu="1")]}, 1100),
    ],
)
def test_requests_are_the_scheduler_s_sum(spec: dict[str, Any], cpu_milli: int) -> None:
    found = pod_facts(with_spec(**spec))
    assert found is not None
    assert found.requests.cpu_milli == cpu_milli


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_nothing(phase: str) -> None:
    assert pod_facts(pod("web", cpu="1", phase=phase)) is None


def test_a_pod_without_a_node_takes_nothing() -> None:
    assert pod_facts(pod("web", cpu="1", on="")) is None


def ram(*sizes: str) -> list[dict[str, Any]]:
    return [{"name": f"v{size}", "emptyDir": {"medium": "Memory", "sizeLimit": size}} for size in sizes]


@pytest.mark.parametrize(
    ("containers", "volumes", "memory_mi"),
    [
        ([requesting(memory="100Mi")], ram("50Mi"), 150),
        ([requesting(memory="100Mi"), requesting(memory="10Mi")], ram("50Mi", "20Mi"), 180),
        ([requesting(memory="100Mi")], [{"name": "disk", "emptyDir": {"sizeLimit": "50Mi"}}], 100),
        (
            [{"name": "c", "resources": {"limits": {"memory": "150Mi"}, "requests": {"memory": "100Mi"}}}],
            ram("50Mi"),
            150,
        ),
        ([{"name": "c", "resources": {"limits": {"memory": "150Mi"}}}], ram("50Mi"), 150),
        ([requesting(memory="100Mi")], ram("0"), 100),
    ],
)
def test_in_memory_volumes_count_once_a_pod_as_far_as_requests_do_not_cover_them(
    containers: list[dict[str, Any]], volumes: list[dict[str, Any]], memory_mi: int
) -> None:
    found = pod_facts(with_spec(containers=containers, volumes=volumes))
    assert found is not None
    assert found.requests.memory_bytes == memory_mi * MI


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}, (("amd", 1), ("nvidia", 2))),
        ({"gpu.intel.com/i915": "1", "gpu.intel.com/xe": "2"}, (("intel", 3),)),
        ({"nvidia.com/gpu": "many"}, (("nvidia", 0),)),
        ({}, ()),
    ],
)
def test_cards_of_several_plugins_add_up(resources: dict[str, str], gpus: tuple[tuple[str, int], ...]) -> None:
    assert node_facts(node(resources=resources)).allocatable.gpus == gpus
