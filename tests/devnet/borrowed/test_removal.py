"""The user's cluster is checked first, and no object of the demo is left at the end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devnet.borrowed import BorrowedCluster, Plan, give_back, give_back_earlier
from devnet.errors import ClusterUnusable, DevnetError, NotGivenBack
from devnet.tools import Toolbox
from lease.ids import LeaseId, namespace_name
from tests.devnet.borrowed.conftest import Somebody

pytestmark = [pytest.mark.devnet, pytest.mark.xdist_group("borrowed")]
LEASE = LeaseId("akash1owner", 7, 1, 1, "akash1provider")
LABELS = {"app.kubernetes.io/managed-by": "lessor"}


def inspect(somebody: Somebody, data: Path) -> BorrowedCluster:
    return BorrowedCluster.inspect(data, Toolbox({}), kubeconfig=somebody.plane.kubeconfig, context="")


def crd(plural: str, **labels: str) -> dict[str, object]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.akash.network", "labels": labels},
        "spec": {
            "group": "akash.network",
            "names": {"kind": plural.title(), "plural": plural},
            "scope": "Namespaced",
            "versions": [{"name": "v2beta2", "served": True, "storage": True, "schema": schema}],
        },
    }


def apply(somebody: Somebody, *objects: object) -> None:
    somebody.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def namespace(name: str, **labels: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def make_everything(somebody: Somebody, cluster: BorrowedCluster) -> None:
    plan = cluster.plan
    cluster.begin()
    cluster.expect([LEASE])
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "spec": {"controller": "example.com/none"}}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": "lessor-provider", "labels": LABELS},
    }
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    holds = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    binds = {"policyName": "lessor-provider", "validationActions": ["Audit"]}
    apply(
        somebody,
        namespace(plan.records, **LABELS),
        namespace(plan.services, **LABELS),
        namespace(namespace_name(LEASE)),
        role | {"metadata": {"name": "lessor-provider", "labels": LABELS}, "rules": []},
        policy | {"kind": "ValidatingAdmissionPolicy", "spec": holds},
        policy | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binds},
        ingress | {"metadata": {"name": plan.name, "labels": LABELS}},
        *(crd(plural, **LABELS) for plural in ("manifests", "providerhosts", "providerleasedips")),
    )
    somebody.kubectl("wait", "--for=condition=Established", "crd/manifests.akash.network")


def test_exactly_the_objects_of_the_demo_are_removed(somebody, data):
    before = somebody.everything()
    cluster = inspect(somebody, data)
    assert somebody.everything() == before, "looking makes nothing"
    make_everything(somebody, cluster)
    assert len(somebody.everything() - before) > 8
    with pytest.raises(
        ClusterUnusable, match=r"has objects of an Akash provider.*manifests\.akash\.network with 0 object"
    ):
        inspect(somebody, data)
    said: list[str] = []
    give_back(cluster.plan, cluster.api, said.append)
    assert somebody.everything() == before
    assert "no object of the demo is left" in said[0]
    give_back(cluster.plan, cluster.api, said.append)


@pytest.mark.long
def test_the_next_demo_in_the_folder_removes_the_objects_of_a_killed_one(somebody, data):
    before = somebody.everything()
    make_everything(somebody, inspect(somebody, data))
    said: list[str] = []
    assert give_back_earlier(data, said.append)
    assert "was interrupted: removing its objects" in said[0]
    assert somebody.everything() == before
    assert not give_back_earlier(data, said.append)


@pytest.mark.long
def test_objects_that_others_changed_stay_and_are_named(somebody, data):
    before = somebody.everything()
    cluster = inspect(somebody, data)
    make_everything(somebody, cluster)
    other = {
        "apiVersion": "akash.network/v2beta2",
        "kind": "Manifests",
        "metadata": {"name": "his", "namespace": "default"},
    }
    apply(somebody, other)
    somebody.kubectl("label", "clusterrole", "lessor-provider", "app.kubernetes.io/managed-by-")
    with pytest.raises(NotGivenBack) as told:
        give_back(cluster.plan, cluster.api, lambda _: None)
    assert told.value.left == (
        "cluster role lessor-provider: Lessor's label is missing, so the object was not deleted",
        "custom resource definition manifests.akash.network: 1 object(s) of another provider",
        "cluster role lessor-demo (kept until the others are removed)",
    )
    somebody.kubectl("delete", "clusterrole/lessor-provider", "clusterrole/lessor-demo", "crd/manifests.akash.network")
    assert somebody.everything() == before


@pytest.mark.long
def test_of_two_demos_that_saw_a_free_cluster_one_makes_objects(somebody, data, tmp_path):
    """The other one removes nothing of the first, not even after a kill between its plan and its claim."""
    before = somebody.everything()
    (tmp_path / "second").mkdir()
    first, second = inspect(somebody, data), inspect(somebody, tmp_path / "second")
    make_everything(somebody, first)
    made = somebody.everything()
    with pytest.raises(ClusterUnusable, match=f"the demo {first.plan.name} uses"):
        second.begin()
    give_back(second.plan, second.api, lambda _: None)
    second.plan.write(tmp_path / "second")
    assert give_back_earlier(tmp_path / "second", lambda _: None)
    assert somebody.everything() == made
    give_back(first.plan, first.api, lambda _: None)
    assert somebody.everything() == before


def test_a_claim_without_anything_else_keeps_other_demos_out(somebody, data, tmp_path):
    before = somebody.everything()
    cluster = inspect(somebody, data)
    cluster.begin()
    (tmp_path / "second").mkdir()
    with pytest.raises(ClusterUnusable, match=f"cluster role lessor-demo of the demo {cluster.plan.name}"):
        inspect(somebody, tmp_path / "second")
    give_back(cluster.plan, cluster.api, lambda _: None)
    assert somebody.everything() == before


@pytest.mark.parametrize("sign", ["lease", "clusterrole"])
def test_a_cluster_with_a_provider_is_refused(somebody, data, sign):
    if sign == "lease":
        somebody.kubectl("create", "namespace", "tenant-of-somebody")
        somebody.kubectl("label", "namespace", "tenant-of-somebody", "akash.network=true")
    else:
        somebody.kubectl("create", "clusterrole", "lessor-provider", "--verb=get", "--resource=pods")
    try:
        with pytest.raises(ClusterUnusable, match=r"nothing was made"):
            inspect(somebody, data)
    finally:
        somebody.kubectl("delete", "namespace/tenant-of-somebody" if sign == "lease" else "clusterrole/lessor-provider")


def test_missing_rights_of_the_user_are_named(somebody, data, tmp_path):
    token = somebody.kubectl("create", "token", "default").strip()
    config = json.loads(somebody.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    (tmp_path / "config").write_text(json.dumps(config))
    somebody.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=view", "--serviceaccount=default:default")
    resources = "nodes,crd,clusterroles,validatingadmissionpolicies"
    somebody.kubectl("create", "clusterrole", "looks", "--verb=get,list", f"--resource={resources}")
    somebody.kubectl("create", "clusterrolebinding", "looks", "--clusterrole=looks", "--serviceaccount=default:default")
    try:
        with pytest.raises(ClusterUnusable, match=r"may not create customresourcedefinitions, .*patch nodes at https"):
            BorrowedCluster.inspect(data, Toolbox({}), kubeconfig=tmp_path / "config", context="")
    finally:
        somebody.kubectl("delete", "clusterrolebinding/reader", "clusterrolebinding/looks", "clusterrole/looks")


def test_the_label_goes_on_one_node_unless_one_has_it(somebody, data):
    assert inspect(somebody, data).plan.nodes == ("node-1",)
    somebody.kubectl("label", "node", "node-2", "akash.network=true")
    try:
        assert inspect(somebody, data).plan.nodes == ()
    finally:
        somebody.kubectl("label", "node", "node-2", "akash.network-")


def test_an_unreachable_api_server_is_named(tmp_path, data):
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9", "insecure-skip-tls-verify": True}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {
        "current-context": "x",
        "contexts": [context],
        "clusters": [cluster],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    with pytest.raises(ClusterUnusable, match=r"https://127\.0\.0\.1:9 did not answer"):
        BorrowedCluster.inspect(data, Toolbox({}), kubeconfig=tmp_path / "config", context="")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"name": "x"}', '{"nodes": 7}'])
def test_an_unreadable_plan_is_an_error(tmp_path, text):
    (tmp_path / "borrowed.json").write_text(text)
    with pytest.raises(DevnetError, match="cannot be read"):
        Plan.read(tmp_path)
