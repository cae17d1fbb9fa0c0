"""The objects of the cluster stack, registered with Pulumi's own mocks: names, ports, rights, and their policies."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lease.ids import LeaseId
from policies.book import RuleBook
from policies.judge import RULES, judge
from policies.rules import Domain
from provider.claims.released import releases_object
from provider.cli import build_app
from provider.errors import ClusterError
from provider.observe.policy_audit import audit_cluster_stack
from provider.records.applied import applied_name
from stacks.cluster.admission import CERTIFICATE_SECRET
from stacks.cluster.claims_rights import HOSTNAME_RULES, IP_CLUSTER_RULES, IP_METALLB_RULES, IP_RULES
from stacks.cluster.inventory_rights import CLUSTER_RULES, NAMESPACE_RULES, ROOK_RULES, Rule
from stacks.cluster.process_settings import SECRET_VARIABLES
from stacks.cluster.rbac import PROVIDER_RULES
from tests.stacks.cluster.rights_replay import Right, granted_to
from tests.world.cluster import FakeCluster

IMAGE = "registry.example/lessor:1.0"
ACCOUNT = "akash1" + "q" * 38

EVERYTHING: dict[str, Any] = {
    "processes": {
        "image": IMAGE,
        "account": ACCOUNT,
        "environment": {
            "AP_NODE": "http://node:26657",
            "LESSOR_IP_RANGES": "203.0.113.8/29",
            "LESSOR_IP_POOLS": "public",
        },
        "rook-namespace": "rook-ceph",
        "inventory-config": {"cluster_storage": ["beta2"]},
    },
    "metallb": {"required": True, "install": True},
    "storage-classes": ["beta2"],
    "runtime-classes": {"nvidia": "nvidia"},
}
REMOTE: dict[str, Any] = {
    "processes": {"image": IMAGE, "remote-state": True, "environment": {"LESSOR_STACK_BACKEND": "s3://state"}}
}
ORDERING: dict[str, Any] = {
    "image": IMAGE,
    "environment": {
        "AP_CERT_ISSUER_ENABLED": "true",
        "AP_CERT_ISSUER_CA_DIR_URL": "https://ca.example.com/directory",
        "AP_CLUSTER_PUBLIC_HOSTNAME": "provider.example.com",
        "LESSOR_CERT_ISSUER_NAMES": "provider.example.com,other.example.com",
    },
}
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "remote state": REMOTE,
    "no operators": {
        "processes": {
            "image": IMAGE,
            "inventory": False,
            "hostname": False,
            "service-type": "LoadBalancer",
            "service-monitor": True,
        }
    },
    "privileged discovery": {"processes": {"image": IMAGE, "privileged-discovery": True}},
    "gateway": {"ingress-mode": "gateway-api", "gateway": {"create": True, "domain": "ingress.example.com"}},
    "given gateway": {"ingress-mode": "gateway-api", "gateway": {"name": "edge"}},
    "no fence": {"admission-policy": False},
    "given certificate": {"processes": {"image": IMAGE, "tls-secret": "provider-tls"}},
    "gateway as a child": {"processes": {"image": IMAGE, "gateway-process": "child"}},
    "separate gateway": {"processes": {"image": IMAGE, "gateway-process": "separate", "tls-secret": "provider-tls"}},
    "ordered certificate": {"processes": ORDERING},
    "ordered certificate, gateway": {"ingress-mode": "gateway-api", "processes": ORDERING},
}


@pytest.fixture(scope="module")
def stacks() -> dict[str, list[dict[str, Any]]]:
    """The objects of each configuration."""
    command = [sys.executable, "-m", "tests.stacks.cluster.registrations"]
    text = json.dumps(list(CONFIGURATIONS.values()))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return dict(zip(CONFIGURATIONS, json.loads(done.stdout), strict=True))


@pytest.fixture
def everything(stacks: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return copy.deepcopy(stacks["everything"])


def named(objects: list[dict[str, Any]], kind: str, name: str, *, namespace: str = "") -> dict[str, Any]:
    return next(
        item
        for item in objects
        if (item["kind"], item["metadata"]["name"]) == (kind, name)
        and namespace in ("", item["metadata"].get("namespace"))
    )


@pytest.mark.parametrize("name", sorted(CONFIGURATIONS.keys() - {"no fence"}))
def test_the_cluster_stack_keeps_the_policies_of_its_own_domain(
    name: str, stacks: dict[str, list[dict[str, Any]]]
) -> None:
    assert [str(found) for found in judge(stacks[name], domain=Domain.CLUSTER)] == []


def test_without_its_fence_the_providers_account_breaks_a_policy(stacks: dict[str, list[dict[str, Any]]]) -> None:
    assert {each.rule for each in judge(stacks["no fence"], domain=Domain.CLUSTER)} == {"bounded-accounts"}


def test_the_provider_is_one_pod_with_its_state_in_a_claim(everything: list[dict[str, Any]]) -> None:
    provider = named(everything, "StatefulSet", "akash-provider")["spec"]
    assert provider["replicas"] == 1
    assert provider["template"]["metadata"]["labels"]["app"] == "akash-provider"
    assert provider["volumeClaimTemplates"][0]["spec"]["resources"]["requests"] == {"storage": "10Gi"}
    container = provider["template"]["spec"]["containers"][0]
    assert (container["image"], container["command"]) == (IMAGE, ["lessor", "run"])
    assert {each["name"] for each in container["volumeMounts"]} == {"home", "key", "tmp"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    environment = named(everything, "ConfigMap", "akash-provider")["data"]
    assert environment["AP_NODE"] == "http://node:26657" and environment["AP_K8S_MANIFEST_NS"] == "lease"
    assert environment["LESSOR_CERTIFICATE_SECRET"] == f"akash-services/{CERTIFICATE_SECRET}"
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert environment["AP_HOME"] == f"{mounts['home']}/home", (
        "the root of a volume belongs to root and is open to others"
    )


def test_a_slow_start_is_not_killed(everything: list[dict[str, Any]]) -> None:
    for item in everything:
        if item["metadata"].get("namespace") == "akash-services" and item["kind"] in ("StatefulSet", "Deployment"):
            container = item["spec"]["template"]["spec"]["containers"][0]
            asked, allowed = container["startupProbe"], container["startupProbe"]["failureThreshold"]
            assert {key: asked.get(key) for key in ("httpGet", "tcpSocket")} == {
                key: container["livenessProbe"].get(key) for key in ("httpGet", "tcpSocket")
            }
            assert allowed * asked["periodSeconds"] >= 300


def test_no_variable_of_a_service_looks_like_a_setting_and_orphans_are_reaped(everything: list[dict[str, Any]]) -> None:
    for item in everything:
        if item["metadata"].get("namespace") == "akash-services" and item["kind"] in ("StatefulSet", "Deployment"):
            spec = item["spec"]["template"]["spec"]
            assert spec["enableServiceLinks"] is False and spec["shareProcessNamespace"] is True


def test_a_provider_with_its_state_elsewhere_is_a_deployment_that_ends_before_the_next_begins(
    stacks: dict[str, list[dict[str, Any]]],
) -> None:
    provider = named(stacks["remote state"], "Deployment", "akash-provider")["spec"]
    assert provider["strategy"] == {"type": "Recreate"} and provider["replicas"] == 1


def test_services_have_the_names_and_ports_that_the_go_providers_clients_look_up(
    everything: list[dict[str, Any]],
) -> None:
    ports = {
        item["metadata"]["name"]: {port["name"]: port["port"] for port in item["spec"]["ports"]}
        for item in everything
        if item["kind"] == "Service"
    }
    operators = ("operator-inventory", "operator-hostname", "operator-ip")
    assert [ports[name] for name in operators] == [{"rest": 8080, "grpc": 8081}] * 3
    for name in operators:
        pod = named(everything, "Deployment", name)["spec"]["template"]
        assert named(everything, "Service", name)["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        (container,) = pod["spec"]["containers"]
        assert container["name"] == name, "an operator finds its ports by the name of its container"
        assert {port["name"]: port["containerPort"] for port in container["ports"]} == ports[name]
    assert (ports["akash-provider"]["api"], ports["akash-provider"]["grpc"]) == (8443, 8444)


def test_the_own_namespace_is_closed_but_for_the_ports_that_are_served(everything: list[dict[str, Any]]) -> None:
    closed = named(everything, "NetworkPolicy", "closed", namespace="akash-services")["spec"]
    assert closed["podSelector"] == {} and closed["policyTypes"] == ["Ingress"] and not closed.get("ingress")
    inner, public = named(everything, "NetworkPolicy", "akash-provider")["spec"]["ingress"]
    assert [port["port"] for port in public["ports"]] == ["api", "grpc"] and not public.get("from")
    assert {port["port"] for port in inner["ports"]} == {"metrics", "health"}
    assert inner["from"][0]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "akash-services"}


def test_a_certificate_that_cert_manager_writes_is_mounted_whenever_it_comes(
    stacks: dict[str, list[dict[str, Any]]],
) -> None:
    found = stacks["given certificate"]
    pod = named(found, "StatefulSet", "akash-provider")["spec"]["template"]["spec"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "tls"]
    assert volume["secret"]["secretName"] == "provider-tls" and volume["secret"]["optional"]
    (mount,) = [each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == "tls"]
    data = named(found, "ConfigMap", "akash-provider")["data"]
    assert (data["AP_GATEWAY_TLS_CERT"], data["AP_GATEWAY_TLS_KEY"]) == (f"{mount}/tls.crt", f"{mount}/tls.key")


def test_settings_with_passwords_come_from_the_key_secret_where_it_has_them(everything: list[dict[str, Any]]) -> None:
    pod = named(everything, "StatefulSet", "akash-provider")["spec"]["template"]["spec"]
    sources = {each["name"]: each["valueFrom"] for each in pod["containers"][0]["env"] if each["name"] != "POD_NAME"}
    assert sources == {
        name: {"secretKeyRef": {"name": "lessor-key", "key": name, "optional": True}} for name in SECRET_VARIABLES
    }


def test_a_separate_gateway_is_a_container_beside_the_provider_with_all_but_the_key_and_the_passwords(
    stacks: dict[str, list[dict[str, Any]]],
) -> None:
    found = stacks["separate gateway"]
    pod = named(found, "StatefulSet", "akash-provider")["spec"]["template"]["spec"]
    provider, gateway = pod["containers"]
    assert (provider["command"], gateway["command"]) == (["lessor", "run"], ["lessor", "gateway"])
    mounts = [{each["name"] for each in container["volumeMounts"]} for container in (provider, gateway)]
    assert mounts == [{"home", "key", "tmp", "tls"}, {"home", "tmp", "tls"}]
    assert [each["name"] for each in gateway["env"]] == ["POD_NAME"]
    assert provider["envFrom"] == gateway["envFrom"]
    ports = [{each["name"] for each in container["ports"]} for container in (provider, gateway)]
    assert ports == [{"metrics", "health"}, {"api", "grpc"}], "a name is the port of one container"
    assert gateway["readinessProbe"]["tcpSocket"] == gateway["livenessProbe"]["tcpSocket"] == {"port": "api"}
    assert provider["securityContext"] == gateway["securityContext"]
    assert named(found, "ConfigMap", "akash-provider")["data"]["LESSOR_GATEWAY_PROCESS"] == "separate"
    service = named(found, "Service", "akash-provider")["spec"]["ports"]
    assert {each["name"] for each in service} == {"api", "grpc", "metrics", "health"}


def test_a_gateway_that_is_a_child_is_in_the_providers_container(stacks: dict[str, list[dict[str, Any]]]) -> None:
    found = stacks["gateway as a child"]
    (container,) = named(found, "StatefulSet", "akash-provider")["spec"]["template"]["spec"]["containers"]
    assert {"api", "grpc"} <= {each["name"] for each in container["ports"]}
    assert named(found, "ConfigMap", "akash-provider")["data"]["LESSOR_GATEWAY_PROCESS"] == "child"
    inside = named(stacks["everything"], "ConfigMap", "akash-provider")["data"]
    assert "LESSOR_GATEWAY_PROCESS" not in inside


def test_challenges_of_a_ca_reach_a_provider_that_orders_its_certificate(
    stacks: dict[str, list[dict[str, Any]]], everything: list[dict[str, Any]]
) -> None:
    found = stacks["ordered certificate"]
    route = named(found, "Ingress", "akash-provider-challenges")["spec"]
    assert [rule["host"] for rule in route["rules"]] == ["provider.example.com", "other.example.com"]
    (path,) = route["rules"][0]["http"]["paths"]
    assert path["path"] == "/.well-known/acme-challenge/"
    backend = path["backend"]["service"]
    ports = named(found, "Service", backend["name"])["spec"]["ports"]
    (port,) = [int(port["port"]) for port in ports if port["name"] == backend["port"]["name"]]
    (container,) = named(found, "StatefulSet", "akash-provider")["spec"]["template"]["spec"]["containers"]
    assert port in [each["containerPort"] for each in container["ports"]]
    assert named(found, "ConfigMap", "akash-provider")["data"]["AP_CERT_ISSUER_HTTP_CHALLENGE_PORT"] == str(port)
    _, public = named(found, "NetworkPolicy", "akash-provider")["spec"]["ingress"]
    assert "challenges" in [each["port"] for each in public["ports"]]
    other = named(stacks["ordered certificate, gateway"], "HTTPRoute", "akash-provider-challenges")["spec"]
    assert other["hostnames"] == ["provider.example.com", "other.example.com"]
    assert other["rules"][0]["backendRefs"] == [{"name": "akash-provider", "port": port}]
    assert not [item for item in everything if item["kind"] == "Ingress"]


def test_pulumi_does_not_wait_for_processes_that_wait_for_the_chain(everything: list[dict[str, Any]]) -> None:
    awaited = [item for item in everything if item["kind"] in ("StatefulSet", "Deployment", "DaemonSet", "Service")]
    assert {item["metadata"]["annotations"]["pulumi.com/skipAwait"] for item in awaited} == {"true"}


def test_classes_are_labelled_and_made(everything: list[dict[str, Any]]) -> None:
    assert named(everything, "StorageClass", "beta2")["metadata"]["labels"] == {"akash.network": "true"}
    assert named(everything, "RuntimeClass", "nvidia")["handler"] == "nvidia"
    assert named(everything, "PriorityClass", "lessor")["value"] < 2_000_000_000


def test_a_service_monitor_finds_the_metrics_port_and_is_made_only_where_it_is_asked_for(
    stacks: dict[str, list[dict[str, Any]]],
) -> None:
    objects = stacks["no operators"]
    (monitor,) = (item for item in objects if item["kind"] == "ServiceMonitor")
    service = named(objects, "Service", "akash-provider", namespace=monitor["metadata"]["namespace"])
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["path"] == "/metrics"
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    others = (item["kind"] for name, made in stacks.items() if name != "no operators" for item in made)
    assert "ServiceMonitor" not in set(others)


def test_every_process_has_an_account_of_its_own_and_a_disruption_budget(everything: list[dict[str, Any]]) -> None:
    workloads = [item for item in everything if item["kind"] in ("StatefulSet", "Deployment")]
    workloads = [item for item in workloads if item["metadata"]["namespace"] == "akash-services"]
    accounts = [item["spec"]["template"]["spec"]["serviceAccountName"] for item in workloads]
    assert sorted(accounts) == ["lessor", "operator-hostname", "operator-inventory", "operator-ip"]
    budgets = {item["metadata"]["name"] for item in everything if item["kind"] == "PodDisruptionBudget"}
    assert budgets == {item["metadata"]["name"] for item in workloads}
    discovery = named(everything, "ServiceAccount", "operator-inventory-hardware-discovery")
    assert discovery["automountServiceAccountToken"] is False


def test_operators_read_what_the_provider_reads_and_no_more(everything: list[dict[str, Any]]) -> None:
    of_ips, of_hosts = (named(everything, "ConfigMap", name)["data"] for name in ("operator-ip", "operator-hostname"))
    assert of_ips == {
        "AP_K8S_MANIFEST_NS": "lease",
        "LESSOR_IP_POOLS": "public",
        "LESSOR_IP_RANGES": "203.0.113.8/29",
        "LESSOR_METALLB_NAMESPACE": "metallb-system",
    }
    assert of_hosts == {"AP_K8S_MANIFEST_NS": "lease"}
    provider = named(everything, "ConfigMap", "akash-provider")["data"]
    assert provider["AP_FROM"] == ACCOUNT
    assert provider["LESSOR_INVENTORY_ENDPOINT"] == "http://operator-inventory.akash-services.svc:8080"
    volumes = {
        item["metadata"]["name"]: [volume["name"] for volume in item["spec"]["template"]["spec"]["volumes"]]
        for item in everything
        if item["kind"] == "Deployment" and item["metadata"]["namespace"] == "akash-services"
    }
    assert volumes == {
        "operator-hostname": ["tmp"],
        "operator-inventory": ["tmp", "configuration"],
        "operator-ip": ["tmp"],
    }, "the key is the provider's alone"
    commands = {
        name: named(everything, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]["command"]
        for name in ("operator-ip", "operator-inventory")
    }
    assert f"--provider={ACCOUNT}" in commands["operator-ip"]
    assert "--config=/etc/lessor/config.yaml" in commands["operator-inventory"]
    file = named(everything, "ConfigMap", "operator-inventory")["data"]["config.yaml"]
    assert json.loads(file)["cluster_storage"] == ["beta2"]


def test_liveness_of_an_operator_is_its_open_port_or_a_path_that_asks_nobody(everything: list[dict[str, Any]]) -> None:
    probes = {
        name: named(everything, "Deployment", name)["spec"]["template"]["spec"]["containers"][0]
        for name in ("operator-inventory", "operator-hostname", "operator-ip")
    }
    assert probes["operator-inventory"]["livenessProbe"]["httpGet"] == {"path": "/metrics/health", "port": "rest"}
    for name in ("operator-hostname", "operator-ip"):
        assert probes[name]["livenessProbe"]["tcpSocket"] == {"port": "rest"}
        assert probes[name]["readinessProbe"]["httpGet"] == {"path": "/health", "port": "rest"}


def test_another_environment_replaces_the_pods_that_read_it(stacks: dict[str, list[dict[str, Any]]]) -> None:
    def mark(name: str) -> str:
        template = named(stacks[name], "StatefulSet", "akash-provider")["spec"]["template"]
        return str(template["metadata"]["annotations"]["akash.network/configuration"])

    assert mark("everything") != mark("no operators")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"hostPID": True}, "no-host-namespace"),
        ({"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}, "no-added-capability"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "no-node-volume"),
    ],
)
def test_the_speaker_has_the_network_of_its_node_and_no_more(
    change: dict[str, Any], rule: str, everything: list[dict[str, Any]]
) -> None:
    named(everything, "DaemonSet", "speaker")["spec"]["template"]["spec"].update(change)
    assert rule in {each.rule for each in judge(everything, domain=Domain.CLUSTER)}


def test_what_only_the_speaker_may_nobody_else_may(everything: list[dict[str, Any]]) -> None:
    controller = named(everything, "Deployment", "controller")
    controller["spec"]["template"]["spec"]["hostNetwork"] = True
    controller["metadata"]["labels"]["component"] = "speaker"
    assert "no-host-namespace" in {each.rule for each in judge(everything, domain=Domain.CLUSTER)}


def test_the_api_server_reaches_the_discovery_pods_of_a_closed_namespace(everything: list[dict[str, Any]]) -> None:
    spec = named(everything, "NetworkPolicy", "operator-inventory-hardware-discovery")["spec"]
    assert spec["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "inventory-hardware-discovery"
    assert spec["ingress"] == [{"ports": [{"protocol": "TCP", "port": 8081}]}]


def test_only_a_provider_elsewhere_asks_the_inventory_operator_through_the_api_server(
    stacks: dict[str, list[dict[str, Any]]],
) -> None:
    role = named(stacks["defaults"], "Role", "lessor-provider")
    assert role["metadata"]["namespace"] == "akash-services"
    assert role["rules"][0]["resourceNames"] == ["operator-inventory:rest"]
    assert not [
        item for item in stacks["everything"] if item["kind"] == "Role" and "lessor" in item["metadata"]["name"]
    ]


def test_metallb_comes_without_a_pool_and_without_a_webhook(everything: list[dict[str, Any]]) -> None:
    kinds = [item["kind"] for item in everything]
    assert not {"IPAddressPool", "L2Advertisement", "ValidatingWebhookConfiguration"} & set(kinds)
    definitions = {item["metadata"]["name"] for item in everything if item["kind"] == "CustomResourceDefinition"}
    assert {"ipaddresspools.metallb.io", "l2advertisements.metallb.io", "servicel2statuses.metallb.io"} <= definitions
    controller = named(everything, "Deployment", "controller")
    assert controller["metadata"]["namespace"] == "metallb-system"
    arguments = controller["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--webhook-mode=disabled", "--namespace=metallb-system"} <= set(arguments)
    rights = json.dumps([item for item in everything if item["metadata"]["name"] == "metallb-controller"])
    assert "customresourcedefinitions" not in rights and "webhookconfigurations" not in rights
    speaker = named(everything, "DaemonSet", "speaker")["spec"]["template"]["spec"]
    assert speaker["hostNetwork"] is True
    assert speaker["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_RAW"]}


def test_the_gateway_takes_routes_of_leases_alone(stacks: dict[str, list[dict[str, Any]]]) -> None:
    gateway = named(stacks["gateway"], "Gateway", "akash-gateway")["spec"]
    found = [(one["name"], one["port"], one.get("hostname")) for one in gateway["listeners"]]
    assert found == [
        ("http", 80, None),
        ("https-wildcard", 443, "*.ingress.example.com"),
        ("https-custom", 443, None),
    ]
    (allowed,) = {json.dumps(one["allowedRoutes"]["namespaces"]) for one in gateway["listeners"]}
    assert json.loads(allowed) == {"from": "Selector", "selector": {"matchLabels": {"akash.network": "true"}}}
    policy = named(stacks["gateway"], "ClientSettingsPolicy", "akash-gateway")["spec"]
    assert policy["body"] == {"maxSize": "104857600"}, "the largest body that an SDL may ask for"
    assert not {"Gateway", "IngressClass"} & {item["kind"] for item in stacks["given gateway"]}


def test_every_own_namespace_without_public_services_is_closed(everything: list[dict[str, Any]]) -> None:
    closed = {
        item["metadata"]["namespace"]: item["spec"]["policyTypes"]
        for item in everything
        if item["kind"] == "NetworkPolicy" and item["metadata"]["name"] == "closed"
    }
    assert closed == {
        "akash-services": ["Ingress"],
        "lease": ["Ingress", "Egress"],
        "metallb-system": ["Ingress"],
    }


GIVEN: dict[str, Sequence[tuple[Sequence[Rule], str]]] = {
    "lessor": [(PROVIDER_RULES, "")],
    "operator-inventory": [(CLUSTER_RULES, ""), (NAMESPACE_RULES, "akash-services"), (ROOK_RULES, "rook-ceph")],
    "operator-hostname": [(HOSTNAME_RULES, "lease")],
    "operator-ip": [(IP_RULES, "lease"), (IP_METALLB_RULES, "metallb-system"), (IP_CLUSTER_RULES, "")],
}


@pytest.mark.parametrize("account", GIVEN)
def test_the_roles_give_an_account_what_its_process_was_seen_to_use(
    account: str, everything: list[dict[str, Any]]
) -> None:
    """Other tests compare the tables with what each process asks."""
    wanted = {
        Right(group, resource, verb, namespace)
        for rules, namespace in GIVEN[account]
        for group, resources, verbs in rules
        for resource in resources
        for verb in verbs
    }
    assert granted_to(account, everything) == wanted


def test_the_fence_lets_the_account_write_its_records(everything: list[dict[str, Any]]) -> None:
    """The names are the provider's: a record that the API server refuses keeps a lease from its end."""
    fence = json.dumps(named(everything, "ValidatingAdmissionPolicy", "lessor-provider")["spec"])
    released = releases_object({}, ["a.example.com"], ACCOUNT, until=1.0, namespace="lease")["metadata"]["name"]
    assert f"variables.name == '{released}'" in fence
    applied = applied_name(LeaseId(ACCOUNT, 1, 1, 1, ACCOUNT))
    assert any(applied.startswith(part) for part in fence.split("startsWith('")[1:] for part in [part.split("'")[0]])


def test_what_an_earlier_stack_has_left_is_taken_over(everything: list[dict[str, Any]]) -> None:
    own = [
        item
        for item in everything
        if (item["metadata"].get("annotations") or {}).get("pulumi.com/patchForce") != "true"
    ]
    assert [f"{item['kind']} {item['metadata']['name']}" for item in own] == []


def test_no_other_account_has_rights(everything: list[dict[str, Any]]) -> None:
    named_ = {subject["name"] for item in everything for subject in item.get("subjects") or ()}
    assert named_ == GIVEN.keys() | {"controller", "speaker"}


def _first_container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = named(objects, "StatefulSet", "akash-provider")["spec"]["template"]["spec"]
    return found


FORBIDDEN: dict[str, Any] = {
    "no-node-volume": lambda objects: _first_container(objects)["volumes"].append({"name": "v", "hostPath": {}}),
    "no-host-namespace": lambda objects: _first_container(objects).update(hostNetwork=True),
    "unprivileged-own-pods": lambda objects: _first_container(objects)["containers"][0].pop("securityContext"),
    "named-accounts": lambda objects: _first_container(objects).pop("serviceAccountName"),
    "liveness-asks-nobody": lambda objects: _first_container(objects)["containers"][0].pop("livenessProbe"),
    "no-power-over-the-cluster": lambda objects: named(objects, "ClusterRole", "lessor-provider")["rules"].append(
        {"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]}
    ),
    "no-cluster-rights": lambda objects: named(objects, "ClusterRoleBinding", "lessor-provider").update(
        roleRef={"kind": "ClusterRole", "name": "cluster-admin"}
    ),
    "bounded-accounts": lambda objects: named(objects, "ValidatingAdmissionPolicyBinding", "lessor-provider")[
        "spec"
    ].update(validationActions=["Audit"]),
    "no-webhook": lambda objects: objects.append({"kind": "ValidatingWebhookConfiguration", "metadata": {}}),
    "no-privileged-namespace": lambda objects: named(objects, "Namespace", "akash-services")["metadata"][
        "labels"
    ].update({"pod-security.kubernetes.io/enforce": "privileged"}),
    "own-namespaces-closed": lambda objects: objects.remove(
        named(objects, "NetworkPolicy", "closed", namespace="akash-services")
    ),
    "fixed-version": lambda objects: _first_container(objects)["containers"][0].update(image="lessor:latest"),
}


@pytest.mark.parametrize("rule", FORBIDDEN)
def test_what_the_cluster_stack_must_not_have_is_found(rule: str, everything: list[dict[str, Any]]) -> None:
    FORBIDDEN[rule](everything)
    assert rule in {each.rule for each in judge(everything, domain=Domain.CLUSTER)}


def test_every_rule_of_the_cluster_stack_alone_has_such_a_shape() -> None:
    assert {rule.id for rule in RULES if tuple(rule.domains) == (Domain.CLUSTER,)} <= FORBIDDEN.keys()


def in_a_cluster(objects: list[dict[str, Any]]) -> FakeCluster:
    """A cluster with the objects, as an API server has completed them."""
    cluster = FakeCluster("akash-services", "lease", "metallb-system", "rook-ceph")
    for obj in copy.deepcopy(objects):
        if obj["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            pod = obj["spec"]["template"]["spec"]
            pod |= {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
            pod["serviceAccount"] = pod["serviceAccountName"]
        cluster.put(obj)
    return cluster


async def test_an_audit_finds_nothing_wrong_with_the_cluster_stack_and_finds_what_hands_have_changed(
    everything: list[dict[str, Any]],
) -> None:
    untouched = await audit_cluster_stack(RuleBook(), in_a_cluster(everything))
    assert not untouched.findings and not untouched.unread
    _first_container(everything)["hostNetwork"] = True
    (found,) = (await audit_cluster_stack(RuleBook(), in_a_cluster(everything))).findings
    assert (found.namespace, found.source, found.violation.rule) == ("cluster-stack", "running", "no-host-namespace")


async def test_an_audit_names_the_kinds_of_the_cluster_stack_that_the_account_may_not_list(
    everything: list[dict[str, Any]],
) -> None:
    cluster = in_a_cluster(everything)

    def refuse(operation: str, kind: str, name: str) -> None:
        if kind == "ClusterRole":
            raise ClusterError("x", "forbidden", status=403)

    cluster.before = refuse
    assert (await audit_cluster_stack(RuleBook(), cluster)).unread == ["clusterroles"]


def test_an_audit_of_an_exported_state_judges_the_cluster_stack(
    everything: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AP_HOME", str(tmp_path))

    def audited() -> list[str]:
        resources = [
            {"type": f"kubernetes:{obj['apiVersion']}:{obj['kind']}", "inputs": obj, "outputs": {}}
            for obj in everything
        ]
        export = tmp_path / "export.json"
        export.write_text(json.dumps({"version": 3, "deployment": {"resources": resources}}))
        command = ["policy", "audit", "--no-recorded", "--no-running", "--cluster-stack", str(export), "--json"]
        shown = CliRunner().invoke(build_app(), command)
        return [found["rule"] for found in json.loads(shown.stdout)]

    assert audited() == []
    _first_container(everything).pop("serviceAccountName")
    assert "named-accounts" in audited()
