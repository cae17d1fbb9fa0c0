"""The LeaseSpec builder: requests, environment, hostnames, addresses, and what stays when nothing changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lease.build import SpecSettings, committed, lease_spec, sharing_keys
from lease.errors import SpecRefused
from lease.ids import LeaseId
from lease.manifest import Credentials, Expose, Group, HttpOptions, Params, Permissions, Service, StorageMount
from lease.manifest_json import manifest_from_json
from lease.resources import Attribute, Resources, Volume
from lease.sdl import read_sdl
from lease.spec import FIRST_FORM, FORM, ClusterFacts, GpuPlacement, LeaseSpec, ServiceSpec, VolumeKind

LEASE = LeaseId("akash1owner", 42, 1, 1, "akash1prov")
RAM = (Attribute("class", "ram"), Attribute("persistent", "false"))
KEPT = (Attribute("class", "beta2"), Attribute("persistent", "true"))
RESOURCES = Resources(1, 1000, 2**30, (Volume("default", 2**30),))
WEB = Service("web", "nginx", RESOURCES, 1, expose=(Expose(80, global_=True, hosts=("A.com",)),))
CLUSTER = ClusterFacts(public_hostname="provider.example.com")
SETTINGS = SpecSettings(static_hosts=True, ingress_domain="ingress.example.com")


def build(*services: Service, version: str = "7", **changes: Any) -> LeaseSpec:
    arguments: dict[str, Any] = {
        "lease": LEASE,
        "group": Group("dc", services or (WEB,)),
        "resource_version": version,
        "placements": {},
        "addresses": {},
        "cluster": CLUSTER,
        "settings": SETTINGS,
    }
    return lease_spec(**{**arguments, **changes})


def web(**changes: Any) -> Service:
    return replace(WEB, **changes)


def only(spec: LeaseSpec) -> ServiceSpec:
    assert len(spec.services) == 1
    return spec.services[0]


def with_storage(*volumes: Volume, mounts: tuple[StorageMount, ...] = ()) -> Service:
    return web(resources=replace(RESOURCES, storage=volumes), params=Params(mounts) if mounts else None)


@pytest.mark.parametrize(
    ("value", "percent", "requested"),
    [
        (1000, 0, 1000),
        (1000, 100, 500),
        (1000, 50, 667),
        (3, 100, 2),
        (1, 300, 1),
        (0, 0, 0),
        (100, 200, 33),
        (5, 100, 3),
    ],
)
def test_requests_are_what_is_rented_divided_by_the_overcommit_level(value: int, percent: int, requested: int) -> None:
    """Real percentages: the Go provider ignores everything below 100 (kubernetes-objects.md Q16)."""
    assert committed(value, percent) == requested


@given(st.integers(1, 2**64), st.integers(0, 1000))
def test_a_request_is_at_least_one_and_never_above_the_limit(value: int, percent: int) -> None:
    assert 1 <= committed(value, percent) <= value


def test_limits_are_what_is_rented_and_requests_what_is_committed() -> None:
    settings = SETTINGS.model_copy(
        update={"overcommit_cpu_percent": 100, "overcommit_memory_percent": 50, "overcommit_storage_percent": 200}
    )
    spec = only(build(settings=settings))
    assert (spec.cpu_request_milli, spec.cpu_limit_milli) == (500, 1000)
    assert (spec.memory_request_bytes, spec.memory_limit_bytes) == (715827883, 2**30)
    assert (spec.ephemeral_request_bytes, spec.ephemeral_limit_bytes) == (357913941, 2**30)


def test_several_ephemeral_volumes_are_summed_and_ram_counts_as_memory() -> None:
    """The Go provider takes the last ephemeral one (kubernetes-objects.md Q9)."""
    volumes = (Volume("a", 10), Volume("b", 20, (Attribute("persistent", "false"),)), Volume("shm", 5, RAM))
    spec = only(build(with_storage(*volumes, Volume("d", 7, KEPT), mounts=(StorageMount("d", "/d", True),))))
    assert spec.ephemeral_limit_bytes == 30
    assert spec.memory_limit_bytes == 2**30 + 5
    assert spec.memory_request_bytes == 2**30 + 5
    kinds = {volume.name: volume.kind for volume in spec.volumes}
    assert kinds == {
        "a": VolumeKind.EPHEMERAL,
        "b": VolumeKind.EPHEMERAL,
        "shm": VolumeKind.RAM,
        "d": VolumeKind.PERSISTENT,
    }
    mounted = spec.volumes[-1]
    assert (mounted.storage_class, mounted.mount, mounted.read_only) == ("beta2", "/d", True)
    assert spec.persistent


def test_the_environment_is_the_tenants_then_ours_where_the_tenant_left_room() -> None:
    spec = only(build(web(env=("A=1=2", "EMPTY", "AKASH_OWNER=me"))))
    assert [(item.name, item.value.get_secret_value()) for item in spec.environment] == [
        ("A", "1=2"),
        ("EMPTY", ""),
        ("AKASH_OWNER", "me"),
        ("AKASH_GROUP_SEQUENCE", "1"),
        ("AKASH_DEPLOYMENT_SEQUENCE", "42"),
        ("AKASH_ORDER_SEQUENCE", "1"),
        ("AKASH_PROVIDER", "akash1prov"),
        ("AKASH_CLUSTER_PUBLIC_HOSTNAME", "provider.example.com"),
        ("NVIDIA_VISIBLE_DEVICES", "void"),
    ]


def test_secrets_are_not_shown_when_a_spec_is_printed() -> None:
    spec = build(web(env=("A=topsecret",), credentials=Credentials("h", "e", "u", "hunter2")))
    assert "topsecret" not in repr(spec)
    assert "hunter2" not in repr(spec)
    assert "hunter2" in spec.canonical_json()


def test_hostnames_are_lower_case_once_each_and_the_providers_own_comes_last() -> None:
    exposes = (
        Expose(80, global_=True, hosts=("A.com", "a.com", "b.com")),
        Expose(8080, 80, global_=True, hosts=("b.com",)),
    )
    spec = build(web(expose=exposes), withheld=frozenset(("a.com",)))
    assert [host.hostname for host in spec.hostnames] == ["b.com", "h7o5fv0n9pdnr03sap2jrhnvrk.ingress.example.com"]
    assert {(host.service, host.external_port) for host in spec.hostnames} == {("web", 80)}
    plain = build(settings=SpecSettings())
    assert [host.hostname for host in plain.hostnames] == ["a.com"]


@pytest.mark.parametrize("expose", [Expose(81, global_=True, hosts=("a.com",)), Expose(80, hosts=("a.com",))])
def test_only_the_shared_edge_gets_hostnames(expose: Expose) -> None:
    assert build(web(expose=(expose,))).hostnames == ()


def test_http_options_reach_the_edge_and_a_body_size_of_zero_means_none_were_given() -> None:
    options = HttpOptions(1, 2, 3, 4, 5, ("off",))
    host = build(web(expose=(Expose(80, global_=True, http_options=options),))).hostnames[0]
    assert (host.max_body_size, host.read_timeout, host.send_timeout, host.next_tries, host.next_timeout) == (
        1,
        2,
        3,
        4,
        5,
    )
    assert host.next_cases == ("off",)
    empty = HttpOptions(0, 0, 0, 0, 0, ())
    host = build(web(expose=(Expose(80, global_=True, http_options=empty),))).hostnames[0]
    assert (host.max_body_size, host.read_timeout, host.next_tries, host.next_timeout) == (1048576, 60000, 3, 60000)
    assert host.next_cases == ("error", "timeout")


def test_every_global_expose_that_names_an_ip_gets_its_address() -> None:
    exposes = (
        Expose(53, global_=True, proto="TCP", ip="front"),
        Expose(53, global_=True, proto="UDP", ip="front"),
        Expose(54, 53, global_=True, proto="UDP", ip="front"),
        Expose(80, ip="front"),
    )
    group = Group("dc", (web(expose=exposes),))
    keys = sharing_keys(LEASE.owner, group)
    assert keys == ("akash1owner-ip-front",)
    spec = build(web(expose=exposes), addresses={keys[0]: "192.0.2.9"})
    assert [(item.port, item.external_port, item.proto, item.address) for item in spec.leased_ips] == [
        (53, 53, "TCP", "192.0.2.9"),
        (53, 53, "UDP", "192.0.2.9"),
    ]
    with pytest.raises(SpecRefused, match="allocate one first"):
        build(web(expose=exposes))


def test_ports_keep_their_place_in_the_list_and_tcp_and_udp_both_exist() -> None:
    exposes = (Expose(53, global_=True), Expose(53, global_=True, proto="UDP"), Expose(8080, 80, service="x"))
    ports = only(build(web(expose=exposes))).ports
    assert [(port.index, port.port, port.external_port, port.proto, port.global_, port.ingress) for port in ports] == [
        (0, 53, 53, "TCP", True, False),
        (1, 53, 53, "UDP", True, False),
        (2, 8080, 80, "TCP", False, False),
    ]


def _gpu_service() -> Service:
    attributes = (Attribute("vendor/nvidia/model/a100", "true"),)
    return web(resources=replace(RESOURCES, gpu_units=2, gpu_attributes=attributes))


@pytest.mark.parametrize(
    ("vendor", "setting", "runtime_class"),
    [("nvidia", "gvisor", "nvidia"), ("amd", "gvisor", "gvisor"), ("amd", "none", ""), ("nvidia", "", "nvidia")],
)
def test_a_gpu_service_carries_its_card_and_the_runtime_class(vendor: str, setting: str, runtime_class: str) -> None:
    card = GpuPlacement(vendor=vendor, model="a100", memory_size="80Gi")
    settings = SpecSettings(runtime_class=setting)
    spec = only(build(_gpu_service(), placements={1: card}, settings=settings))
    assert (spec.gpu_units, spec.gpu, spec.runtime_class) == (2, card, runtime_class)


def test_a_gpu_service_without_a_chosen_card_is_refused() -> None:
    with pytest.raises(SpecRefused, match="reserve again"):
        build(_gpu_service(), placements={1: None})


def test_a_requested_runtime_class_is_applied_to_every_other_service() -> None:
    assert only(build(settings=SpecSettings(runtime_class="gvisor"))).runtime_class == "gvisor"


@pytest.mark.parametrize(
    "service",
    [
        web(expose=(Expose(80, 70000, global_=True),)),
        web(expose=(Expose(80, global_=True, http_options=HttpOptions(next_cases=("evil;",))),)),
        web(expose=(Expose(80, global_=True, hosts=("a b",)),)),
        with_storage(Volume("d", 1, (Attribute("class", "x y"), Attribute("persistent", "true")))),
        with_storage(mounts=(StorageMount("ghost", "/a"),)),
    ],
)
def test_the_builder_refuses_what_does_not_fit_whatever_was_checked_before(service: Service) -> None:
    with pytest.raises(SpecRefused, match='service "web"'):
        build(service)


def test_a_group_without_services_is_refused() -> None:
    with pytest.raises(SpecRefused, match="no services"):
        build(group=Group("dc", ()))


def test_an_untouched_service_keeps_its_resource_version_and_a_changed_one_takes_the_new() -> None:
    first = build(WEB, web(name="x"), version="10")
    second = build(WEB, web(name="x", image="nginx:2"), version="20", previous=first)
    assert [service.resource_version for service in second.services] == ["10", "20"]
    third = build(WEB, web(name="x", image="nginx:2"), version="30", previous=second)
    assert [service.resource_version for service in third.services] == ["10", "20"]
    assert (second.first_resource_version, third.first_resource_version) == ("10", "10")
    assert third.content_hash() == second.content_hash() != first.content_hash()


def test_an_identical_manifest_under_a_new_resource_version_is_the_same_spec() -> None:
    first = build(version="10")
    assert build(version="99", previous=first) == first
    assert build(version="99").content_hash() != first.content_hash()


def test_a_new_hostname_does_not_roll_the_service_but_changes_the_spec() -> None:
    first = build(version="10")
    second = build(web(expose=(Expose(80, global_=True, hosts=("other.com",)),)), version="20", previous=first)
    assert second.services == first.services
    assert second.content_hash() != first.content_hash()


def test_permissions_and_credentials_are_carried() -> None:
    params = Params(None, None, Permissions(("logs", "events")))
    spec = only(build(web(params=params, credentials=Credentials("h", "e", "u", "p"), command=("a",), args=())))
    assert spec.permissions_read == ("logs", "events")
    assert spec.credentials is not None
    assert spec.credentials.password.get_secret_value() == "p"
    assert (spec.command, spec.args) == (("a",), ())


def test_a_spec_survives_its_canonical_json() -> None:
    spec = build(web(env=("A=é\u2028",)))
    again = LeaseSpec.from_json(spec.canonical_json())
    assert again == spec
    assert again.canonical_json() == spec.canonical_json()
    assert again.namespace == spec.namespace


def test_the_content_hash_is_the_same_in_every_process(checkout: Path) -> None:
    program = (
        "import sys\n"
        "from lease.build import SpecSettings, lease_spec\n"
        "from lease.ids import LeaseId\n"
        "from lease.sdl import read_sdl\n"
        "from lease.spec import ClusterFacts\n"
        "group = read_sdl(open(sys.argv[1]).read()).manifest[0]\n"
        "lease = LeaseId('akash1owner', 42, 1, 1, 'akash1prov')\n"
        "print(lease_spec(lease=lease, group=group, resource_version='1', placements={},\n"
        "    addresses={'akash1owner-ip-front': '192.0.2.9'}, cluster=ClusterFacts(),\n"
        "    settings=SpecSettings(static_hosts=True, ingress_domain='d.example')).content_hash())\n"
    )
    hashes = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(checkout)}
        done = subprocess.run(
            [sys.executable, "-c", program, str(checkout / "examples" / "demo.yaml")],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=60,
        )
        hashes.add(done.stdout.strip())
    assert len(hashes) == 1
    assert len(hashes.pop()) == 64


def _golden(form: int) -> dict[str, LeaseSpec]:
    """One spec for each shape of the canonical text: little, all options, secrets beyond ASCII, everything numeric."""
    options = HttpOptions(2097152, 1000, 2000, 5, 3000, ("502", "error"), 32768)
    edge = Expose(8080, 80, global_=True, hosts=("a.example",), http_options=options)
    storage = (Volume("default", 2**30), Volume("shm", 2**20, RAM), Volume("data", 2**33, KEPT))
    full = web(
        resources=replace(
            RESOURCES, storage=storage, gpu_units=2, gpu_attributes=(Attribute("vendor/nvidia/model/a100", "true"),)
        ),
        command=("sh", "-c"),
        args=("echo \u00e9\u2028\U0001f600 <&>",),
        env=("A=\x7f\x01", "B"),
        expose=(Expose(53, global_=True, proto="UDP", ip="front"), edge),
        params=Params((StorageMount("data", "/data", True),), None, Permissions(("logs",))),
        credentials=Credentials("r.example", "e@x.example", "u", "p\u00e4ss"),
    )
    card = GpuPlacement(vendor="nvidia", model="a100", memory_size="80Gi", interface="sxm")
    settings = SETTINGS.model_copy(update={"overcommit_cpu_percent": 50, "overcommit_memory_percent": 25})
    key = sharing_keys(LEASE.owner, Group("dc", (full,)))[0]
    built = build(full, placements={1: card}, settings=settings, addresses={key: "192.0.2.9"}, form=form)
    return {"small": build(settings=SpecSettings(), form=form), "full": built}


GOLDEN_HASHES = {
    ("small", FIRST_FORM): "8ec3770fa6b672974fac00031625fb25ad410acfefc84a6e06345ef4870da96e",
    ("full", FIRST_FORM): "92db47c69fc726c99b818d6f50af40887b8f2fb2649ee75f0fbdbb63264ae12d",
    ("small", FORM): "77676c3d028a9f0891861dc6e42256c6c97a0d77618bbf0f2a4aa4ae564955a6",
    ("full", FORM): "28f7fa241902b8cecd0b98783a02e277249a0e23b4ef6c347c4b232faff34273",
}
"""Pinned: a change here means that every lease is looked at again after an upgrade, so it must be meant."""


@pytest.mark.parametrize(("name", "form"), GOLDEN_HASHES)
def test_the_content_hash_of_a_known_spec_is_the_known_one(name: str, form: int) -> None:
    assert _golden(form)[name].content_hash() == GOLDEN_HASHES[name, form]


def test_the_canonical_text_has_sorted_keys_no_blanks_and_every_field() -> None:
    text = _golden(FORM)["full"].canonical_json()
    again = json.loads(text)
    assert json.dumps(again, sort_keys=True, separators=(",", ":"), ensure_ascii=False) == text
    assert set(again) == set(LeaseSpec.model_fields) - {"kept", "found"}, "after an upgrade, or an adoption"
    others = {"user_namespace", "pods_version"}
    assert set(again["services"][0]) == set(ServiceSpec.model_fields) - others, "which a setting or an update adds"
    assert again["services"][0]["environment"][0] == {"name": "A", "value": "\x7f\x01"}


def test_a_spec_of_before_replica_sets_were_counted_has_the_hash_it_had() -> None:
    spec = _golden(FORM)["small"]
    services = tuple(service.model_copy(update={"old_replica_sets": 0}) for service in spec.services)
    before = spec.model_copy(update={"services": services})
    assert before.content_hash() == "9aa368a4b95823658596211de80db5c355743db97ace1c859e3aadb38361514c"


def test_a_spec_stored_before_a_field_existed_is_read_with_its_default() -> None:
    """The applied Secret of an older version: what runs must be known after an upgrade."""
    stored = json.loads(_golden(FORM)["full"].canonical_json())
    del stored["hostnames"][0]["proxy_buffer_size"]
    assert LeaseSpec.from_json(json.dumps(stored)).hostnames[0].proxy_buffer_size == 0


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"services": 1}', '{"lease": {}}', "[" * 10000, "\x00"])
def test_what_is_no_spec_is_a_validation_error(text: str) -> None:
    with pytest.raises(ValidationError):
        LeaseSpec.from_json(text)


def test_an_unknown_field_of_a_stored_spec_is_not_dropped_in_silence() -> None:
    stored = json.loads(_golden(FORM)["small"].canonical_json()) | {"surprise": 1}
    with pytest.raises(ValidationError, match="surprise"):
        LeaseSpec.from_json(json.dumps(stored))


def test_a_tenants_buffer_size_reaches_its_hostname() -> None:
    """It was dropped between the manifest and the edge (sdl-and-manifest.md §1.5)."""
    options = HttpOptions(proxy_buffer_size=32768)
    spec = build(web(expose=(Expose(80, global_=True, http_options=options),)))
    assert [host.proxy_buffer_size for host in spec.hostnames] == [32768]


def _quantity(text: str) -> int:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    suffix = next((unit for unit in units if text.endswith(unit)), "")
    return int(text.removesuffix(suffix)) * units.get(suffix, 1)


def _spec_of(recorded: dict[str, Any]) -> LeaseSpec:
    lease, settings = recorded["lease"], recorded["settings"]
    manifest = manifest_from_json(json.dumps(recorded["manifest"]))
    group = next(group for group in manifest if group.name == recorded["group"])
    placements: dict[int, GpuPlacement | None] = {}
    for service in group.services or ():
        chosen = (recorded["reservation"]["scheduler_params"].get(service.name) or {}).get("resources", {}).get("gpu")
        placements[service.resources.id] = chosen and GpuPlacement(vendor=chosen["vendor"], model=chosen["model"])
    percent = settings["overcommit_pct"]
    return lease_spec(
        lease=LeaseId(lease["owner"], int(lease["dseq"]), lease["gseq"], lease["oseq"], lease["provider"]),
        group=group,
        resource_version=recorded["manifest_resource_version"],
        placements=placements,
        addresses=dict.fromkeys(sharing_keys(lease["owner"], group), "192.0.2.9"),
        cluster=ClusterFacts(public_hostname=settings["public_hostname"]),
        settings=SpecSettings(
            static_hosts=settings["static_hosts"],
            ingress_domain=settings["ingress_domain"],
            overcommit_cpu_percent=percent["cpu"],
            overcommit_memory_percent=percent["memory"] // 100 * 100,  # Q16: Go drops what is below 100
            overcommit_storage_percent=percent["storage"],
        ),
        form=FIRST_FORM,
    )


def test_a_recorded_lease_of_the_go_provider_is_built_alike(recorded_lease: dict[str, Any]) -> None:
    spec = _spec_of(recorded_lease)
    objects = recorded_lease["objects"]
    assert spec.namespace == recorded_lease["namespace"]
    hosts = {item["spec"]["hostname"] for item in objects if item["kind"] == "ProviderHost"}
    assert {host.hostname for host in spec.hostnames} == hosts
    addresses = {
        (
            item["spec"]["service_name"],
            item["spec"]["external_port"],
            item["spec"]["protocol"],
            item["spec"]["sharing_key"],
        )
        for item in objects
        if item["kind"] == "ProviderLeasedIP"
    }
    assert {(item.service, item.external_port, item.proto, item.sharing_key) for item in spec.leased_ips} == addresses
    workloads = {item["metadata"]["name"]: item for item in objects if item["kind"] in ("Deployment", "StatefulSet")}
    for service in spec.services:
        _compare(service, workloads[service.name])


def _compare(service: ServiceSpec, workload: dict[str, Any]) -> None:
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    assert service.persistent == (workload["kind"] == "StatefulSet")
    assert service.runtime_class == pod.get("runtimeClassName", "")
    assert [(item.name, item.value.get_secret_value()) for item in service.environment] == [
        (item["name"], item.get("value", "")) for item in container["env"]
    ]
    assert [port.port for port in service.ports] == [port["containerPort"] for port in container.get("ports", [])]
    assert (service.memory_request_bytes, service.memory_limit_bytes) == (
        _quantity(requests["memory"]),
        _quantity(limits["memory"]),
    )
    ephemeral = [volume for volume in service.volumes if volume.kind is VolumeKind.EPHEMERAL]
    if len(ephemeral) < 2:  # Q9: Go takes the last of several
        recorded = requests.get("ephemeral-storage", "0"), limits.get("ephemeral-storage", "0")
        assert (service.ephemeral_request_bytes, service.ephemeral_limit_bytes) == tuple(map(_quantity, recorded))


def test_the_demo_sdl_shows_a_hostname_a_volume_and_a_leased_ip(checkout: Path) -> None:
    sdl = read_sdl((checkout / "examples" / "demo.yaml").read_bytes())
    group = sdl.manifest[0]
    keys = sharing_keys(LEASE.owner, group)
    spec = build(group=group, addresses=dict.fromkeys(keys, "192.0.2.9"))
    assert [service.name for service in spec.services] == ["db", "web"]
    assert [volume.storage_class for volume in spec.services[0].volumes] == ["", "beta2"]
    assert spec.services[0].volumes[1].mount
    assert spec.hostnames[0].hostname == "web.demo.example.com"
    assert [item.sharing_key for item in spec.leased_ips] == ["akash1owner-ip-front"]
    assert {unit.price.denom for unit in sdl.groups[0].units} == {"uact"}


@pytest.mark.parametrize("name", ["demo", "web", "udp", "gpu"])
def test_our_example_sdls_are_valid_and_fit_every_provider(checkout: Path, name: str) -> None:
    group = read_sdl((checkout / "examples" / f"{name}.yaml").read_bytes()).manifest[0]
    card = GpuPlacement(vendor="nvidia", model="a100")
    spec = build(
        group=group,
        placements={1: card},
        addresses=dict.fromkeys(sharing_keys(LEASE.owner, group), "192.0.2.9"),
    )
    assert spec.services
