"""A setting that is read and reaches no lease is a promise nobody keeps: each one is followed to the spec."""

from __future__ import annotations

from typing import Any

import pytest

from lease.build import SpecSettings
from lease.manifest_decode import manifest_from_json
from lease.spec import ClusterFacts, IngressMode, LeaseSpec
from provider.daemon.lease_specs import cluster_facts, outside_closed_ranges
from provider.lifecycle.spec_maker import SpecInputs, spec_maker
from provider.records.manifests import ManifestRecord
from provider.settings import Settings
from tests.provider.gateway.manifests import body, lease
from tests.world.cluster import FakeCluster

OTHER: dict[str, Any] = {
    "ingress_mode": IngressMode.GATEWAY_API,
    "ingress_class": "other",
    "gateway_name": "other",
    "gateway_namespace": "other",
    "proxy_buffer_size": "8k",
    "public_hostname": "other.example",
    "network_policies": False,
    "api_server_endpoints": ("192.0.2.9:443",),
    "metallb_namespace": "other",
    "pull_secret": "other",
    "edge_namespace": "other",
    "edge_labels": ("a=b",),
    "node_dns": ("169.254.25.10",),
    "closed_ranges": ("203.0.113.0/24",),
}
RULES: dict[str, tuple[str, Any]] = {
    "static_hosts": ("ingress_static_hosts", True),
    "ingress_domain": ("ingress_domain", "other.example"),
    "overcommit_cpu_percent": ("overcommit_cpu", 50),
    "overcommit_memory_percent": ("overcommit_memory", 50),
    "overcommit_storage_percent": ("overcommit_storage", 50),
    "runtime_class": ("runtime_class", "gvisor"),
    "user_namespaces": ("user_namespaces", True),
}


async def facts(settings: Settings) -> ClusterFacts:
    return await cluster_facts(settings, FakeCluster())


def built(**changes: Any) -> LeaseSpec:
    settings = Settings(ingress_domain="first.example", ingress_static_hosts=True).model_copy(update=changes)
    record = ManifestRecord(lease(), manifest_from_json(body())[0], {})
    return spec_maker(settings, ClusterFacts()).make(SpecInputs(record))


@pytest.mark.parametrize("field", [name for name in ClusterFacts.model_fields if name != "own_addresses"])
async def test_every_fact_of_the_cluster_has_its_setting(field: str) -> None:
    settings = Settings(api_server_endpoints=("192.0.2.1:6443",))
    changed = await facts(settings.model_copy(update={field: OTHER[field]}))
    assert getattr(changed, field) == OTHER[field] != getattr(await facts(settings), field)


async def test_addresses_of_nodes_and_api_server_outside_the_closed_networks_are_closed_too() -> None:
    cluster = FakeCluster()
    addresses = {"InternalIP": "10.1.2.3", "ExternalIP": "203.0.113.9", "Hostname": "n1"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    listed = [{"type": kind, "address": address} for kind, address in addresses.items()]
    cluster.put({**node, "status": {"addresses": [*listed, {"type": "ExternalIP", "address": "2001:db8::1"}]}})
    settings = Settings(api_server_endpoints=("198.51.100.4:6443", "10.0.0.1:443"), closed_ranges=("192.0.2.0/24",))
    found = await cluster_facts(settings, cluster)
    assert found.own_addresses == ("198.51.100.4/32", "203.0.113.9/32")
    assert outside_closed_ranges(["192.0.2.7", "127.0.0.1"], settings.closed_ranges) == ()


@pytest.mark.parametrize("rule", SpecSettings.model_fields)
def test_every_rule_of_the_builder_has_its_setting(rule: str) -> None:
    setting, value = RULES[rule]
    plain = built(ingress_static_hosts=False) if rule == "static_hosts" else built()
    assert built(**{setting: value}).content_hash() != plain.content_hash()


def test_the_runtime_class_that_is_set_is_the_pods() -> None:
    assert [one.runtime_class for one in built(runtime_class="gvisor").services] == ["gvisor"]
    assert [one.runtime_class for one in built(runtime_class="none").services] == [""]
