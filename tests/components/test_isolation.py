"""NetworkPolicies, rights and namespaces (kubernetes-objects.md §2.1–2.3, T10–T15)."""

from __future__ import annotations

import json

import pytest

from components.access import access_objects, access_rules
from components.errors import BuildError
from components.isolation import CLOSED_RANGES, isolation_objects
from components.lease import namespace_object
from lease.spec import ClusterFacts, IngressMode, LeaseSpec
from tests.components.specs import LEASE, NAMESPACE, port, service, spec

OWN = {"namespaceSelector": {"matchLabels": {"akash.network/namespace": NAMESPACE}}}
POD_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch"]},
]
EVENT_RULES = [{"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list", "watch"]}]


def policies(*services, **facts):
    return {
        item["metadata"]["name"]: item for item in isolation_objects(spec(*services, cluster=ClusterFacts(**facts)))
    }


def test_the_namespace_says_whose_lease_it_holds():
    assert namespace_object(spec()) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": NAMESPACE,
            "labels": {
                "akash.network": "true",
                "akash.network/namespace": NAMESPACE,
                "akash.network/manifest.resource.version": "42",
                "akash.network/lease.id.owner": LEASE.owner,
                "akash.network/lease.id.dseq": "12345678",
                "akash.network/lease.id.gseq": "1",
                "akash.network/lease.id.oseq": "1",
                "akash.network/lease.id.provider": LEASE.provider,
            },
        },
    }


def test_policies_off_makes_none():
    assert isolation_objects(spec(cluster=ClusterFacts(network_policies=False))) == ()


def test_an_empty_group_still_gets_the_restrictions():
    assert [item["metadata"]["name"] for item in isolation_objects(spec(services=()))] == [
        "akash-deployment-restrictions"
    ]


def test_a_service_on_the_http_edge_needs_no_policy_of_its_own():
    assert list(policies()) == ["akash-deployment-restrictions"]


def test_namespace_and_policies_keep_the_version_of_the_first_deployment():
    later = spec(service(resource_version="99"), first_resource_version="42")
    made = [namespace_object(later), *isolation_objects(later)]
    assert {item["metadata"]["labels"]["akash.network/manifest.resource.version"] for item in made} == {"42"}


def test_a_tenant_reaches_the_world_but_no_private_link_local_or_carrier_range():
    egress = policies()["akash-deployment-restrictions"]["spec"]["egress"]
    closed = ["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12", "169.254.0.0/16", "100.64.0.0/10"]
    assert egress[0] == {"to": [OWN]}
    assert egress[1]["ports"] == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    assert egress[2:] == [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": closed}}]}]


@pytest.mark.parametrize(
    ("facts", "namespaces"),
    [
        ({}, []),
        ({"ingress_mode": IngressMode.GATEWAY_API}, ["akash-gateway"]),
        ({"ingress_mode": IngressMode.GATEWAY_API, "gateway_namespace": ""}, []),
    ],
)
def test_the_gateway_is_let_in_only_in_its_mode(facts, namespaces):
    ingress = policies(**facts)["akash-deployment-restrictions"]["spec"]["ingress"]
    nginx = {"matchLabels": {"app.kubernetes.io/name": "ingress-nginx"}}
    assert ingress[:2] == [{"from": [OWN]}, {"from": [{"namespaceSelector": nginx, "podSelector": nginx}]}]
    allowed = [
        rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for rule in ingress[2:]
    ]
    assert allowed == namespaces


def test_node_ports_are_open_to_everybody_by_container_port_and_protocol():
    ports = (port(80, global_=True), port(53, 5353, index=1, proto="UDP", global_=True), port(22, index=2))
    assert policies(service(ports=ports))["akash-web-np"]["spec"] == {
        "podSelector": {"matchLabels": {"akash.network/manifest-service": "web"}},
        "ingress": [{"ports": [{"protocol": "UDP", "port": 53}]}],
        "policyTypes": ["Ingress"],
    }


def test_a_leased_address_opens_its_ports_even_on_the_http_edge():
    made = policies(service(ports=(port(8080, 80, global_=True, ip_name="meow"),)))
    assert list(made) == ["akash-deployment-restrictions", "akash-web-ip"]
    assert made["akash-web-ip"]["spec"]["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 8080}], "from": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}
    ]


def test_a_service_with_permissions_reaches_every_backend_of_the_api_server():
    made = policies(
        service(permissions_read=("logs",)),
        api_server_endpoints=("192.0.2.1:6443", "192.0.2.2:6443", "[2001:db8::1]:443"),
    )
    assert made["akash-apiserver-web"]["spec"]["egress"] == [
        {
            "ports": [{"protocol": "TCP", "port": 6443}, {"protocol": "TCP", "port": 443}],
            "to": [{"ipBlock": {"cidr": c}} for c in ("192.0.2.1/32", "192.0.2.2/32", "2001:db8::1/128")],
        }
    ]


@pytest.mark.parametrize(
    ("read", "endpoints"), [((), ("192.0.2.1:6443",)), (("logs",), ())], ids=["no permissions", "no known endpoint"]
)
def test_otherwise_the_api_server_stays_closed(read, endpoints):
    made = policies(service(permissions_read=read), api_server_endpoints=endpoints)
    assert "akash-apiserver-web" not in made


@pytest.mark.parametrize("text", ["kubernetes:6443", "192.0.2.1", "192.0.2.1:", "0.0.0.0/0:443", ""])
def test_an_api_endpoint_that_is_no_address_and_port_is_refused(text):
    with pytest.raises(BuildError, match="api-server-endpoints"):
        policies(service(permissions_read=("logs",)), api_server_endpoints=(text,))


@pytest.mark.parametrize(
    ("read", "rules"),
    [
        ((), []),
        (("logs",), POD_RULES),
        (("logs", "logs", "logs"), POD_RULES),
        (("unknown-resource",), []),
        (("logs", "events"), POD_RULES + EVENT_RULES),
        (("events", "deployment", "logs"), EVENT_RULES + POD_RULES),
    ],
)
def test_permissions_become_rules_in_their_order_and_once(read, rules):
    assert list(access_rules(read)) == rules


def test_a_service_without_permissions_gets_no_account():
    assert access_objects(spec(), service()) == ()


def test_account_role_and_binding_are_named_and_labelled_after_the_service():
    made = access_objects(spec(), service(permissions_read=("logs",)))
    assert [item["kind"] for item in made] == ["ServiceAccount", "Role", "RoleBinding"]
    for item in made:
        labels = item["metadata"]["labels"]
        assert item["metadata"]["name"] == "web"
        assert labels["akash.network/manifest-service"] == "web"
        assert labels["akash.network"] == "true"
        assert labels["akash.network/lease.id.owner"] == LEASE.owner
    assert made[2]["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"}
    assert made[2]["subjects"] == [{"kind": "ServiceAccount", "name": "web", "namespace": NAMESPACE}]


TRAEFIK = {"edge_namespace": "traefik", "edge_labels": ("app.kubernetes.io/name=traefik", "tier=")}


@pytest.mark.parametrize("mode", list(IngressMode))
@pytest.mark.parametrize(
    ("labels", "pods"),
    [
        ((), {}),
        (TRAEFIK["edge_labels"], {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "traefik", "tier": ""}}}),
    ],
)
def test_an_edge_that_the_settings_name_is_let_in_beside_the_others(mode, labels, pods):
    plain = policies(ingress_mode=mode)["akash-deployment-restrictions"]["spec"]
    named = policies(ingress_mode=mode, edge_namespace="traefik", edge_labels=labels)
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "traefik"}}} | pods
    assert named["akash-deployment-restrictions"]["spec"] == plain | {"ingress": [*plain["ingress"], {"from": [peer]}]}


def test_the_nodes_own_dns_cache_is_reached_by_its_address_and_only_for_dns():
    """Its address is link-local, so that closing the range would take every name from every tenant."""
    plain = policies()["akash-deployment-restrictions"]["spec"]["egress"]
    egress = policies(node_dns=("169.254.25.10", "fd00::10", "169.254.25.10"))["akash-deployment-restrictions"]["spec"]
    peers = [{"ipBlock": {"cidr": "169.254.25.10/32"}}, {"ipBlock": {"cidr": "fd00::10/128"}}]
    assert egress["egress"] == [*plain[:2], plain[1] | {"to": peers}, plain[2]]


def test_an_operator_closes_more_ranges_and_opens_none():
    more = ("203.0.113.0/24", "168.63.129.16/32", "10.0.0.0/8")
    block = policies(closed_ranges=more)["akash-deployment-restrictions"]["spec"]["egress"][2]["to"][0]["ipBlock"]
    assert block == {"cidr": "0.0.0.0/0", "except": [*CLOSED_RANGES, "203.0.113.0/24", "168.63.129.16/32"]}


@pytest.mark.parametrize(
    ("facts", "setting"),
    [
        ({"edge_labels": ("a=b",)}, "edge labels"),
        ({"edge_namespace": "a b"}, "edge namespace"),
        ({"edge_namespace": "a", "edge_labels": ("ab",)}, "edge labels"),
        ({"edge_namespace": "a", "edge_labels": ("=b",)}, "edge labels"),
        ({"edge_namespace": "a", "edge_labels": ("/x=b",)}, "edge labels"),
        ({"edge_namespace": "a", "edge_labels": ("x= b",)}, "edge labels"),
        ({"node_dns": ("dns.example",)}, "node dns"),
        ({"node_dns": ("0.0.0.0/0",)}, "node dns"),
        ({"closed_ranges": ("0.0.0.0/0",)}, "closed ranges"),
        ({"closed_ranges": ("192.0.2.1/24",)}, "closed ranges"),
        ({"closed_ranges": ("fd00::/8",)}, "closed ranges"),
    ],
)
def test_a_setting_that_would_not_close_what_it_says_is_refused(facts, setting):
    with pytest.raises(BuildError, match=f"setting {setting}"):
        policies(**facts)


def test_no_rule_reaches_an_ipv6_address_outside_the_lease():
    """Egress is closed but for what is listed, and what is listed is IPv4: fe80::/10, fd00::/8 and the rest."""
    spec_of = policies(service(ports=(port(53, proto="UDP", global_=True, ip_name="a"),)))
    blocks = [
        peer["ipBlock"]["cidr"]
        for policy in spec_of.values()
        for rule in policy["spec"].get("egress", ())
        for peer in rule["to"]
        if "ipBlock" in peer
    ]
    assert blocks == ["0.0.0.0/0"]


def test_what_is_not_set_leaves_the_hash_of_a_spec_as_it_was():
    cluster = json.loads(spec().canonical_json())["cluster"]
    assert not {"edge_namespace", "edge_labels", "node_dns", "closed_ranges"} & set(cluster)
    named = spec(cluster=ClusterFacts(**TRAEFIK, node_dns=("169.254.25.10",), closed_ranges=("203.0.113.0/24",)))
    assert LeaseSpec.from_json(named.canonical_json()) == named
    assert named.content_hash() != spec(cluster=ClusterFacts()).content_hash()
