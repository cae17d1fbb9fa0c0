"""Attributes, GPU requests, capabilities, addresses and ids (bidding.md §3, kubernetes-objects.md §1.1, §2.8)."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.addresses import leased_ip_name, pool_name, sharing_key
from lease.attributes import any_match, glob_match, has_capabilities, parse_bool, subset
from lease.gpus import GpuRequest, gpu_key, parse_gpu_request, parse_gpu_requests, whole_gibibytes
from lease.ids import LeaseId, auto_hostname, namespace_name
from lease.resources import Attribute, Resources, Volume
from tests.world.work import lines_of

OWNER = "akash1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5jepelx"
PROVIDER = "akash1v4nxw6rfdf4kcmtwdac8zunnw36hvamcjpn8js"
LEASE = LeaseId(OWNER, 12345678, 1, 1, PROVIDER)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("abc", "abc", True),
        ("*", "abc", True),
        ("*", "a/c", False),
        ("*", "", True),
        ("*c", "abc", True),
        ("a*", "a", True),
        ("a*", "ab/c", False),
        ("a*/b", "a/b", True),
        ("a*/b", "a/c/b", False),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", True),
        ("a*b?c*x", "abxbbxdbxebxczzx", True),
        ("a*b?c*x", "abxbbxdbxebxczzy", False),
        ("ab[c]", "abc", True),
        ("ab[b-d]", "abc", True),
        ("ab[e-g]", "abc", False),
        ("ab[^c]", "abc", False),
        ("ab[^e-g]", "abc", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "ab", False),
        ("a?b", "a\u263ab", True),
        ("a[^a]b", "a\u263ab", True),
        ("a?b", "a/b", False),
        ("[\\]a]", "]", True),
        ("[\\-x]", "-", True),
        ("[]a]", "]", False),
        ("[-]", "-", False),
        ("[x-]", "x", False),
        ("[a-b-c]", "a", False),
        ("[", "a", False),
        ("[^bc", "a", False),
        ("a[", "ab", False),
        ("a\\", "a\\", False),
        ("*x", "xxx", True),
        ("vendor/nvidia/model/*", "vendor/nvidia/model/a100", True),
        ("vendor/nvidia/model/*", "vendor/nvidia/model/a100/ram/80Gi", False),
    ],
)
def test_globs_match_as_gos_file_paths_do(pattern: str, name: str, matches: bool) -> None:
    assert glob_match(pattern, name) is matches


def test_a_hostile_glob_is_answered_at_once() -> None:
    assert not glob_match("a*" * 2000 + "b", "a" * 20_000)
    small, large = (lines_of(partial(glob_match, "a*" * size + "b", "a" * 10 * size)) for size in (200, 400))
    assert large < 2.2 * small, "twice the pattern and the name are twice the work"


@given(st.text("ab/*?[]-^\\", max_size=12), st.text("ab/", max_size=12))
def test_any_pattern_is_answered(pattern: str, name: str) -> None:
    assert glob_match(pattern, name) in (True, False)


@given(st.text("abc/.-_", max_size=20))
def test_a_name_without_wildcards_matches_only_itself(name: str) -> None:
    assert glob_match(name, name)
    assert not glob_match(name, name + "x")


def test_only_the_requiring_side_is_a_pattern_and_values_are_equal_texts() -> None:
    offered = [Attribute("region/us", "1"), Attribute("tier", "c*")]
    assert subset([], offered)
    assert not any_match([], offered)
    assert subset([Attribute("region/*", "1")], offered)
    assert not subset([Attribute("region/*", "1"), Attribute("tier", "community")], offered)
    assert any_match([Attribute("region/*", "1"), Attribute("tier", "community")], offered)
    assert not subset([Attribute("region/us", "1")], [Attribute("region/*", "1")])


@pytest.mark.parametrize(("text", "value"), [("t", True), ("True", True), ("0", False), ("F", False), ("yes", None)])
def test_booleans_of_attributes(text: str, value: bool | None) -> None:
    assert parse_bool(text) is value


def test_storage_capabilities_must_all_be_in_one_group() -> None:
    offered = [
        Attribute("capabilities/storage/1/class", "beta2"),
        Attribute("capabilities/storage/1/persistent", "true"),
        Attribute("capabilities/storage/2/class", "ram"),
        Attribute("capabilities/storage/2/persistent", "false"),
    ]

    def wants(storage_class: str, persistent: str) -> Resources:
        attributes = (Attribute("class", storage_class), Attribute("persistent", persistent))
        return Resources(1, 1, 1, (Volume("root", 1), Volume("d", 1, attributes)))

    assert has_capabilities(wants("beta2", "true"), offered)
    assert has_capabilities(wants("ram", "false"), offered)
    assert not has_capabilities(wants("beta2", "false"), offered)
    assert not has_capabilities(wants("beta3", "true"), offered)
    assert has_capabilities(Resources(1, 1, 1, None), [])


def test_one_of_the_requested_gpus_is_enough() -> None:
    def wants(*keys: str, units: int = 1) -> Resources:
        return Resources(1, 1, 1, (), units, gpu_attributes=tuple(Attribute(key, "true") for key in keys))

    offered = [Attribute("capabilities/gpu/vendor/nvidia/model/a100", "true")]
    with_ram = [Attribute("capabilities/gpu/vendor/nvidia/model/a100/ram/80Gi", "true")]
    assert has_capabilities(wants("vendor/nvidia/model/*"), offered)
    assert has_capabilities(wants("vendor/nvidia/model/h100", "vendor/nvidia/model/a100"), offered)
    assert not has_capabilities(wants("vendor/nvidia/model/*"), with_ram)
    assert not has_capabilities(wants("vendor/nvidia/model/a100/ram/80Gi"), offered)
    assert has_capabilities(wants(), offered)
    assert has_capabilities(wants("vendor/nvidia/model/x", units=0), offered)


@pytest.mark.parametrize(
    ("key", "request_"),
    [
        ("vendor/nvidia/model/a100", GpuRequest("nvidia", "a100")),
        ("vendor/amd/model/*", GpuRequest("amd", "*")),
        ("vendor/nvidia/model/a100/ram/80Gi/interface/sxm", GpuRequest("nvidia", "a100", "80Gi", "sxm")),
        ("vendor/nvidia/model/a100/interface/pcie/ram/81920Mi", GpuRequest("nvidia", "a100", "80Gi", "pcie")),
        ("vendor/nvidia/model/a100/colour/red", GpuRequest("nvidia", "a100")),
        ("vendor/intel/model/arc", None),
        ("vendor/nvidia", None),
        ("vendor/nvidia/model/a100/ram", None),
        ("vendor/nvidia/model/a100/ram/80", None),
        ("vendor/nvidia/model/a100/ram/lotsGi", None),
        ("vendor/nvidia/model/a100/interface/usb", None),
        ("vendor/nvidia/model/", None),
        ("", None),
    ],
)
def test_gpu_attributes_are_read_as_requests(key: str, request_: GpuRequest | None) -> None:
    assert parse_gpu_request(key) == request_


def test_one_unreadable_request_makes_the_whole_unit_unreadable() -> None:
    good, bad = Attribute("vendor/nvidia/model/a100", "true"), Attribute("vendor/x", "true")
    assert parse_gpu_requests([good]) == (GpuRequest("nvidia", "a100"),)
    assert parse_gpu_requests([good, bad]) is None
    assert gpu_key(GpuRequest("nvidia", "a100", "80Gi", "sxm")) == "vendor/nvidia/model/a100/ram/80Gi/interface/sxm"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80Gi", "80Gi"),
        ("81920Mi", "80Gi"),
        ("1.5Gi", "1Gi"),
        ("1Ti", "1024Gi"),
        ("80", "0Gi"),
        ("80G", None),
        ("", None),
        ("-1Gi", None),
        ("9" * 500, None),
        ("1e99Gi", None),
        ("20Ei", None),
    ],
)
def test_gpu_memory_is_whole_gibibytes(text: str, size: str | None) -> None:
    assert whole_gibibytes(text) == size


def test_the_worked_names_of_a_lease() -> None:
    assert str(LEASE) == f"{OWNER}/12345678/1/1/{PROVIDER}"
    assert namespace_name(LEASE) == "rpmnevhmtjv66teu8a44fejr3qqqgnmbpac3l12ij66o2"
    assert auto_hostname(LEASE, "web", "ingress.example.com") == "2jhk1j3c5tf1jd4rmaq993eq0c.ingress.example.com"
    short = LeaseId("akash1owner", 42, 1, 1, "akash1prov")
    assert auto_hostname(short, "web", "d") == "h7o5fv0n9pdnr03sap2jrhnvrk.d"
    assert LEASE.order.bid_by(PROVIDER) == LEASE


@pytest.mark.parametrize(
    ("endpoint", "ending"),
    [
        ("meow", "meow"),
        ("a-1", "a-1"),
        ("meYOU", "ps9pn7rkocct7m9ivtovuktb"),
        ("me_you", "dkp6evv330kmn93vqlo61ska"),
        ("my_ip", "m9fo0a1emsme20vtunjnvqbp"),
    ],
)
def test_a_sharing_key_is_the_owner_and_the_endpoint(endpoint: str, ending: str) -> None:
    assert sharing_key(OWNER, endpoint) == f"{OWNER}-ip-{ending}"


def test_names_made_from_a_sharing_key() -> None:
    key = sharing_key(OWNER, "meow")
    assert leased_ip_name(key, proto="TCP", external_port=80) == f"{OWNER}-ip-meow-tcp-80"
    assert pool_name(key).startswith("ip-")
    assert len(pool_name(key)) == 48
    assert pool_name(key) != pool_name(sharing_key(OWNER, "purr"))
