"""Reading a lease: documents from objects, and the texts for what does not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lease.ids import namespace_name
from lease.manifest_decode import manifest_from_json
from provider.gateway.lease_objects import LeaseObjects
from provider.gateway.lease_status import lease_status, service_status
from provider.kube.labels import managed_labels
from provider.protocols.cluster import DEPLOYMENT, MANIFEST, NAMESPACE, PROVIDER_HOST, STATEFUL_SET, Kind
from provider.records.manifests import ManifestRecord, manifest_object
from tests.provider.gateway.accounts import NOW
from tests.provider.gateway.manifests import TENANT, body, lease, service
from tests.provider.gateway.world import World, new_world, place

SPACE = namespace_name(lease())
PATH = "/lease/42/1/1"


@pytest.fixture
async def world(tmp_path: Path):
    world = new_world(tmp_path)
    world.clock.set(NOW)
    world.chain.public_keys[TENANT.address] = TENANT.public
    async with world.running():
        yield world


def accepted(world: World) -> None:
    group = manifest_from_json(body())[0]
    obj = manifest_object(ManifestRecord(lease(), group, {}), namespace="lease")
    world.cluster.put(obj)


def running(world: World) -> None:
    accepted(world)
    place(world.cluster, NAMESPACE, SPACE)
    status = {"replicas": 8, "availableReplicas": 8, "readyReplicas": 8, "updatedReplicas": 8, "observedGeneration": 3}
    place(world.cluster, DEPLOYMENT, "web", namespace=SPACE, status=status)


async def texts(world: World) -> list[tuple[int, str]]:
    answers = [await world.get(PATH + tail, TENANT.token()) for tail in ("/manifest", "/status", "/service/web/status")]
    return [(answer.status, answer.text if answer.status != 200 else "") for answer in answers]


async def test_a_lease_without_a_manifest_is_not_found_in_three_ways(world: World) -> None:
    assert await texts(world) == [(404, "lease not found\n"), (404, ""), (404, "kube: lease not found\n")]


async def test_an_accepted_manifest_can_be_read_before_its_stack_exists(world: World) -> None:
    accepted(world)
    assert await texts(world) == [(200, ""), (404, "kube: lease not found\n"), (404, "kube: lease not found\n")]


async def test_a_namespace_without_workloads_has_no_deployments(world: World) -> None:
    accepted(world)
    place(world.cluster, NAMESPACE, SPACE)
    assert await texts(world) == [
        (200, ""),
        (404, "kube: no deployments for lease\n"),
        (404, 'kube: internal error: workload "web" not found\n'),
    ]


async def test_where_nothing_runs_yet_the_404_says_why(world: World) -> None:
    accepted(world)
    world.trouble = "service web: image nginx:x cannot be pulled; send the manifest again"
    assert (await texts(world))[1] == (404, f"kube: lease not found: {world.trouble}\n")
    place(world.cluster, NAMESPACE, SPACE)
    assert (await texts(world))[1] == (404, f"kube: no deployments for lease: {world.trouble}\n")


@pytest.mark.parametrize("deployed", [False, True], ids=["nothing of that name", "a workload of that name"])
@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET], ids=lambda kind: kind.kind)
async def test_a_service_that_the_manifest_does_not_name_is_not_found(world: World, deployed: bool, kind: Kind) -> None:
    """kubernetes-objects.md §9 T27: the manifest decides which services a lease has, not the objects in its
    namespace.
    """
    running(world)
    if deployed:
        place(world.cluster, kind, "api", namespace=SPACE, status={"replicas": 1, "readyReplicas": 1})
    for name in ("api", "we", "Web", "web-np"):
        answer = await world.get(f"{PATH}/service/{name}/status", TENANT.token())
        assert (answer.status, answer.text) == (404, "kube: no service for that lease\n")
    assert (await world.get(PATH + "/service/web/status", TENANT.token())).status == 200
    whole = json.loads((await world.get(PATH + "/status", TENANT.token())).text)
    assert "web" in whole["services"]


async def test_without_a_readable_manifest_no_service_is_known(world: World) -> None:
    """kubernetes-objects.md §9 T28, in the order of T26 to T28: namespace, then manifest, then service."""
    running(world)
    del world.cluster.objects[MANIFEST.api_version, MANIFEST.kind, "lease", SPACE]
    answer = await world.get(PATH + "/service/web/status", TENANT.token())
    assert (answer.status, answer.text) == (404, "kube: no manifest for lease\n")


async def test_a_running_lease_shows_its_service(world: World) -> None:
    running(world)
    answer = await world.get(PATH + "/status", TENANT.token())
    assert answer.header("Content-Type") == "application/json; charset=UTF-8"
    shown = {"name": "web", "available": 8, "total": 8, "uris": None, "observed_generation": 3, "replicas": 8}
    shown |= {"updated_replicas": 8, "ready_replicas": 8, "available_replicas": 8}
    assert json.loads(answer.text) == {"services": {"web": shown}, "forwarded_ports": None, "ips": None}
    single = await world.get(PATH + "/service/web/status", TENANT.token())
    assert json.loads(single.text) == shown


async def test_a_service_status_lists_the_hostnames_of_that_service_only(world: World) -> None:
    """The Go provider lists every hostname of the lease, a defect (gateway.md §3.7)."""
    running(world)
    for host, name in (("b.example.org", "web"), ("a.example.org", "web"), ("other.example.org", "api")):
        spec = {"hostname": host, "service_name": name, "owner": TENANT.address}
        place(world.cluster, PROVIDER_HOST, host, namespace="lease", labels=managed_labels(lease()), spec=spec)
    single = await world.get(PATH + "/service/web/status", TENANT.token())
    assert json.loads(single.text)["uris"] == ["a.example.org", "b.example.org"]


async def test_a_broken_manifest_object_is_a_500_without_details(world: World) -> None:
    running(world)
    world.cluster.objects[MANIFEST.api_version, MANIFEST.kind, "lease", SPACE]["spec"] = {"group": {"name": 5}}
    for tail in ("/manifest", "/status"):
        answer = await world.get(PATH + tail, TENANT.token())
        assert (answer.status, answer.text) == (500, "kube: internal error: the stored manifest cannot be read\n")
    single = await world.get(PATH + "/service/web/status", TENANT.token())
    assert (single.status, single.text) == (404, "kube: no manifest for lease\n")


def objects(**parts: object) -> LeaseObjects:
    return LeaseObjects(manifest={}, namespace=True, **parts)  # type: ignore[arg-type]


def group_with(**expose: object):
    exposes = [service()["expose"][0] | expose]
    return manifest_from_json(body(expose=exposes))[0]


@pytest.mark.parametrize(
    ("expose", "forwards"),
    [
        ({"externalPort": 80}, False),
        ({"externalPort": 0, "port": 80}, True),
        ({"externalPort": 8080}, True),
        ({"externalPort": 8080, "global": False}, False),
    ],
    ids=str,
)
def test_ports_are_forwarded_when_a_global_port_is_not_80_as_stored(expose: dict, forwards: bool) -> None:
    document = lease_status(group_with(**expose), objects(), public_hostname="p", leased_ips=True)
    assert document["forwarded_ports"] == ({} if forwards else None)


def test_a_forwarded_port_names_no_host_when_none_is_set_and_skips_other_protocols() -> None:
    ports = [{"port": 22, "nodePort": 31000}, {"port": 23, "nodePort": 31001, "protocol": "SCTP"}, {"port": 24}]
    node_port = {"metadata": {"name": "web-np"}, "spec": {"type": "NodePort", "ports": ports}}
    document = lease_status(
        group_with(externalPort=22), objects(services=(node_port,)), public_hostname="", leased_ips=True
    )
    assert document["forwarded_ports"] == {"web": [{"port": 22, "externalPort": 31000, "proto": "TCP", "name": "web"}]}


@pytest.mark.parametrize(
    ("ip", "leases", "expected"), [("myip", True, {}), ("myip", False, None), ("", True, None)], ids=str
)
def test_addresses_are_shown_where_the_manifest_leases_one(ip: str, leases: bool, expected: object) -> None:
    leased = {
        "metadata": {"name": "x"},
        "spec": {"service_name": "web", "port": 1, "external_port": 2, "protocol": "UDP"},
        "status": {"address": "203.0.113.7"},
    }
    given = {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}
    service = {"metadata": {"name": "web-ip-2-udp"}, "spec": {"type": "LoadBalancer"}, "status": given}
    waiting = {**service, "status": {"loadBalancer": {}}}
    shown, none_yet = (
        lease_status(
            group_with(ip=ip),
            objects(leased_ips=(leased,), services=(each,)),
            public_hostname="",
            leased_ips=leases,
        )
        for each in (service, waiting)
    )
    row = {"web": [{"Port": 1, "ExternalPort": 2, "Protocol": "UDP", "IP": "203.0.113.7"}]}
    assert shown["ips"] == (row if expected == {} else None)
    assert none_yet["ips"] == expected


def test_a_stateful_sets_availability_is_its_current_replicas() -> None:
    status = {"replicas": 3, "currentReplicas": 2, "availableReplicas": 1, "readyReplicas": 1}
    stateful = {"metadata": {"name": "db"}, "status": status}
    shown = service_status("db", objects(stateful_sets=(stateful,)))
    assert shown is not None
    assert (shown["available"], shown["available_replicas"], shown["total"]) == (2, 2, 3)


def test_a_workload_without_a_status_yet_counts_nothing() -> None:
    shown = service_status("db", objects(deployments=({"metadata": {"name": "db"}},)))
    assert shown is not None
    assert shown["total"] == shown["observed_generation"] == 0
