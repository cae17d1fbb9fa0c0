"""Kubernetes objects as the inventory counts them (kubernetes-objects.md §1.3, §2.5)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.inventory import reading
from provider.inventory.capacity import Capacity, Card
from provider.inventory.snapshot import VolumeClaim

GPU = "akash.network/capabilities.gpu.vendor.nvidia.model.a100"
NODE: dict[str, Any] = {
    "metadata": {
        "name": "n1",
        "labels": {"akash.network": "true", "akash.network/capabilities.storage.class.beta2": "1"},
    },
    "spec": {},
    "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {
            "cpu": "3920m",
            "memory": "8Gi",
            "ephemeral-storage": "100G",
            "pods": "20",
            "nvidia.com/gpu": "2",
        },
    },
}


def changed(base: dict[str, Any], *path: str, value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(base)
    inner = obj
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
    inner[path[-1]] = value
    return obj


def test_a_node_gives_its_allocatable_and_its_storage_classes() -> None:
    found = reading.node(NODE)
    assert found is not None
    assert found.capacity == Capacity(3920, 8 * 2**30, 100 * 10**9, 20)
    assert found.storage_classes == ("beta2",)
    assert found.cards == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "labels"), {}),
        (("metadata", "labels"), {"akash.network": "false"}),
        (("spec", "unschedulable"), True),
        (("spec", "taints"), [{"key": "x", "effect": "NoSchedule"}]),
        (("spec", "taints"), [{"key": "x", "effect": "NoExecute"}]),
        (("status", "conditions"), [{"type": "Ready", "status": "Unknown"}]),
        (("status", "conditions"), []),
    ],
)
def test_a_node_that_takes_no_tenants_pod_has_no_room(path: tuple[str, ...], value: Any) -> None:
    assert reading.node(changed(NODE, *path, value=value)) is None


def test_a_soft_taint_keeps_the_node() -> None:
    assert reading.node(changed(NODE, "spec", "taints", value=[{"effect": "PreferNoSchedule"}])) is not None


def test_labels_count_single_cards_with_their_memory_and_interface() -> None:
    labels = {"akash.network": "true", GPU: "2", f"{GPU}.ram.80Gi": "2", f"{GPU}.interface.sxm": "2"}
    found = reading.node(changed(NODE, "metadata", "labels", value=labels))
    assert found is not None
    assert found.cards == (Card("nvidia", "a100", "80Gi", "sxm"),) * 2


def test_a_card_that_the_device_plugin_does_not_offer_is_not_there() -> None:
    labels = {"akash.network": "true", GPU: "4"}
    found = reading.node(changed(NODE, "metadata", "labels", value=labels))
    assert found is not None
    assert len(found.cards) == 2


@pytest.mark.parametrize("value", ["", "-1", "x", "1e9", "٣"])
def test_a_label_that_is_no_count_is_no_card(value: str) -> None:
    found = reading.node(changed(NODE, "metadata", "labels", value={"akash.network": "true", GPU: value}))
    assert found is not None
    assert found.cards == ()


def container(cpu: str, **more: str) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, **more}}}


POD: dict[str, Any] = {
    "metadata": {"name": "web-0", "namespace": "ns"},
    "spec": {"nodeName": "n1", "containers": [container("1", memory="1Gi"), container("500m")]},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({}, 1500),
        ({"initContainers": [container("2")]}, 2000),
        ({"initContainers": [container("1")]}, 1500),
        ({"initContainers": [{**container("1"), "restartPolicy": "Always"}]}, 2500),
        ({"overhead": {"cpu": "250m"}}, 1750),
        ({"containers": [{"resources": {"limits": {"cpu": "3"}}}]}, 3000),
        ({"containers": [container("0.0001")]}, 1),
        ({"containers": [{}]}, 0),
        ({"resources": {"requests": {"cpu": "4"}}}, 4000),
        ({"resources": {"limits": {"cpu": "4"}}}, 4000),
        ({"resources": {"requests": {"cpu": "1"}}}, 1500),
        ({"resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}}, 4250),
        ({"resources": {"requests": {"memory": "9Gi"}}}, 1500),
    ],
)
def test_a_pod_takes_what_the_scheduler_counts(spec: dict[str, Any], cpu: int) -> None:
    found = reading.scheduled_pod(changed(POD, "spec", value={**POD["spec"], **spec}))
    assert found is not None
    assert found.requests.cpu_milli == cpu
    assert found.requests.pods == 1


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 1500),
        ({"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "3"}}}, 3500),
        ({"allocatedResources": {"cpu": "2"}}, 2500),
        ({"allocatedResources": {"cpu": "500m"}, "resources": {"requests": {"cpu": "500m"}}}, 1500),
        ({"allocatedResources": {"memory": "8Gi"}}, 1500),
    ],
)
def test_while_a_resize_is_not_done_the_larger_amount_is_used(status: dict[str, Any], cpu: int) -> None:
    """To less, the node has not given back the old amount; to more, it has promised the new one."""
    pod = copy.deepcopy(POD)
    pod["spec"]["containers"][0]["name"] = "web"
    pod["status"]["containerStatuses"] = [{"name": "web", **status}]
    found = reading.scheduled_pod(pod)
    assert found is not None and found.requests.cpu_milli == cpu


def test_a_resize_that_the_node_refuses_is_not_counted_and_one_of_the_whole_pod_is() -> None:
    pod = copy.deepcopy(POD)
    pod["spec"]["containers"][0] |= {"name": "web", "resources": {"requests": {"cpu": "64"}}}
    pod["status"]["containerStatuses"] = [{"name": "web", "allocatedResources": {"cpu": "1"}}]
    pod["status"]["conditions"] = [INFEASIBLE]
    found = reading.scheduled_pod(pod)
    assert found is not None and found.requests.cpu_milli == 1500
    pod["status"] |= {"conditions": [], "resources": {"requests": {"cpu": "80"}}}
    found = reading.scheduled_pod(pod)
    assert found is not None and found.requests.cpu_milli == 80_000


@pytest.mark.parametrize(
    ("path", "value"),
    [(("status", "phase"), "Succeeded"), (("status", "phase"), "Failed"), (("spec", "nodeName"), "")],
)
def test_a_pod_that_ended_or_has_no_node_takes_nothing(path: tuple[str, ...], value: str) -> None:
    assert reading.scheduled_pod(changed(POD, *path, value=value)) is None


def test_a_terminating_pod_still_takes_its_room() -> None:
    assert (
        reading.scheduled_pod(changed(POD, "metadata", "deletionTimestamp", value="2026-01-01T00:00:00Z")) is not None
    )


def test_a_pods_card_is_known_by_its_affinity() -> None:
    terms = [
        {"matchExpressions": [{"key": "akash.network", "operator": "In"}, {"key": f"{GPU}.ram.80Gi", "operator": "Gt"}]}
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    spec = {**POD["spec"], "containers": [container("1", **{"nvidia.com/gpu": "2"})], "affinity": affinity}
    found = reading.scheduled_pod(changed(POD, "spec", value=spec))
    assert found is not None
    assert (found.gpu_vendor, found.gpu_model, found.gpu_units) == ("nvidia", "a100", 2)


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"storageClassName": "beta2", "resources": {"requests": {"storage": "1Gi"}}}, {}, ("beta2", 2**30)),
        ({"resources": {"requests": {"storage": "1Gi"}}}, {"capacity": {"storage": "2Gi"}}, ("default", 2**31)),
    ],
)
def test_a_claim_takes_the_larger_of_asked_and_got(spec: dict[str, Any], status: dict[str, Any], expected) -> None:
    found = reading.volume_claim({"metadata": {"name": "c", "namespace": "ns"}, "spec": spec, "status": status})
    assert found == VolumeClaim("ns", "c", *expected)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu"]),
    st.text(max_size=12) | st.integers(),
)
def test_an_amount_that_cannot_be_read_is_no_room(name: str, amount: object) -> None:
    found = reading.node(changed(NODE, "status", "allocatable", value={name: amount}))
    assert found is not None
    assert found.capacity.cpu_milli >= 0
    assert found.capacity.memory_bytes >= 0


@pytest.mark.parametrize(
    ("labels", "phase", "counted"),
    [
        ({"akash.network/quarantine.until": "20261128T064431Z"}, "Released", True),
        ({"akash.network/quarantine.until": "20261128T064431Z"}, "Available", True),
        ({"akash.network/quarantine.until": "20261128T064431Z"}, "Failed", True),
        ({"akash.network/quarantine.until": "20261128T064431Z"}, "Bound", False),
        ({"akash.network/quarantine.until": "no date"}, "Released", True),
        ({"akash.network": "true"}, "Released", False),
        ({}, "Available", False),
    ],
)
def test_a_volume_in_quarantine_takes_its_room_until_it_is_gone(
    labels: dict[str, str], phase: str, counted: bool
) -> None:
    volume = {
        "metadata": {"name": "pv-1", "labels": labels},
        "spec": {
            "capacity": {"storage": "3Gi"},
            "storageClassName": "beta2",
            "claimRef": {"namespace": "gone", "name": "web-data-web-0", "uid": "1"},
        },
        "status": {"phase": phase},
    }
    expected = VolumeClaim("gone", "web-data-web-0", "beta2", 3 * 2**30)
    assert reading.kept_volume(volume) == (expected if counted else None)


@pytest.mark.parametrize(("cpu", "milli"), [("0", 0), ("1m", 1), ("500u", 1), ("1500u", 2), ("0.0005", 1), ("1", 1000)])
def test_vector_9_a_fraction_of_what_is_asked_is_rounded_up(cpu: str, milli: int) -> None:
    """Ceilings of 0, 1, 1/2 and 3/2: a pod never takes less than it asks for (bidding.md §8, 9)."""
    spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    found = reading.scheduled_pod({"metadata": {"name": "p", "namespace": "x"}, "spec": spec, "status": {}})
    assert found is not None
    assert found.requests.cpu_milli == milli


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", '[{"vendor": "nvidia"}]', '{"a": 1}', "null", "7"])
def test_an_annotation_of_another_form_leaves_what_the_labels_say(text: str) -> None:
    key = "akash.network/capabilities.gpu.vendor.nvidia.model.t4"
    labels = {"akash.network": "true", key: "1", f"{key}.ram.16Gi": "1"}
    found = reading.node(
        {
            "metadata": {"name": "n", "labels": labels, "annotations": {reading.CARDS: text}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": "1"}},
        }
    )
    assert found is not None
    assert found.cards == (Card("nvidia", "t4", "16Gi", ""),)
