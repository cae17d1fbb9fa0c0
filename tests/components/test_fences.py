"""The fences of form 2: what an object can hold of a tenant's isolation (issue H, section 6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.lease import lease_objects
from lease.build import UNRENTED_EPHEMERAL_BYTES, SpecSettings, lease_spec
from lease.manifest import Expose, Group, Params, Permissions, Service
from lease.resources import Attribute, Resources, Volume
from lease.spec import ClusterFacts, GpuPlacement, LeaseSpec
from tests.components.specs import LEASE

CARD = GpuPlacement(vendor="nvidia", model="a100")
RENTED = Resources(1, 1000, 2**30, (Volume("default", 2**30),))
WITH_CARD = replace(RENTED, gpu_units=1, gpu_attributes=(Attribute("vendor/nvidia/model/a100", "true"),))
WEB = Service("web", "nginx", RENTED, 1, expose=(Expose(80, global_=True, hosts=("a.example",)),))


def built(*, settings: SpecSettings | None = None, facts: ClusterFacts | None = None, **changes: Any) -> LeaseSpec:
    return lease_spec(
        lease=LEASE,
        group=Group("dc", (replace(WEB, **changes),)),
        resource_version="1",
        placements={1: CARD},
        addresses={},
        cluster=facts or ClusterFacts(api_server_endpoints=("198.51.100.1:6443",)),
        settings=settings or SpecSettings(),
    )


def pod_of(spec: LeaseSpec) -> dict[str, Any]:
    (found,) = (item for item in lease_objects(spec) if item["kind"] in ("Deployment", "StatefulSet"))
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


def variables(**changes: Any) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in pod_of(built(**changes))["containers"][0]["env"]}


@pytest.mark.parametrize("value", ["all", "0", "GPU-1234", "", "none"])
def test_a_tenant_never_chooses_the_cards_of_a_node(value: str) -> None:
    env = (f"NVIDIA_VISIBLE_DEVICES={value}", "NVIDIA_MIG_CONFIG_DEVICES=all", "AMD_VISIBLE_DEVICES=all", "MINE=1")
    without = variables(env=env)
    assert without["NVIDIA_VISIBLE_DEVICES"] == "void"
    rented = variables(env=env, resources=WITH_CARD)
    assert "NVIDIA_VISIBLE_DEVICES" not in rented  # the device plugin sets it, and a variable of the pod would win
    for made in (without, rented):
        assert made["MINE"] == "1"
        assert not made.keys() & {"NVIDIA_MIG_CONFIG_DEVICES", "AMD_VISIBLE_DEVICES"}


def test_no_library_of_a_tenant_is_loaded_by_the_hook_of_a_card() -> None:
    env = ("LD_PRELOAD=/proc/self/cwd/poc.so", "LD_AUDIT=/x.so")
    rented = variables(env=env, resources=WITH_CARD)
    assert (rented["LD_PRELOAD"], rented["LD_AUDIT"]) == ("", "")
    assert variables(env=env)["LD_PRELOAD"] == "/proc/self/cwd/poc.so"


def test_services_without_a_card_run_in_a_user_namespace_where_the_operator_wants_it() -> None:
    wanted = SpecSettings(user_namespaces=True)
    assert "hostUsers" not in pod_of(built())
    assert pod_of(built(settings=wanted))["hostUsers"] is False
    assert "hostUsers" not in pod_of(built(settings=wanted, resources=WITH_CARD))


@pytest.mark.parametrize(
    ("read", "known"), [(("unknown",), ()), (("logs",), ("logs",)), (("x", "events", "Logs"), ("events",)), (None, ())]
)
def test_only_known_permissions_mount_a_token_and_open_the_api_server(
    read: tuple[str, ...] | None, known: tuple[str, ...]
) -> None:
    spec = built(params=Params(permissions=Permissions(read)))
    assert spec.services[0].permissions_read == known
    kinds = [(item["kind"], item["metadata"]["name"]) for item in lease_objects(spec)]
    assert (("ServiceAccount", "web") in kinds) is bool(known)
    assert (("NetworkPolicy", "akash-apiserver-web") in kinds) is bool(known)
    assert pod_of(spec)["automountServiceAccountToken"] is bool(known)


def test_a_service_that_rents_no_disk_has_a_small_one_and_ram_is_requested() -> None:
    ram = Volume("shm", 2**20, (Attribute("class", "ram"), Attribute("persistent", "false")))
    amounts = pod_of(built(resources=replace(RENTED, storage=(ram,))))["containers"][0]["resources"]
    assert amounts["limits"]["ephemeral-storage"] == str(UNRENTED_EPHEMERAL_BYTES)
    assert amounts["requests"]["memory"] == amounts["limits"]["memory"] == str(2**30 + 2**20)


def test_the_quota_is_twice_what_is_rented_and_one_small_pod() -> None:
    (quota,) = (item for item in lease_objects(built(count=3)) if item["kind"] == "ResourceQuota")
    assert quota["spec"]["hard"] == {
        "pods": "7",
        "limits.cpu": "6100m",
        "limits.memory": str(6 * 2**30 + 128 * 2**20),
        "limits.ephemeral-storage": str(6 * 2**30 + UNRENTED_EPHEMERAL_BYTES),
        "persistentvolumeclaims": "0",
        "requests.storage": "0",
    }


def test_addresses_of_nodes_and_api_server_are_closed_beside_the_always_closed_networks() -> None:
    facts = ClusterFacts(own_addresses=("203.0.113.7/32",), closed_ranges=("198.51.100.0/24",))
    (policy,) = (item for item in lease_objects(built(facts=facts)) if item["kind"] == "NetworkPolicy")
    (closed,) = (
        peer["ipBlock"]["except"] for rule in policy["spec"]["egress"] for peer in rule["to"] if "ipBlock" in peer
    )
    assert {"203.0.113.7/32", "198.51.100.0/24", "240.0.0.0/4", "168.63.129.16/32", "0.0.0.0/8"} <= set(closed)
