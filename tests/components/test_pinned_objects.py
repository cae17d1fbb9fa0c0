"""Behaviours pinned by the Go provider's tests that concern the builders (kubernetes-objects.md §9), in their order.

Which test holds a number that is not here: `test_reference_index.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.access import access_objects, access_rules
from components.changes import Op, compare, refusals
from components.edge_options import ingress_annotations, route_annotations
from components.hostname import hostname_object
from components.isolation import isolation_objects
from components.lease import lease_objects
from components.leased_ip import leased_ip_service
from components.service import cluster_service, node_port_service
from components.workload import workload_object
from lease.addresses import leased_ip_name, sharing_key
from lease.build import SpecSettings, committed, lease_spec
from lease.errors import SpecRefused
from lease.ids import LeaseId
from lease.manifest import Group, Params, Permissions
from lease.sdl import read_sdl
from lease.spec import ClusterFacts, IngressMode, LeaseSpec, VolumeKind, VolumeSpec
from provider.records.manifests import ManifestRecord, manifest_object
from tests.components.specs import LEASE, environment, hostname, leased_ip, port, service, spec

MIXED = (port(1000, 1001, global_=True), port(2000, 2001, index=1))
GATEWAY = ClusterFacts(
    ingress_mode=IngressMode.GATEWAY_API, gateway_name="test-gateway", gateway_namespace="test-namespace"
)


def ports_of(made: dict[str, Any] | None) -> list[dict[str, Any]]:
    assert made is not None
    return made["spec"]["ports"]


def built(expose: str, *, params: Params | None = None, **changes: Any) -> LeaseSpec:
    """The lease of an SDL with one service `web` that exposes the given list."""
    group = read_sdl(
        f"""
version: "2.0"
services: {{web: {{image: nginx, expose: {expose}}}}}
profiles:
  compute: {{web: {{resources: {{cpu: {{units: 1}}, memory: {{size: 1Gi}}, storage: {{size: 1Gi}}}}}}}}
  placement: {{dc: {{pricing: {{web: {{denom: uact, amount: 1}}}}}}}}
deployment: {{web: {{dc: {{profile: web, count: 1}}}}}}
"""
    ).manifest[0]
    assert group.services is not None
    group = Group(group.name, (replace(group.services[0], params=params),))
    arguments: dict[str, Any] = {
        "lease": LEASE,
        "group": group,
        "resource_version": "42",
        "placements": {},
        "addresses": {},
        "cluster": ClusterFacts(),
        "settings": SpecSettings(),
    }
    return lease_spec(**arguments | changes)


def trio(name: str) -> set[tuple[str, str]]:
    return {(kind, name) for kind in ("ServiceAccount", "Role", "RoleBinding")}


def removed(before: LeaseSpec, after: LeaseSpec) -> set[tuple[str, str]]:
    changes = compare(lease_objects(before), lease_objects(after))
    return {(change.kind, change.name) for change in changes if change.op is Op.DELETE}


def rbac_of(lease: LeaseSpec) -> set[tuple[str, str]]:
    kinds = ("ServiceAccount", "Role", "RoleBinding")
    return {(item["kind"], item["metadata"]["name"]) for item in lease_objects(lease) if item["kind"] in kinds}


def test_the_manifest_object_is_named_like_the_namespace_and_says_dseq_in_decimal():
    """kubernetes-objects.md §9 T1"""
    lease = LeaseId(LEASE.owner, 2**64 - 1, 1, 1, LEASE.provider)
    made = manifest_object(ManifestRecord(lease=lease, group=Group("dc", ()), placements={}), namespace="nstest1111")
    assert made["metadata"]["namespace"] == "nstest1111"
    assert made["metadata"]["name"] == spec(lease=lease).namespace
    assert made["spec"]["lease_id"]["dseq"] == "18446744073709551615"


def test_without_exposes_there_is_no_node_port_service():
    """kubernetes-objects.md §9 T2"""
    assert node_port_service(spec(), service("myservice", ports=())) is None


def test_without_exposes_there_is_no_cluster_service():
    """kubernetes-objects.md §9 T3"""
    assert cluster_service(spec(), service("myservice", ports=())) is None


def test_a_local_expose_needs_no_node_port():
    """kubernetes-objects.md §9 T4"""
    assert node_port_service(spec(), service("myservice", ports=(port(1000, 1001),))) is None


def test_a_global_expose_needs_no_cluster_service():
    """kubernetes-objects.md §9 T5: a port that is not 80, which the HTTP edge would reach by a ClusterIP Service."""
    assert cluster_service(spec(), service("myservice", ports=(port(1000, global_=True),))) is None


def test_of_a_mixed_pair_the_global_one_is_the_node_port():
    """kubernetes-objects.md §9 T6"""
    made = node_port_service(spec(), service("myservice", ports=MIXED))
    assert made is not None
    assert (made["metadata"]["name"], made["spec"]["type"]) == ("myservice-np", "NodePort")
    assert ports_of(made) == [{"name": "0-1001", "protocol": "TCP", "port": 1001, "targetPort": 1000}]


def test_of_a_mixed_pair_the_local_one_is_a_cluster_port():
    """kubernetes-objects.md §9 T7"""
    made = cluster_service(spec(), service("myservice", ports=MIXED))
    assert made is not None
    assert (made["metadata"]["name"], made["spec"]["type"]) == ("myservice", "ClusterIP")
    assert ports_of(made)[0] == {"name": "1-2001", "protocol": "TCP", "port": 2001, "targetPort": 2000}


def test_a_container_knows_its_lease_and_the_providers_public_name():
    """kubernetes-objects.md §9 T8"""
    made = built("[{port: 1, to: [{global: true}]}]", cluster=ClusterFacts(public_hostname="ahostname.dev"))
    pod = workload_object(made, made.services[0])["spec"]["template"]["spec"]
    assert {item["name"]: item["value"] for item in pod["containers"][0]["env"]} == {
        "AKASH_GROUP_SEQUENCE": "1",
        "AKASH_DEPLOYMENT_SEQUENCE": "12345678",
        "AKASH_ORDER_SEQUENCE": "1",
        "AKASH_OWNER": LEASE.owner,
        "AKASH_PROVIDER": LEASE.provider,
        "AKASH_CLUSTER_PUBLIC_HOSTNAME": "ahostname.dev",
        "NVIDIA_VISIBLE_DEVICES": "void",
    }


def test_the_account_token_is_mounted_for_the_service_with_permissions_only():
    """kubernetes-objects.md §9 T9"""
    reader, sibling = service("reader", permissions_read=("logs",)), service("sibling")
    lease = spec(reader, sibling)
    tokens = [
        workload_object(lease, item)["spec"]["template"]["spec"]["automountServiceAccountToken"]
        for item in lease.services
    ]
    assert tokens == [True, False]


@pytest.mark.parametrize(
    ("params", "read"),
    [
        (None, ()),
        (Params(), ()),
        (Params(permissions=Permissions(None)), ()),
        (Params(permissions=Permissions(())), ()),
        (Params(permissions=Permissions(("logs",))), ("logs",)),
    ],
)
def test_permissions_are_there_only_if_something_may_be_read(params, read):
    """kubernetes-objects.md §9 T10"""
    made = built("[{port: 1, to: [{global: true}]}]", params=params).services[0]
    assert made.permissions_read == read
    assert bool(access_objects(spec(made), made)) is bool(read)


@pytest.mark.parametrize(
    ("read", "resources"),
    [
        ((), []),
        (("logs",), ["pods", "pods/log", "deployments"]),
        (("logs", "logs", "logs"), ["pods", "pods/log", "deployments"]),
        (("unknown-resource",), []),
    ],
)
def test_each_permission_makes_its_rules_once_and_an_unknown_one_none(read, resources):
    """kubernetes-objects.md §9 T11"""
    rules = access_rules(read)
    assert [rule["resources"][0] for rule in rules] == resources
    verbs = {"pods": "get list watch", "pods/log": "get", "deployments": "get list watch"}
    assert all(" ".join(rule["verbs"]) == verbs[rule["resources"][0]] for rule in rules)
    assert [rule["apiGroups"] for rule in rules] == [[""], [""], ["apps"]][: len(rules)]


def test_a_role_for_logs_and_events_has_four_rules_and_no_permissions_no_role():
    """kubernetes-objects.md §9 T13"""
    role = access_objects(spec(), service(permissions_read=("logs", "events")))[1]
    assert len(role["rules"]) == 4
    assert role["rules"][-1] == {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list", "watch"]}
    assert access_objects(spec(), service()) == ()


def test_account_role_and_binding_say_whose_they_are():
    """kubernetes-objects.md §9 T14"""
    made = access_objects(spec(), service(permissions_read=("logs",)))
    labels = [item["metadata"]["labels"] for item in made]
    assert [(item["akash.network"], item["akash.network/manifest-service"]) for item in labels] == [("true", "web")] * 3


def test_policies_are_a_setting_and_say_whose_namespace_they_guard():
    """kubernetes-objects.md §9 T15"""
    assert isolation_objects(spec(cluster=ClusterFacts(network_policies=False))) == ()
    (only,) = isolation_objects(spec(services=()))
    assert only["metadata"]["name"] == "akash-deployment-restrictions"
    assert only["metadata"]["labels"]["akash.network/namespace"] == spec().namespace


@pytest.mark.parametrize(("factor", "requested"), [(-1, 100), (0, 100), (1, 100), (2, 50), (3, 33), (10000, 1)])
def test_a_hundred_divided_by_the_commit_level(factor, requested):
    """kubernetes-objects.md §9 T16: our setting is percent above one."""
    assert committed(100, (factor - 1) * 100) == requested


def test_rights_of_a_service_that_lost_its_permissions_beside_another_go():
    """kubernetes-objects.md §9 T17"""
    current = service("current-service", permissions_read=("logs",))
    before = spec(service("old-service", permissions_read=("logs",)), current)
    after = spec(service("old-service"), current)
    assert removed(before, after) == trio("old-service")
    assert rbac_of(after) == trio("current-service")


def test_only_what_the_lease_itself_made_is_removed():
    """kubernetes-objects.md §9 T18: a foreign account is in no version's objects, and only those are compared."""
    before, after = spec(service(permissions_read=("logs",))), spec()
    ours = {(item["kind"], item["metadata"]["name"]) for item in lease_objects(before)}
    assert removed(before, after) == trio("web") <= ours


def test_rights_of_a_service_that_stays_go_with_its_permissions():
    """kubernetes-objects.md §9 T19"""
    before, after = spec(service(permissions_read=("logs",))), spec()
    assert removed(before, after) == trio("web")
    assert rbac_of(after) == set()


def test_rights_of_a_service_that_is_gone_go_too():
    """kubernetes-objects.md §9 T20"""
    before = spec(service(), service("gone", permissions_read=("logs",), ports=()))
    assert removed(before, spec()) == trio("gone") | {("Deployment", "gone")}


@pytest.mark.parametrize("domain", ["*.foo.bar.com", "foo.bar.com-", "foo.ba!!!r.com", ""])
def test_a_wrong_ingress_domain_never_becomes_a_hostname(domain):
    """kubernetes-objects.md §9 T21: refused where the lease is built, not when its status is read."""
    settings = SpecSettings(static_hosts=True, ingress_domain=domain)
    with pytest.raises(SpecRefused, match="ingress domain"):
        built("[{port: 80, to: [{global: true}]}]", settings=settings)


def test_a_route_sends_every_path_of_its_host_to_its_service_without_timeouts():
    """kubernetes-objects.md §9 T37"""
    made = hostname_object(
        spec(cluster=GATEWAY), hostname("test.example.com", service="test-service", external_port=8080)
    )
    assert [(item["name"], item["namespace"]) for item in made["spec"]["parentRefs"]] == [
        ("test-gateway", "test-namespace")
    ]
    assert made["spec"]["hostnames"] == ["test.example.com"]
    (rule,) = made["spec"]["rules"]
    assert rule == {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "backendRefs": [{"name": "test-service", "port": 8080}],
    }


def route(**options: Any) -> dict[str, str]:
    made = route_annotations(hostname(**options), "")
    return {key.removeprefix("nginx.org/"): value for key, value in made.items()}


def test_a_routes_options_are_annotations_with_their_units():
    """kubernetes-objects.md §9 T38"""
    assert route(next_timeout=30000) == {
        "proxy-read-timeout": "60",
        "proxy-send-timeout": "60",
        "proxy-next-upstream-timeout": "30s",
        "client-max-body-size": "1048576",
        "proxy-next-upstream-tries": "3",
        "proxy-next-upstream": "error timeout",
    }


def test_a_routes_status_codes_are_nginx_words_and_no_waiting_time_is_none():
    """kubernetes-objects.md §9 T39"""
    made = route(next_tries=5, max_body_size=2097152, next_cases=("error", "502", "503", "504"))
    assert made["proxy-next-upstream"] == "error http_502 http_503 http_504"
    assert (made["proxy-next-upstream-tries"], made["client-max-body-size"]) == ("5", "2097152")
    assert "proxy-next-upstream-timeout" not in made


def test_a_route_without_cases_says_nothing_of_them():
    """kubernetes-objects.md §9 T40"""
    assert "proxy-next-upstream" not in route(next_cases=())


def test_an_sdls_options_arrive_on_the_route_with_the_leases_labels():
    """kubernetes-objects.md §9 T41; that the route goes with its lease is rule 2 of the lease loop."""
    options = "{max_body_size: 2097152, next_timeout: 30000}"
    lease = built(
        f"[{{port: 80, accept: [a.example], to: [{{global: true}}], http_options: {options}}}]", cluster=GATEWAY
    )
    (made,) = [item for item in lease_objects(lease) if item["kind"] == "HTTPRoute"]
    annotations, labels = made["metadata"]["annotations"], made["metadata"]["labels"]
    assert annotations["nginx.org/client-max-body-size"] == "2097152"
    assert annotations["nginx.org/proxy-next-upstream-timeout"] == "30s"
    assert labels["akash.network"] == "true"
    assert labels["akash.network/lease.id.owner"] == LEASE.owner
    assert labels["akash.network/lease.id.dseq"] == "12345678"


def test_empty_options_are_the_defaults_and_others_are_copied():
    """kubernetes-objects.md §9 T54"""
    empty = hostname(max_body_size=0, read_timeout=0, send_timeout=0, next_tries=0, next_timeout=0, next_cases=())
    assert ingress_annotations(empty) == ingress_annotations(hostname(next_timeout=60000))
    made = ingress_annotations(
        hostname(
            max_body_size=1, read_timeout=2000, send_timeout=3000, next_tries=4, next_timeout=5000, next_cases=("off",)
        )
    )
    assert list(made.values()) == ["2", "3", "4", "1", "5", "off"]


def test_of_several_exposes_the_hostname_is_served_by_the_global_one_on_80():
    """kubernetes-objects.md §9 T58"""
    edge = "{port: 9000, as: 80, accept: [a.example], to: [{global: true}]}"
    (made,) = built(f"[{{port: 80}}, {{port: 81, to: [{{global: true}}]}}, {edge}]").hostnames
    assert (made.hostname, made.service, made.external_port) == ("a.example", "web", 80)


@pytest.mark.parametrize(
    ("endpoint", "ends"),
    [("foobar", "foobar"), ("me_you", "dkp6evv330kmn93vqlo61ska"), ("meYOU", "ps9pn7rkocct7m9ivtovuktb")],
)
def test_a_sharing_key_keeps_a_plain_name_and_replaces_any_other(endpoint, ends):
    """kubernetes-objects.md §9 T61"""
    assert sharing_key(LEASE.owner, endpoint) == f"{LEASE.owner}-ip-{ends}"


def test_a_leased_port_becomes_one_service_with_its_values():
    """kubernetes-objects.md §9 T62; that a claim that goes takes it along is tested with the lease loop."""
    expose = leased_ip(service="aservice", port=10000, external_port=10001, sharing_key="akey", proto="TCP")
    made = leased_ip_service(spec(), expose)
    assert made["metadata"]["name"] == "aservice-ip-10001-tcp"
    assert made["metadata"]["annotations"]["metallb.universe.tf/allow-shared-ip"] == "akey"
    assert [(item["port"], item["targetPort"], item["protocol"]) for item in made["spec"]["ports"]] == [
        (10001, 10000, "TCP")
    ]
    assert leased_ip_name("akey", proto="TCP", external_port=10001) == "akey-tcp-10001"


def test_a_changed_ingress_mode_turns_every_ingress_into_a_route_of_the_same_options():
    """kubernetes-objects.md §9 T76: not a migration of its own, but what the next update of a lease does."""
    options = hostname("a.example", max_body_size=10485760, next_tries=5, next_timeout=30000)
    before = spec(hostnames=(options,))
    after = before.model_copy(update={"cluster": GATEWAY})
    changes = [item for item in compare(lease_objects(before), lease_objects(after)) if item.name == "a.example"]
    assert [(item.op, item.kind) for item in changes] == [(Op.CREATE, "HTTPRoute"), (Op.DELETE, "Ingress")]
    (made,) = [item for item in lease_objects(after) if item["kind"] == "HTTPRoute"]
    values = {key.removeprefix("nginx.org/"): value for key, value in made["metadata"]["annotations"].items()}
    assert values == {
        "client-max-body-size": "10485760",
        "proxy-read-timeout": "60",
        "proxy-send-timeout": "60",
        "proxy-next-upstream-tries": "5",
        "proxy-next-upstream-timeout": "30s",
        "proxy-next-upstream": "error timeout",
        "proxy-buffer-size": "16k",
    }


def test_a_changed_host_is_served_and_the_old_one_no_longer():
    """kubernetes-objects.md §9 T82"""
    before, after = spec(hostnames=(hostname("a.example"),)), spec(hostnames=(hostname("b.example"),))
    changes = compare(lease_objects(before), lease_objects(after))
    assert [(item.op, item.kind, item.name) for item in changes] == [
        (Op.CREATE, "Ingress", "b.example"),
        (Op.DELETE, "Ingress", "a.example"),
    ]


def test_a_persistent_volume_is_a_claim_that_outlives_pods_and_updates():
    """kubernetes-objects.md §9 T83"""
    data = VolumeSpec(name="data", kind=VolumeKind.PERSISTENT, size_bytes=1, storage_class="beta2", mount="/data")
    before = service(volumes=(data,))
    after = service(volumes=(data,), image="nginx:2", resource_version="43", environment=environment(("A", "1")))
    workload = workload_object(spec(after), after)
    assert workload["kind"] == "StatefulSet"
    assert [item["metadata"]["name"] for item in workload["spec"]["volumeClaimTemplates"]] == ["web-data"]
    assert "persistentVolumeClaimRetentionPolicy" not in workload["spec"]
    changes = compare(lease_objects(spec(before)), lease_objects(spec(after)))
    assert [(item.op, item.kind) for item in changes] == [(Op.UPDATE, "StatefulSet"), (Op.UPDATE, "Service")]
    assert refusals(changes) == ()


def test_with_policies_off_a_whole_lease_has_none():
    """kubernetes-objects.md §9 T84; a lease is found again under its own name by the lease loop's tests."""
    lease = built("[{port: 80, to: [{global: true}]}]", cluster=ClusterFacts(network_policies=False))
    made = lease_objects(lease)
    assert [item["kind"] for item in made] == ["Namespace", "ResourceQuota", "LimitRange", "Deployment", "Service"]
