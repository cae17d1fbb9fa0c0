"""Manifests against a provider: what would be taken on chain and fail on a node, or reach the shared edge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lease.errors import ManifestErrorKind, ManifestRefused
from lease.manifest import Group, HttpOptions, Params, Permissions, Service, StorageMount
from lease.resources import Attribute, Volume
from lease.sdl import read_sdl
from lease.validation import check_for_provider, group_hostnames, validate_manifest
from lease.validation.provider import NEXT_CASES
from tests.lease.manifests import EXPOSE, SERVICE, with_expose, with_resources

CANNOT_RUN = {
    "edge-gpu-model-missing": "GPU attribute",  # no model: no node's label can match
    "edge-storage-persistent-yes-no-class": "names no class",  # a claim without a class would wait for ever
}

PERSISTENT = (Attribute("class", "beta2"), Attribute("persistent", "true"))
RAM = (Attribute("class", "ram"), Attribute("persistent", "false"))


def volume(*attributes: Attribute, name: str = "data") -> tuple[Volume, ...]:
    return (Volume(name, 2**30, attributes),)


def mounted(*mounts: StorageMount, **changes: Any) -> Service:
    return replace(with_resources(**changes), params=Params(mounts))


@pytest.mark.parametrize(
    ("service", "gist"),
    [
        (with_expose(http_options=HttpOptions(next_cases=("error; } evil {",))), "next case"),
        (with_expose(http_options=HttpOptions(next_cases=("off", "error"))), "stand alone"),
        (with_expose(http_options=HttpOptions(max_body_size=104857601)), "body size"),
        (with_expose(http_options=HttpOptions(read_timeout=60001)), "read timeout"),
        (with_expose(http_options=HttpOptions(send_timeout=60001)), "send timeout"),
        (with_expose(http_options=HttpOptions(proxy_buffer_size=1048577)), "buffer size"),
        (with_expose(external_port=70000), "external port"),
        (replace(SERVICE, name="w" * 64), "longer than 63"),
        (replace(with_expose(port=81), name="w" * 61), "longer than 60"),
        (replace(mounted(storage=volume(*PERSISTENT)), name="w" * 53), "longer than 52"),
        (replace(with_expose(port=81, ip="meow", hosts=None), name="w" * 54), "longer than 53"),
        (replace(SERVICE, count=2**31), "count cannot be above 2147483647"),
        (with_resources(cpu_milli=2**63), "above 9223372036854775807"),
        (with_resources(memory_bytes=2**64), "above 9223372036854775807"),
        (with_resources(storage=(Volume("a", 2**62), Volume("b", 2**62))), "above 9223372036854775807"),
        *(
            (replace(SERVICE, image=image), "image name")
            for image in (" nginx", "nginx ", "ng inx", "nginx\n", "ng\x1binx", "ng\u00a0inx", "nginx\u202e", "ng\0inx")
        ),
        *((with_expose(hosts=(host,)), "is an IP address") for host in ("1.2.3.4", "255.255.255.255")),
        (with_resources(storage=volume(Attribute("class", "a b"), Attribute("persistent", "true"))), "storage class"),
        (
            with_resources(storage=volume(Attribute("class", "c" * 60), Attribute("persistent", "true"))),
            "63 characters",
        ),
        (with_resources(storage=volume(Attribute("persistent", "true"))), "names no class"),
        (with_resources(storage=volume(Attribute("class", "ram"), Attribute("persistent", "true"))), "class ram"),
        (with_resources(storage=volume() * 2), "one name"),
        (with_resources(storage=volume(*PERSISTENT, name="Data")), "storage name"),
        (with_resources(storage=(Volume("d", -1),)), "negative"),
        (with_resources(cpu_milli=-1), "negative"),
        *(
            (with_resources(gpu_units=1, gpu_attributes=(Attribute(key, "true"),)), gist)
            for key, gist in (
                ("vendor/other/model/x", "GPU attribute"),
                ("vendor/nvidia/model/", "GPU attribute"),
                ("vendor/nvidia", "GPU attribute"),
                ("vendor/nvidia/model/a b", "GPU model"),
                ("vendor/nvidia/model/" + "m" * 60, "63 characters"),
                ("vendor/nvidia/model/a100/ram/80G", "GPU attribute"),
                ("vendor/nvidia/model/a100/interface/usb", "GPU attribute"),
            )
        ),
        (with_resources(gpu_units=1), "no vendor"),
        (mounted(StorageMount("ghost", "/a")), "names no storage"),
        (mounted(StorageMount("default", "a")), "absolute"),
        (mounted(StorageMount("default", "/a:b")), "absolute"),
        (mounted(StorageMount("default", "/a"), StorageMount("default", "/b")), "used twice"),
        (
            mounted(StorageMount("a", "/a"), StorageMount("b", "/a"), storage=(Volume("a", 1), Volume("b", 1))),
            "used twice",
        ),
        (replace(SERVICE, args=("a\0b",)), "NUL"),
        *((replace(SERVICE, command=(f"a{char}b",)), "DEL") for char in "\x7f\x80\x85\x9f\ufffe\uffff"),
        (mounted(StorageMount("default", "/a\x85b")), "control"),
        (with_expose(hosts=("a" * 64 + ".example",)), "label of more than 63"),
        (with_resources(storage=volume(Attribute("class", "Beta2"), PERSISTENT[1])), "name of a class"),
        (with_resources(storage=volume(Attribute("class", "a_b"), PERSISTENT[1])), "name of a class"),
        (with_resources(storage=(Volume("data", 0, PERSISTENT),)), "no size"),
        (with_resources(memory_bytes=2**62, storage=(Volume("shm", 2**62, RAM),)), "above"),
    ],
)
def test_what_must_not_reach_a_node_or_the_edge_is_rejected(service: Service, gist: str) -> None:
    with pytest.raises(ManifestRefused) as caught:
        check_for_provider(Group("dc", (service,)), require_hosts=False)
    assert caught.value.kind is ManifestErrorKind.REJECTED
    assert gist in str(caught.value)


@pytest.mark.parametrize(
    "service",
    [
        replace(SERVICE, name="w" * 63),
        replace(with_expose(port=81), name="w" * 60),
        replace(mounted(storage=volume(*PERSISTENT)), name="w" * 52),
        replace(SERVICE, count=2**31 - 1),
        with_resources(memory_bytes=2**63 - 1),
        replace(SERVICE, image="registry.example:5000/a_b/c.d-e:v1.0@sha256:" + "0" * 64),
        with_expose(hosts=("1.2.3.4.example", "1.2.3", "localhost")),
        with_expose(port=81, hosts=("1.2.3.4",)),
        with_expose(http_options=HttpOptions(104857600, 60000, 60000, 2**32 - 1, 2**32 - 1, ("off",), 1048576)),
        with_expose(http_options=HttpOptions(next_cases=())),
        *(with_expose(http_options=HttpOptions(next_cases=(case,))) for case in NEXT_CASES),
    ],
)
def test_what_a_node_and_the_edge_can_take_passes(service: Service) -> None:
    check_for_provider(Group("dc", (service,)), require_hosts=False)


NODE_PORT = replace(EXPOSE, port=81)
ON_MEOW, ON_PURR = (replace(NODE_PORT, ip=ip, hosts=None) for ip in ("meow", "purr"))
READER = replace(SERVICE, expose=(), params=Params(permissions=Permissions(("logs",))))


@pytest.mark.parametrize(
    ("services", "name"),
    [
        ((replace(SERVICE, expose=(NODE_PORT,)), replace(SERVICE, name="web-np", expose=())), "web-np"),
        ((replace(SERVICE, expose=(ON_MEOW,)), replace(SERVICE, name="web-ip-81-tcp", expose=())), "web-ip-81-tcp"),
        ((replace(SERVICE, expose=(ON_MEOW, ON_PURR)),), "web-ip-81-tcp"),
        (
            (replace(SERVICE, name="apiserver-z", expose=(NODE_PORT,)), replace(READER, name="z-np")),
            "NetworkPolicy akash-apiserver-z-np",
        ),
        (
            (replace(SERVICE, name="apiserver-z", expose=(replace(EXPOSE, ip="a"),)), replace(READER, name="z-ip")),
            "NetworkPolicy akash-apiserver-z-ip",
        ),
    ],
)
def test_two_objects_of_one_name_are_rejected_before_the_cluster_mixes_them_up(
    services: tuple[Service, ...], name: str
) -> None:
    with pytest.raises(ManifestRefused, match=f'would have the name "{name}"') as caught:
        check_for_provider(Group("dc", services), require_hosts=False)
    assert caught.value.kind is ManifestErrorKind.REJECTED


def test_one_expose_written_twice_and_names_that_only_look_alike_are_fine() -> None:
    check_for_provider(Group("dc", (replace(SERVICE, expose=(ON_MEOW, ON_MEOW)),)), require_hosts=False)
    beside = replace(SERVICE, name="web-np", expose=())
    check_for_provider(Group("dc", (SERVICE, beside)), require_hosts=False)


def test_every_valid_document_of_the_corpus_fits_a_provider_with_static_hosts(
    valid_sdl: tuple[str, bytes, dict[str, Any]],
) -> None:
    """But for those that the Go provider takes and cannot run; each has its reason here."""
    name, text, _ = valid_sdl
    refused = []
    for group in read_sdl(text).manifest:
        try:
            check_for_provider(group, require_hosts=False)
        except ManifestRefused as error:
            refused.append(error.problem)
    if name in CANNOT_RUN:
        assert any(CANNOT_RUN[name] in problem for problem in refused)
    else:
        assert refused == []


def test_two_services_of_one_name_are_rejected_although_the_go_rules_take_them() -> None:
    twins = Group("dc", (SERVICE, replace(SERVICE, expose=())))
    validate_manifest((twins,))
    with pytest.raises(ManifestRefused, match="two services have one name"):
        check_for_provider(twins, require_hosts=False)


def test_an_http_expose_needs_a_hostname_only_without_static_hosts() -> None:
    group = Group("dc", (with_expose(hosts=None),))
    check_for_provider(group, require_hosts=False)
    check_for_provider(Group("dc", (SERVICE,)), require_hosts=True)
    with pytest.raises(ManifestRefused) as caught:
        check_for_provider(group, require_hosts=True)
    assert str(caught.value) == 'manifest rejected: service "web" exposed on 80:TCP must have a hostname'


def test_a_groups_hostnames_are_lower_case_and_listed_once() -> None:
    services = (with_expose(hosts=("B.com", "a.com")), with_expose(hosts=("b.com",)))
    assert group_hostnames(Group("dc", services)) == ("b.com", "a.com")
    assert group_hostnames(Group("dc", None)) == ()
