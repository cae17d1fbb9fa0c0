"""The policies over what there is: nothing is said of what Lessor makes, and everything else in a lease is found."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from components.lease import lease_objects
from components.registration import conventions, type_token
from components.secrets import seal
from lease.spec import LeaseSpec
from policies.book import RuleBook
from provider.errors import ClusterError
from provider.observe.policy_audit import audit_recorded, audit_running
from provider.protocols.cluster import DEPLOYMENT, NAMESPACE, SERVICE
from provider.records.applied import Applied, applied_object
from stacks.engine import EngineConfig, EngineError, recorded_objects, recorded_stacks
from tests.components.specs import fenced
from tests.policies.test_forbidden import by_gateway, with_a_card
from tests.world.cluster import FakeCluster

BOOK = RuleBook()
SPACE = fenced().namespace


def as_stored(obj: dict[str, Any]) -> dict[str, Any]:
    """The object as an API server and its controllers complete it."""
    made = copy.deepcopy(conventions(obj))
    made["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{}]}
    match made["kind"]:
        case "Namespace":
            made["metadata"]["labels"]["kubernetes.io/metadata.name"] = made["metadata"]["name"]
            made["spec"] = {"finalizers": ["kubernetes"]}
        case "Deployment" | "StatefulSet":
            made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "3"
            complete_pod(made["spec"]["template"]["spec"])
        case "Service":
            made["spec"] |= {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "sessionAffinity": "None"}
            made["spec"]["ports"][0]["nodePort"] = 30123
            made["metadata"]["finalizers"] = ["service.kubernetes.io/load-balancer-cleanup"]
    return made


def complete_pod(spec: dict[str, Any]) -> None:
    spec |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
    spec["terminationGracePeriodSeconds"] = 30
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in spec["containers"]:
        container |= {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}


def a_pod(workload: dict[str, Any]) -> dict[str, Any]:
    """A pod of the workload, as it runs."""
    spec = copy.deepcopy(workload["spec"]["template"]["spec"])
    spec |= {"nodeName": "n1", "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority", "priority": 0}
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    taints = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    spec["tolerations"] = [{"key": key, "operator": "Exists", "tolerationSeconds": 300} for key in taints]
    if spec["automountServiceAccountToken"]:
        spec.setdefault("volumes", []).append({"name": "kube-api-access-x1", "projected": {}})
        spec["containers"][0].setdefault("volumeMounts", []).append({"name": "kube-api-access-x1", "mountPath": "/t"})
    labels = workload["spec"]["template"]["metadata"]["labels"] | {"pod-template-hash": "5d4"}
    owner = {"kind": "ReplicaSet", "name": "web-5d4", "uid": "u"}
    name = f"{workload['metadata']['name']}-5d4-x"
    meta = {"name": name, "namespace": SPACE, "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def running(lease: LeaseSpec) -> FakeCluster:
    cluster = FakeCluster("lease", "metallb-system", "kube-system")
    for obj in lease_objects(lease):
        stored = as_stored(obj)
        cluster.put(stored)
        if stored["kind"] in ("Deployment", "StatefulSet"):
            cluster.put(a_pod(stored))
    cluster.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": SPACE}})
    cluster.put(applied_object(lease.lease, Applied(lease), namespace="lease"))
    return cluster


async def found(cluster: FakeCluster) -> set[tuple[str, str]]:
    audit = await audit_running(BOOK, cluster, records="lease")
    return {(each.violation.rule, each.violation.object) for each in audit.findings}


@pytest.mark.parametrize("form", [1, 2])
@pytest.mark.parametrize("lease", [fenced, by_gateway, with_a_card])
async def test_what_lessor_makes_and_a_cluster_completes_breaks_no_rule(lease: Any, form: int) -> None:
    made = lease().model_copy(update={"form": form})
    audit = await audit_running(BOOK, running(made), records="lease")
    assert (audit.findings, audit.leases, list(audit.unread)) == ([], 1, [])


async def test_what_hands_have_put_into_a_lease_is_found() -> None:
    cluster = running(fenced())
    bare = {"containers": [{"name": "x", "securityContext": {"privileged": True}}], "hostNetwork": True}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "debug", "namespace": SPACE}, "spec": bare})
    meta = {"name": "d", "namespace": SPACE}
    cluster.put({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": {}})
    rules = await found(cluster)
    pod = f"Pod {SPACE}/debug"
    assert {("known-kinds", pod), ("no-privileged-container", pod), ("no-host-namespace", pod)} <= rules
    assert ("known-kinds", f"DaemonSet {SPACE}/d") in rules


async def test_what_was_changed_after_it_was_applied_is_found() -> None:
    cluster = running(fenced())
    await cluster.patch(DEPLOYMENT, "web", {"spec": {"replicas": 50}}, namespace=SPACE)
    await cluster.patch(SERVICE, "web", {"spec": {"externalIPs": ["192.0.2.1"]}}, namespace=SPACE)
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    await cluster.patch(NAMESPACE, SPACE, label)
    rules = {rule for rule, _ in await found(cluster)}
    assert rules == {"within-reservation", "own-endpoints", "admission-level", "within-quota"}


async def test_a_debugging_container_in_a_pod_that_runs_is_found() -> None:
    cluster = running(fenced())
    pod = next(obj for obj in cluster.objects.values() if obj["kind"] == "Pod")
    changed = copy.deepcopy(pod)
    changed["spec"]["ephemeralContainers"] = [{"name": "debug", "securityContext": {"privileged": True}}]
    cluster.put(changed)
    assert "no-privileged-container" in {rule for rule, _ in await found(cluster)}


async def test_namespaces_that_are_no_leases_are_left_alone_and_unreadable_kinds_are_named() -> None:
    cluster = running(fenced())
    spec = {"containers": [{"name": "x", "securityContext": {"privileged": True}}]}
    meta = {"name": "p", "namespace": "kube-system"}
    cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    def refuse(operation: str, kind: str, name: str) -> None:
        if kind in ("Job", "HTTPRoute"):
            raise ClusterError("https://fake", "no", status=403 if kind == "Job" else 404)

    cluster.before = refuse
    audit = await audit_running(BOOK, cluster, records="lease")
    assert (audit.findings, list(audit.unread)) == ([], ["jobs"])


async def test_a_cluster_that_does_not_answer_is_no_clean_audit() -> None:
    cluster = running(fenced())

    def refuse(operation: str, kind: str, name: str) -> None:
        raise ClusterError("https://fake", "away")

    cluster.before = refuse
    with pytest.raises(ClusterError):
        await audit_running(BOOK, cluster, records="lease")


def state_of(config: EngineConfig, lease: LeaseSpec, change: Any = None) -> None:
    """The stack's state as Pulumi writes it, secrets encrypted."""

    def cipher(_: str) -> dict[str, str]:
        return {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}

    resources: list[dict[str, Any]] = [{"type": "pulumi:providers:kubernetes", "inputs": {"kubeconfig": "x"}}]
    for obj in lease_objects(lease):
        inputs = seal(conventions(copy.deepcopy(obj)), cipher)
        if change is not None:
            change(inputs)
        resources.append({"type": type_token(obj["apiVersion"], obj["kind"]), "inputs": inputs})
    file = config.state_file(lease.namespace)
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"version": 3, "checkpoint": {"latest": {"resources": resources}}}))


@pytest.fixture
def config(tmp_path: Path) -> EngineConfig:
    return EngineConfig(data=tmp_path, kubeconfig=tmp_path / "k", pulumi=tmp_path / "pulumi")


def recorded(config: EngineConfig) -> list[tuple[str, str]]:
    findings = audit_recorded(BOOK, recorded_stacks(config), lambda stack: recorded_objects(config, stack))
    return [(each.namespace, each.violation.rule) for each in findings]


@pytest.mark.parametrize("lease", [fenced, by_gateway, with_a_card])
def test_the_recorded_state_of_a_lease_breaks_no_rule(config: EngineConfig, lease: Any) -> None:
    state_of(config, lease())
    assert recorded_stacks(config) == [SPACE] and len(recorded_objects(config, SPACE)) > 20
    assert recorded(config) == []


def test_a_recorded_object_that_breaks_a_rule_is_found(config: EngineConfig) -> None:
    def privileged(inputs: dict[str, Any]) -> None:
        if inputs["kind"] == "Deployment":
            inputs["spec"]["template"]["spec"]["hostPID"] = True

    state_of(config, fenced(), privileged)
    assert set(recorded(config)) == {(SPACE, "no-host-namespace"), (SPACE, "known-pod-fields")}


def test_a_state_that_cannot_be_read_is_no_clean_audit(config: EngineConfig) -> None:
    state_of(config, fenced())
    config.state_file(SPACE).write_text("{")
    with pytest.raises(EngineError, match="cannot be read"):
        recorded(config)
    with pytest.raises(EngineError, match="cannot be"):
        recorded_stacks(config.model_copy(update={"backend": "s3://x"}))
