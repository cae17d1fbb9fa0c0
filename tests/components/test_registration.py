"""What the `Lease` component asks of Pulumi's engine (architecture §5), recorded without one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from components.lease import lease_objects
from components.registration import conventions, type_token
from lease.spec import LeaseSpec
from tests.components.specs import NAMESPACE, everything, leased_ip, spec

SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Marks a wrapped value in Pulumi's wire format; a secret's is a mapping with this key and `value`."""


def registrations(wanted: LeaseSpec) -> list[dict]:
    command = [sys.executable, "-m", "tests.components.registrations"]
    done = subprocess.run(command, input=wanted.canonical_json(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def requests() -> list[dict]:
    return registrations(everything())


@pytest.fixture
def objects(requests) -> list[dict]:
    return [item for item in requests if item["type"].startswith("kubernetes:")]


def plain(value):
    """Wire values as Python's own: secrets opened, numbers whole again."""
    match value:
        case dict() if SIGNATURE in value:
            return plain(value["value"])
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case float():
            return int(value)
        case _:
            return value


def key(manifest):
    return manifest["kind"], manifest["metadata"]["name"]


def named(objects, kind, name=None):
    return next(item for item in objects if item["type"].endswith(f":{kind}") and name in (None, item["name"]))


def test_exactly_the_leases_objects_are_registered(objects):
    registered = sorted((plain(item["object"]) for item in objects), key=key)
    assert registered == sorted((conventions(item) for item in lease_objects(everything())), key=key)


def test_every_object_has_one_field_manager_and_is_not_waited_for(objects):
    for item in objects:
        annotations = item["object"]["metadata"]["annotations"]
        assert annotations["pulumi.com/patchFieldManager"] == "lessor"
        assert annotations["pulumi.com/skipAwait"] == "true"


@pytest.mark.parametrize(
    ("api_version", "kind", "token"),
    [
        ("v1", "Namespace", "kubernetes:core/v1:Namespace"),
        ("apps/v1", "Deployment", "kubernetes:apps/v1:Deployment"),
        ("metallb.io/v1beta1", "IPAddressPool", "kubernetes:metallb.io/v1beta1:IPAddressPool"),
    ],
)
def test_a_kinds_type_is_made_from_its_api_version(api_version, kind, token):
    assert type_token(api_version, kind) == token


def test_everything_goes_with_the_namespace_but_balancers_and_pools(objects):
    alone = {(item["object"]["kind"], item["name"]) for item in objects if "deletedWith" not in item}
    balancers = {("Service", "web-ip-53-udp"), ("Service", "web-ip-80-tcp")}
    assert {kind for kind, _ in alone - balancers} == {"Namespace", "IPAddressPool", "L2Advertisement"}
    assert balancers <= alone
    assert {item["deletedWith"].split("::")[-1] for item in objects if "deletedWith" in item} == {NAMESPACE}


def test_only_pools_and_advertisements_outlive_their_stack(objects):
    kept = {item["object"]["kind"] for item in objects if item.get("retainOnDelete")}
    assert kept == {"IPAddressPool", "L2Advertisement"}


def test_pods_wait_for_the_namespace_the_policies_the_secrets_and_their_rights(objects):
    before = {
        urn.split("::")[-2].split("$")[-1].split(":")[-1] for urn in named(objects, "StatefulSet")["dependencies"]
    }
    assert before == {"Namespace", "NetworkPolicy", "Secret", "ServiceAccount", "Role", "RoleBinding"}


def test_a_balancer_waits_for_its_pool_and_goes_before_its_namespace(objects):
    waits = named(objects, "Service", "web-ip-80-tcp")["dependencies"]
    assert {urn.split("::")[-2].split(":")[-1] for urn in waits} == {"Namespace", "IPAddressPool", "L2Advertisement"}


def test_a_pool_comes_after_all_else_of_the_lease(objects):
    """MetalLB's webhook may be away: then the address waits, and what does not need it runs."""
    waits = set(named(objects, "IPAddressPool")["dependencies"])
    kinds = {urn.split("::")[-2].split("$")[-1].split(":")[-1] for urn in waits}
    assert kinds == {"Deployment", "StatefulSet", "Service", "Ingress"}
    addressed = {"web-ip-53-udp", "web-ip-80-tcp"}
    others = {item["name"] for item in objects if item["object"]["kind"] in kinds} - addressed
    assert {urn.split("::")[-1] for urn in waits} == others


def test_no_secret_text_travels_in_the_clear(objects):
    assert named(objects, "Secret")["additionalSecretOutputs"] == ["data", "stringData"]
    assert all(SIGNATURE in value for value in named(objects, "Secret")["object"]["data"].values())
    container = named(objects, "Deployment")["object"]["spec"]["template"]["spec"]["containers"][0]
    values = [item["value"] for item in container["env"] if "value" in item]
    assert len(values) == 7
    assert all(SIGNATURE in value for value in values)


def test_the_cluster_is_named_explicitly_and_never_guessed_from_its_kubeconfig(requests, objects):
    provider = named(requests, "kubernetes", "cluster")
    assert provider["object"] == {
        "kubeconfig": "/etc/kubeconfig",
        "context": "c",
        "clusterIdentifier": "lessor",
        "enableSecretMutable": "true",
    }
    assert all("::cluster::" in item["provider"] for item in objects)
    assert {item["version"] for item in (*objects, provider)} == {"4.25.0"}


def test_one_component_answers_each_question(requests):
    parts = [item["type"].removeprefix("lessor:lease:") for item in requests if item["type"].startswith("lessor:")]
    assert parts == [
        "Lease", "Namespace", "Isolation", "Workload", "Service", "Workload", "Service", "Hostname", "LeasedIp",
    ]  # fmt: skip


def test_a_spec_that_cannot_be_built_registers_nothing():
    command = [sys.executable, "-m", "tests.components.registrations"]
    broken = spec(leased_ips=(leased_ip(address=""),)).canonical_json()
    done = subprocess.run(command, input=broken, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "BuildError" in done.stderr
    assert "kubernetes:" not in done.stdout
