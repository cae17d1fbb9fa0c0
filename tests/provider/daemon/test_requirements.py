"""A start that lacks something says all of it at once, with the remedies, and makes no bid until it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lease.spec import IngressMode
from provider.daemon.requirements import Requirements, cluster_lacks, machine_lacks, refuse_machine
from provider.errors import ClusterError, SettingsError
from provider.settings import Settings
from provider.units import parse_address_range
from tests.world.cluster import FakeCluster


async def everything_allowed(verb: str, group: str, resource: str) -> bool:
    return True


def cluster(*absent: str) -> FakeCluster:
    """A cluster after the cluster stack, without the kinds `absent`."""
    made = FakeCluster("lease", "metallb-system", "default")
    made.put(
        {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "akash-ingress-class"}}
    )

    def refuse(operation: str, kind: str, name: str) -> None:
        if kind in absent:
            raise ClusterError("https://fake", "the server could not find the requested resource", status=404)

    made.before = refuse
    return made


async def test_a_complete_cluster_lacks_nothing() -> None:
    assert await cluster_lacks(Settings(), cluster(), everything_allowed) == []


async def test_everything_that_is_missing_is_said_at_once_with_its_remedy() -> None:
    ranges = (parse_address_range("192.0.2.1-192.0.2.9"),)
    settings = Settings(ip_ranges=ranges, runtime_class="gvisor", manifest_namespace="records", ingress_class="other")

    async def no_secrets(verb: str, group: str, resource: str) -> bool:
        return resource != "secrets"

    absent = cluster("ProviderHost", "IPAddressPool", "L2Advertisement")
    assert await cluster_lacks(settings, absent, no_secrets) == [
        "there is no namespace records: run `pulumi up` on the cluster stack",
        "the cluster has no providerhosts (akash.network/v2beta2): run `pulumi up` on the cluster stack",
        "the cluster has no ipaddresspools (metallb.io/v1beta1): install MetalLB, or set no LESSOR_IP_RANGES and no "
        "LESSOR_IP_POOLS",
        "the cluster has no l2advertisements (metallb.io/v1beta1): install MetalLB, or set no LESSOR_IP_RANGES and no "
        "LESSOR_IP_POOLS",
        "there is no IngressClass other: run `pulumi up` on the cluster stack, or set LESSOR_INGRESS_CLASS",
        "there is no RuntimeClass gvisor: name it in lessor:runtime-classes of the cluster stack, or set "
        "AP_DEPLOYMENT_RUNTIME_CLASS",
        "the account may not patch secrets: run `pulumi up` on the cluster stack, or give the right",
    ]


async def test_a_pool_that_is_named_must_be_there() -> None:
    settings = Settings(ip_pools=("public",))
    made = cluster()
    problem = "there is no IPAddressPool metallb-system/public: make it, or take it out of LESSOR_IP_POOLS"
    assert await cluster_lacks(settings, made, everything_allowed) == [problem]
    made.put(
        {
            "apiVersion": "metallb.io/v1beta1",
            "kind": "IPAddressPool",
            "metadata": {"name": "public", "namespace": "metallb-system"},
            "spec": {"addresses": ["203.0.113.0/30"]},
        }
    )
    assert await cluster_lacks(settings, made, everything_allowed) == []


async def test_in_gateway_mode_the_gateway_and_its_kinds_are_needed() -> None:
    settings = Settings(ingress_mode=IngressMode.GATEWAY_API)
    found = await cluster_lacks(settings, cluster("HTTPRoute"), everything_allowed)
    assert [text.partition(":")[0] for text in found] == [
        "the cluster has no httproutes (gateway.networking.k8s.io/v1)",
        "there is no Gateway akash-gateway/akash-gateway",
    ]


async def test_a_right_that_is_missing_for_the_question_itself_is_named() -> None:
    asked = cluster()

    def refuse(operation: str, kind: str, name: str) -> None:
        if kind == "IngressClass":
            raise ClusterError("https://fake", "forbidden", status=403)

    asked.before = refuse
    (problem,) = await cluster_lacks(Settings(), asked, everything_allowed)
    assert problem.startswith("the account may not get ingressclasses")


async def test_a_cluster_that_does_not_answer_is_no_complete_one() -> None:
    away = cluster()

    def refuse(operation: str, kind: str, name: str) -> None:
        raise ClusterError("https://fake", "away")

    away.before = refuse
    with pytest.raises(ClusterError):
        await cluster_lacks(Settings(), away, everything_allowed)


def test_what_is_missing_is_the_reason_for_no_bids_until_it_is_there() -> None:
    needed = Requirements()
    assert needed.problem == ""
    needed.note(["a", "b"])
    assert needed.problem == "the cluster lacks what leases need: a; b"
    needed.note([])
    assert needed.problem == ""


async def test_a_machine_without_pulumis_plugin_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "pulumi"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fields: dict[str, Any] = {"kubeconfig": tmp_path / "absent", "pulumi_home": tmp_path, "home": tmp_path}
    (problem,) = machine_lacks(Settings(**fields))
    assert "Pulumi's Kubernetes plugin" in problem and "pulumi plugin install resource kubernetes" in problem
    with pytest.raises(SettingsError, match=r"Kubernetes plugin.*; the kubeconfig .* cannot be used"):
        await refuse_machine(Settings(**fields))
