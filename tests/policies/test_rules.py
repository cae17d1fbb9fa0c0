"""The rules over plain manifests: what breaks them, what does not, and what nobody expected."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.lease import lease_objects
from lease.spec import FIRST_FORM, FORM
from policies.facts import facts_of
from policies.judge import RULES, judge
from policies.rules import Level, Severity, Violation
from tests.components.recorded import load, names
from tests.components.recorded_specs import recorded_spec
from tests.components.specs import fenced, service, spec

LIMITS = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}


def container(**fields):
    context = {"allowPrivilegeEscalation": False} | fields.pop("securityContext", {})
    return {"name": "web", "resources": {"limits": LIMITS}, "securityContext": context} | fields


SAFE = {"automountServiceAccountToken": False, "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}


def pod(*containers, kind="Pod", **lists):
    template = {"spec": {"containers": list(containers), **SAFE, **lists}}
    inside = {
        "Pod": template,
        "CronJob": {"spec": {"jobTemplate": {"spec": {"template": template}}}},
    }.get(kind, {"spec": {"template": template}})
    return {"kind": kind, "metadata": {"name": "web", "namespace": "ns"}, **inside}


def broken(*manifests):
    return [finding.rule for finding in judge(manifests)]


@pytest.mark.parametrize("form", [FIRST_FORM, FORM])
def test_everything_a_lease_becomes_keeps_every_mandatory_rule(form):
    assert judge(lease_objects(fenced(form)), form=form, lease=facts_of(fenced(form))) == ()


@pytest.mark.parametrize("form", [FIRST_FORM, FORM])
def test_every_recorded_lease_keeps_every_mandatory_rule_in_each_form(form):
    """What the Go provider made is judged too when it is repaired."""
    refused = 422
    for name in names():
        recording = load(name)
        if recording["manifest_put"]["status"] == refused:
            continue
        spec = recorded_spec(recording, form=form)
        assert judge(lease_objects(spec), form=form, lease=facts_of(spec)) == (), name


def test_a_container_without_a_limit_of_its_disk_is_refused_except_in_the_first_form():
    bare = spec(service(ephemeral_request_bytes=0, ephemeral_limit_bytes=0), form=FORM)
    findings = judge(lease_objects(bare))
    assert [(finding.rule, finding.level) for finding in findings] == [("ephemeral-storage-limit", Level.MANDATORY)]
    assert judge(lease_objects(bare.model_copy(update={"form": FIRST_FORM})), form=FIRST_FORM) == ()


def test_a_finding_says_what_where_how_bad_and_what_to_do():
    (finding,) = judge([pod(container(securityContext={"privileged": True}), kind="Deployment")])
    assert finding == Violation(
        rule="no-privileged-container",
        severity=Severity.CRITICAL,
        level=Level.MANDATORY,
        object="Deployment ns/web",
        problem="container 'web' is privileged",
        remedy="Remove securityContext.privileged, or set it to false.",
    )
    assert str(finding).startswith(
        "Deployment ns/web: container 'web' is privileged (no-privileged-container, critical)"
    )


@pytest.mark.parametrize(
    "kind", ["Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob"]
)
def test_pods_are_found_in_every_kind_that_makes_them(kind):
    assert broken(pod({"name": "web", "securityContext": {"privileged": True}}, kind=kind)) == [
        "no-privileged-container",
        "no-privilege-escalation",
        "cpu-and-memory-limits",
        "ephemeral-storage-limit",
    ]
    assert broken(pod(container(), kind=kind)) == []


@pytest.mark.parametrize(
    ("value", "allowed"), [(False, True), (None, True), (True, False), ("true", False), (1, False), ([], False)]
)
def test_only_an_absent_or_false_privilege_is_none(value, allowed):
    assert (broken(pod(container(securityContext={"privileged": value}))) == []) is allowed


@pytest.mark.parametrize("listed", ["initContainers", "ephemeralContainers"])
def test_privileged_side_containers_are_found_too(listed):
    assert broken(pod(container(), **{listed: [container(securityContext={"privileged": True})]})) == [
        "no-privileged-container"
    ]


def test_an_init_container_needs_limits_but_an_ephemeral_one_cannot_have_any():
    assert "cpu-and-memory-limits" in broken(pod(container(), initContainers=[{"name": "i"}]))
    safe = {"allowPrivilegeEscalation": False}
    assert broken(pod(container(), ephemeralContainers=[{"name": "e", "securityContext": safe}])) == []


@pytest.mark.parametrize(
    ("limits", "missing"),
    [
        ({"cpu": "1"}, "memory"),
        ({"memory": "1Gi"}, "cpu"),
        ({}, "cpu and memory"),
        ({"cpu": "0", "memory": "0Gi"}, "cpu and memory"),
        ({"cpu": "-1", "memory": "much"}, "cpu and memory"),
        ({"cpu": True, "memory": None}, "cpu and memory"),
        ({"cpu": {"a": 1}, "memory": ["1Gi"]}, "cpu and memory"),
        ({"cpu": "0.0", "memory": "0e9"}, "cpu and memory"),
        ({"cpu": "", "memory": " 1Gi"}, "cpu and memory"),
    ],
)
def test_a_limit_that_limits_nothing_is_none(limits, missing):
    findings = judge([pod(container(resources={"limits": limits | {"ephemeral-storage": 1}}))])
    assert [finding.problem for finding in findings] == [f"container 'web' has no limit of {missing}"]


@pytest.mark.parametrize("amount", ["1", 1, 0.5, "500m", "1.5Gi", "1e3", "+2", ".5", "12E"])
def test_every_spelling_of_a_quantity_above_zero_is_a_limit(amount):
    assert broken(pod(container(resources={"limits": dict.fromkeys(LIMITS, amount)}))) == []


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"kind": None},
        {"kind": "ConfigMap", "data": {"containers": [{}]}},
        {"kind": ["Pod"], "spec": {"containers": [{}]}},
        {"kind": "Pod"},
        {"kind": "Pod", "spec": None},
        {"kind": "Pod", "spec": [1]},
        {"kind": "Deployment", "spec": {"template": "x"}, "metadata": "y"},
    ],
)
def test_objects_without_containers_break_no_rule(manifest):
    assert judge([manifest]) == ()


@pytest.mark.parametrize("containers", ["abc", 7, {"name": "web"}, ["abc"], [[]]])
def test_containers_that_cannot_be_read_are_no_excuse(containers):
    manifest = {"kind": "Pod", "spec": {"containers": containers}, "metadata": []}
    assert "cpu-and-memory-limits" in broken(manifest)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "template", "containers", "resources", "limits", "cpu", "securityContext", "privileged"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["Pod", "Deployment", "CronJob", "Service"]), anything)
def test_no_object_however_odd_makes_a_rule_fail(kind, inside):
    for finding in judge([{"kind": kind, "spec": inside, "metadata": inside}]):
        assert finding.object.startswith(kind)


def test_rule_names_are_unique_and_every_rule_explains_itself():
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.reason.endswith(".") and rule.remedy.endswith(".") for rule in RULES)
