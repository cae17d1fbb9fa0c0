"""The policy pack: the same rules behind Pulumi's analyzer interface, started as the language host starts it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

import policies
from components.lease import lease_objects
from components.registration import type_token
from policies.judge import RULES
from policies.pack import manifest
from policies.pack import policies as pulumi_policies
from policies.rules import OWNER_LABEL, Level, ObjectProblem, Rule, RuleScope, Severity
from stacks.cluster.metallb import workloads
from stacks.cluster.settings import MetalLbSettings
from tests.components.specs import fenced
from tests.world.processes import line_of

PACK = Path(policies.__file__).parent


@contextmanager
def running_pack():
    """`python -u -m pulumi.policy ENGINE PACK` in the pack's folder; it prints its port."""
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(PACK)]
    with subprocess.Popen(command, cwd=PACK, stdout=subprocess.PIPE) as process:
        try:
            with grpc.insecure_channel(f"127.0.0.1:{int(line_of(process))}") as channel:
                yield analyzer_pb2_grpc.AnalyzerStub(channel)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def analyzer():
    with running_pack() as stub:
        yield stub


def analyze(stub, token, properties):
    request = analyzer_pb2.AnalyzeRequest(type=token, name="web", urn=f"urn:pulumi:s::p::{token}::web")
    request.properties.update(properties)
    return [(found.policyName, found.message) for found in stub.Analyze(request, timeout=10).diagnostics]


def deployment(**container):
    context = {"allowPrivilegeEscalation": False} | container.pop("securityContext", {})
    pod = {"containers": [{"name": "web", "securityContext": context, **container}]}
    spec = {"template": {"spec": pod | {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}}}
    return {"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}


def test_the_pack_offers_every_rule_under_its_own_name(analyzer):
    info = analyzer.GetAnalyzerInfo(Empty(), timeout=10)
    assert info.name == "lessor"
    assert {policy.name: policy.description for policy in info.policies} == {rule.id: rule.reason for rule in RULES}


def test_a_privileged_container_is_reported_with_its_remedy(analyzer):
    limits = {"limits": {"cpu": "1", "memory": "1", "ephemeral-storage": "1"}}
    found = analyze(
        analyzer,
        "kubernetes:apps/v1:Deployment",
        deployment(securityContext={"privileged": True}, resources=limits),
    )
    assert [name for name, _ in found] == ["no-privileged-container"]
    assert "Deployment ns/web: container 'web' is privileged" in found[0][1]
    assert "set it to false" in found[0][1]


def test_what_is_no_kubernetes_object_is_left_alone(analyzer):
    assert analyze(analyzer, "aws:ecs/service:Service", {"kind": "Pod", "spec": {"containers": [{}]}}) == []
    assert analyze(analyzer, "pulumi:providers:kubernetes", {"kubeconfig": "x"}) == []


def test_a_leases_objects_pass_the_pack_as_they_pass_the_worker(analyzer):
    for item in lease_objects(fenced()):
        assert analyze(analyzer, type_token(item["apiVersion"], item["kind"]), item) == []


def test_what_the_cluster_stack_brings_passes_the_pack(analyzer):
    """Lists arrive there as Pulumi's own sequences, which equal no list."""
    for item in workloads(MetalLbSettings()):
        token = type_token(item["apiVersion"], item["kind"])
        request = analyzer_pb2.AnalyzeRequest(type=token, name="x", urn=f"urn:pulumi:s::lessor::{token}::x")
        request.properties.update(item)
        found = analyzer.Analyze(request, timeout=10).diagnostics
        assert [(each.policyName, each.message) for each in found] == []


def test_a_value_that_a_preview_cannot_know_is_reported_not_fatal(analyzer):
    unknown = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
    found = analyze(analyzer, "kubernetes:apps/v1:Deployment", deployment(resources=unknown))
    assert sorted(name for name, _ in found) == [
        "cpu-and-memory-limits",
        "ephemeral-storage-limit",
        "gpus-are-whole",
        "known-devices",
        "requests-within-limits",
    ]
    assert all("known during preview" in message for _, message in found)


def test_types_become_kinds_where_a_program_left_them_out():
    assert manifest("kubernetes:core/v1:Pod", {}) == {"apiVersion": "v1", "kind": "Pod"}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    assert manifest("kubernetes:apps/v1:Deployment", {"kind": "Deployment"}) == deployment
    assert manifest("lessor:lease:Lease", {}) is None


def test_a_rule_about_the_whole_stack_sees_all_objects_at_once():
    def lonely(manifests):
        if len(manifests) == 1:
            yield ObjectProblem(manifests[0], "is alone")

    rule = Rule("alone", Severity.LOW, Level.ADVISORY, "Why.", "Do.", check=lonely, scope=RuleScope.STACK)
    (policy,) = pulumi_policies([rule])
    reported = []
    resource = _Resource("kubernetes:core/v1:Pod", {"metadata": {"name": "p"}})
    component = _Resource("lessor:lease:Lease", {})
    policy.validate(_Stack([resource, component]), lambda message, urn=None: reported.append(message))
    policy.validate(_Stack([resource, resource]), lambda message, urn=None: reported.append(message))
    assert reported == ["Pod p: is alone. Do."]


def test_a_rule_about_the_whole_stack_judges_each_lease_alone():
    """Two leases in one stack do not count as one that owns both namespaces."""
    opened = {
        "spec": {"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"akash.network/namespace": "b"}}}]}]}
    }
    resources = []
    for name, policy in (("a", opened), ("b", {})):
        lease = _Resource("lessor:lease:Lease", {}, name=name)
        part = _Resource("lessor:lease:Isolation", {}, parent=lease)
        meta = {"name": name, "labels": {OWNER_LABEL: "akash1me"}}
        resources += [lease, part, _Resource("kubernetes:core/v1:Namespace", {"metadata": meta}, parent=lease)]
        token = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
        resources.append(_Resource(token, {"metadata": {"name": "p", "namespace": name}, **policy}, parent=part))
    reported = []
    for policy in pulumi_policies([rule for rule in RULES if rule.id == "no-foreign-lease"]):
        policy.validate(_Stack(resources), lambda message, urn=None: reported.append(message))
    assert len(reported) == 1 and "a/p: a rule opens the lease in b" in reported[0]


class _Resource:
    def __init__(self, resource_type, props, *, name="name", parent=None):
        self.resource_type = resource_type
        self.urn = f"urn:pulumi:s::lease::{resource_type}::{name}"
        self.props = props
        self.parent = parent


class _Stack:
    def __init__(self, resources):
        self.resources = resources
