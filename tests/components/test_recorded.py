"""Our objects against the Go provider's, field by field; every difference is a row of docs/differences.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.isolation import MORE_CLOSED_RANGES
from components.lease import lease_objects
from lease.spec import FIRST_FORM, FORM
from tests.components.recorded import ELSEWHERE, Difference, differences, load, names, writes
from tests.components.recorded_specs import recorded_spec, recorded_update

DOCUMENT = Path(__file__).parents[2] / "docs" / "differences.md"
POD = r"\.spec\.template\.spec"
CONTAINER = rf"{POD}\.containers\[name=[^]]+\]"
AFFINITY = rf"{POD}\.affinity\..*\.matchExpressions"
VERSION = "akash.network/manifest.resource.version"
WORKLOADS = ("Deployment", "StatefulSet")

Row = tuple[tuple[str, ...], str, Callable[[Any, Any], bool]]


def added(*values: object) -> Callable[[Any, Any], bool]:
    """Only we have the field, and it is one of `values` (of anything, if none are named)."""
    return lambda theirs, ours: theirs is None and (not values or ours in values)


def dropped(theirs: Any, ours: Any) -> bool:
    return theirs is not None and ours is None


def changed(theirs: Any, ours: Any) -> bool:
    return theirs is not None and ours is not None


def bare(text: str) -> bool:
    """Whether it has a character that an apply, which is read as YAML, would refuse or fold."""
    return re.search("[\x7f-\x9f\ufffe\uffff]", text) is not None


ROWS: dict[str, tuple[Row, ...]] = {
    "closed-ranges": (
        (
            ("NetworkPolicy",),
            r"\.spec\.egress\[2\]\.to\[0\]\.ipBlock\.except\[[34]\]",
            added("169.254.0.0/16", "100.64.0.0/10"),
        ),
    ),
    "tcp-and-udp": (
        (("Service",), r"\.spec\.ports\[name=[^]]+\]", lambda theirs, ours: not theirs and ours["protocol"] == "UDP"),
    ),
    "container-ports-once": ((WORKLOADS, rf"{CONTAINER}\.ports\[containerPort=\d+#\d+\]", dropped),),
    "ephemeral-sum": (
        (
            WORKLOADS,
            rf"{CONTAINER}\.resources\.(limits|requests)\.ephemeral-storage",
            lambda theirs, ours: changed(theirs, ours) and int(ours) > int(theirs),
        ),
    ),
    "env-in-secret": (
        (
            WORKLOADS,
            rf"{CONTAINER}\.env\[name=[^]]+\]\.value",
            lambda theirs, ours: dropped(theirs, ours) and bare(theirs),
        ),
        (WORKLOADS, rf"{CONTAINER}\.env\[name=[^]]+\]\.valueFrom", added()),
        (("Secret",), "", lambda theirs, ours: not theirs and ours["metadata"]["name"].startswith("env-")),
    ),
    "gpu-affinity": ((WORKLOADS, rf"{AFFINITY}\[key=[^]]+\.(ram\.\d+Gi|interface\.(pcie|sxm))\]", added()),),
    "runtime-class": ((WORKLOADS, rf"{POD}\.runtimeClassName", added("gvisor")),),
    "overcommit-fraction": (
        (
            WORKLOADS,
            rf"{CONTAINER}\.resources\.requests\.memory",
            lambda theirs, ours: changed(theirs, ours) and int(ours) == (4 * int(theirs) + 3) // 6,
        ),
    ),
    "status-not-sent": (((*WORKLOADS, "HTTPRoute"), r"\.status", dropped),),
    "stateful-max-unavailable": (
        (("StatefulSet",), r"\.spec\.updateStrategy\.rollingUpdate\.maxUnavailable", dropped),
    ),
    "address-pool": ((("IPAddressPool", "L2Advertisement"), "", added()),),
    "address-pool-annotation": (
        (("Service",), r"\.metadata\.annotations\.metallb\.io/address-pool", added()),
        (("Service",), r"\.metadata\.annotations\.metallb\.universe\.tf/address-pool", dropped),
    ),
}
"""Rows that plain recordings show: kinds, path and values, each as narrow as the row's own words."""

FENCES: dict[str, tuple[Row, ...]] = {
    "seccomp": ((WORKLOADS, rf"{POD}\.securityContext\.seccompProfile", added({"type": "RuntimeDefault"})),),
    "capabilities": (
        (WORKLOADS, rf"{CONTAINER}\.securityContext\.capabilities", added({"drop": ["MKNOD", "NET_RAW"]})),
    ),
    "ping": (
        (
            WORKLOADS,
            rf"{POD}\.securityContext\.sysctls",
            added([{"name": "net.ipv4.ping_group_range", "value": "0 65535"}]),
        ),
    ),
    "gpu-variables": (
        (
            WORKLOADS,
            rf"{CONTAINER}\.env\[name=NVIDIA_VISIBLE_DEVICES\]",
            added({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}),
        ),
        (
            WORKLOADS,
            rf"{CONTAINER}\.env\[name=LD_(AUDIT|PRELOAD)\]",
            added({"name": "LD_AUDIT"}, {"name": "LD_PRELOAD"}),
        ),
    ),
    "ephemeral-default": (
        (
            WORKLOADS,
            rf"{CONTAINER}\.resources\.(limits|requests)\.ephemeral-storage",
            added("536870912", "357913941", "178956971"),
        ),
    ),
    "ram-requested": (
        (
            WORKLOADS,
            rf"{CONTAINER}\.resources\.requests\.memory",
            lambda theirs, ours: changed(theirs, ours) and int(ours) > int(theirs),
        ),
    ),
    "admission": (
        (("Namespace",), r"\.metadata\.labels\.pod-security\.kubernetes\.io/enforce", added("baseline")),
        (("Namespace",), r"\.metadata\.labels\.akash\.network/objects-form", added("2")),
    ),
    "quota": ((("ResourceQuota", "LimitRange"), "", added()),),
    "balancer-node-ports": (
        (("Service",), r"\.spec\.allocateLoadBalancerNodePorts", lambda theirs, ours: ours is False),
    ),
    "replica-sets": (
        (("Deployment",), r"\.spec\.revisionHistoryLimit", lambda theirs, ours: (theirs, ours) == (10, 1)),
    ),
    "special-ranges": (
        (
            ("NetworkPolicy",),
            r"\.spec\.egress\[2\]\.to\[0\]\.ipBlock\.except\[([5-9]|10)\]",
            added(*MORE_CLOSED_RANGES),
        ),
    ),
}
"""Rows of form 2 (lease.spec.FORM): an object of form 1 shows none of them."""
ROWS |= FENCES

UPDATE_ROWS: dict[str, tuple[Row, ...]] = {
    "version-of-a-service": ((("*",), rf"(\.spec\.template)?\.metadata\.labels\.{re.escape(VERSION)}", changed),),
    "stale-objects": ((("NetworkPolicy", "Secret", "Service"), "", dropped),),
    "renamed-address": (
        (("Service",), "", lambda theirs, ours: not theirs and ours["spec"]["type"] == "LoadBalancer"),
    ),
}
"""Rows that only an update shows."""

REFUSED = 422
NOT_OURS = {"service-removed", "service-renamed"}
"""Updates that never reach a lease's objects: the gateway refuses the manifest, or the rename."""


def row_of(found: Difference, rows: dict[str, tuple[Row, ...]]) -> str | None:
    for name, patterns in rows.items():
        for kinds, path, fits in patterns:
            known = found.kind in kinds or "*" in kinds
            if known and re.fullmatch(path, found.path) and fits(found.theirs, found.ours):
                return name
    return None


def documented() -> dict[str, str]:
    """Rows of the document's tables of differences, which begin with a column of ids: id to what holds it."""
    tables = re.findall(r"^\| id \|.*\n\|[-|]+\n((?:\|.*\n)+)", DOCUMENT.read_text(), flags=re.MULTILINE)
    lines = "".join(tables).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[-1] for row in cells if len(row) == 5 and not row[0].startswith("Q")}


def plain(name: str, *, form: int = FORM) -> Iterator[Difference]:
    return of_recording(load(name), form=form)


def of_recording(recording: dict[str, Any], *, form: int = FORM) -> Iterator[Difference]:
    """What differs. An object that exists here only, because the Go provider's manifest or an earlier object of it was
    refused there, is no difference.
    """
    if recording["manifest_put"]["status"] == REFUSED:
        return
    ended_early = not recording["complete"]
    for found in differences(writes(recording), list(lease_objects(recorded_spec(recording, form=form)))):
        if not (ended_early and found.path == "" and found.theirs is None):
            yield found


def after_update(name: str) -> Iterator[Difference]:
    """Live objects after an update against ours: what the server added to an object of both sides does not count."""
    recording = load(name)
    live = [item for item in recording["after"]["objects"] if item["kind"] not in ELSEWHERE]
    ours = list(lease_objects(recorded_update(recording)[1]))
    for found in differences(live, ours):
        if found.path == "" or found.ours is not None:
            yield found


@pytest.mark.parametrize("name", names())
def test_every_difference_from_a_recorded_lease_is_documented(name):
    unknown = [found for found in plain(name) if row_of(found, ROWS) is None]
    assert unknown == []


def test_what_exists_here_because_the_go_providers_object_was_refused_is_no_difference():
    """A refused object ends the Go provider's deployment: what was written until then is compared."""
    recording = load("base-simple-v2.0")
    requests = recording["api_requests"]
    refused = next(index for index, item in enumerate(requests) if item["body"]["kind"] == "Deployment")
    ended = recording | {"complete": False, "api_requests": requests[: refused + 1]}
    missing = {item.object for item in of_recording(ended | {"complete": True}) if not item.theirs and not item.path}
    assert missing > {item.object for item in of_recording(recording) if not item.theirs and not item.path}
    assert {item.object for item in of_recording(ended)} <= {item.object for item in of_recording(recording)}
    changed_there = [*requests[:refused], requests[refused] | {"body": {**requests[refused]["body"], "spec": {}}}]
    assert any(row_of(item, ROWS) is None for item in of_recording(ended | {"api_requests": changed_there}))


def test_manifests_that_the_go_provider_refused_are_those_of_newer_fields():
    """Row `newer-fields`: what is made of them here has no counterpart there."""
    refused = [load(name) for name in names() if load(name)["manifest_put"]["status"] == REFUSED]
    assert len(refused) == 6
    assert all(re.search('"(tee|proxyBufferSize)":', json.dumps(recording["manifest"])) for recording in refused)


def test_the_first_form_has_none_of_the_later_fences():
    """What ran before an upgrade, or under the Go provider, is made as it was."""
    older = {name: rows for name, rows in ROWS.items() if name not in FENCES}
    unknown = [found for name in names() for found in plain(name, form=FIRST_FORM) if row_of(found, older) is None]
    assert unknown == []


@pytest.mark.parametrize("name", [item for item in names(".update") if item.removesuffix(".update") not in NOT_OURS])
def test_every_difference_after_a_recorded_update_is_documented(name):
    unknown = [found for found in after_update(name) if row_of(found, ROWS | UPDATE_ROWS) is None]
    assert unknown == []


def test_every_recorded_row_of_the_document_is_seen_and_every_seen_one_documented():
    seen = {row_of(found, ROWS) for name in names() for found in plain(name)}
    for name in names(".update"):
        if name.removesuffix(".update") not in NOT_OURS:
            seen |= {row_of(found, ROWS | UPDATE_ROWS) for found in after_update(name)}
    assert seen == {row for row, held_by in documented().items() if held_by == "recorded"}


def test_every_other_row_names_tests_that_exist():
    tests = "\n".join(path.read_text() for path in DOCUMENT.parents[1].joinpath("tests").rglob("test_*.py"))
    named = [(row, name) for row, held_by in documented().items() for name in held_by.split(", ")]
    missing = [(row, name) for row, name in named if name != "recorded" and f"def {name}(" not in tests]
    assert missing == []


def test_every_oddity_of_the_reference_is_spoken_of():
    """kubernetes-objects.md §10"""
    spoken = {int(number) for number in re.findall(r"\bQ(\d+)\b", DOCUMENT.read_text())}
    assert spoken == set(range(22))


def test_the_comparison_sees_a_changed_a_missing_and_a_reordered_field():
    theirs = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": 1, "b": 2, "c": [{"name": "x"}, {"name": "y"}]}}
    ours = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"a": "1", "c": [{"name": "y"}, {"name": "x"}]}}
    assert [found.path for found in differences([theirs], [ours])] == [".spec.a", ".spec.b", ".spec.c<order>"]
