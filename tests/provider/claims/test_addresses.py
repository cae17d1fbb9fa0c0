"""Addresses: which one a key gets, what is recorded, and when its pool goes."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.addresses import pool_name, sharing_key
from lease.manifest import Expose, Group, Service
from lease.resources import Resources
from provider.claims.addresses import AddressesExhaustedError, choose_address, named_ranges, pool_addresses
from provider.claims.leased_ips import address_claims, leased_ip_object, wanted_addresses
from provider.claims.pools import remove_unused_pools
from provider.errors import ClusterError
from provider.protocols.cluster import IP_ADDRESS_POOL, L2_ADVERTISEMENT
from provider.units import AddressRange, parse_address_range
from tests.provider.lifecycle.world import OWNER, a_lease
from tests.world.cluster import FakeCluster

L = a_lease()


def choose(ranges: str, taken: list[str], pools: str = "") -> str:
    return choose_address(
        "key",
        ranges=[parse_address_range(text) for text in ranges.split(",") if text],
        taken=taken,
        pools=[parse_address_range(text) for text in pools.split(",") if text],
    )


@pytest.mark.parametrize(
    ("ranges", "taken", "pools", "chosen"),
    [
        ("203.0.113.4-203.0.113.6", [], "", "203.0.113.4"),
        ("203.0.113.4-203.0.113.6", ["203.0.113.4"], "", "203.0.113.5"),
        ("203.0.113.0/30", [], "203.0.113.0/31", "203.0.113.2"),
        ("203.0.113.4,198.51.100.7", ["203.0.113.4"], "", "198.51.100.7"),
        ("203.0.113.0/30,203.0.113.0/29", [], "203.0.113.0/30", "203.0.113.4"),
        ("2001:db8::/64", ["2001:db8::"], "", "2001:db8::1"),
        ("2001:db8::/64", [], "2001:db8::/65", "2001:db8:0:0:8000::"),
        ("203.0.113.4", ["2001:db8::1"], "2001:db8::/64", "203.0.113.4"),
    ],
)
def test_the_lowest_free_address_is_chosen(ranges: str, taken: list[str], pools: str, chosen: str) -> None:
    assert choose(ranges, taken, pools) == chosen


@pytest.mark.parametrize(
    ("ranges", "taken", "pools"),
    [("", [], ""), ("203.0.113.4", ["203.0.113.4"], ""), ("203.0.113.0/30", [], "203.0.113.0/24")],
)
def test_no_free_address_names_the_setting_and_the_ranges(ranges: str, taken: list[str], pools: str) -> None:
    with pytest.raises(AddressesExhaustedError, match="ip-ranges") as error:
        choose(ranges, taken, pools)
    assert ("not set" if not ranges else ranges.split("/", maxsplit=1)[0]) in str(error.value)


_LAST = st.integers(0, 40)


@given(st.lists(_LAST, max_size=30), st.lists(st.tuples(_LAST, _LAST).map(sorted), max_size=4))
def test_a_chosen_address_is_in_a_range_and_in_nothing_else(taken: list[int], pools: list[list[int]]) -> None:
    base = int(ipaddress.ip_address("203.0.113.0"))
    used = [str(ipaddress.ip_address(base + last)) for last in taken]
    held = ",".join(f"203.0.113.{low}-203.0.113.{high}" for low, high in pools)
    free = set(range(8, 33)) - set(taken) - {n for low, high in pools for n in range(low, high + 1)}
    try:
        chosen = choose("203.0.113.8-203.0.113.32", used, held)
    except AddressesExhaustedError:
        assert not free
    else:
        assert int(chosen.rsplit(".", 1)[1]) == min(free)


def test_pools_that_cannot_be_read_hold_nothing() -> None:
    pools: list[dict[str, Any]] = [{"spec": {"addresses": ["nonsense", "203.0.113.1"]}}, {"spec": {}}, {}]
    assert [str(item.first) for item in pool_addresses(pools)] == ["203.0.113.1"]


def group(*exposes: Expose) -> Group:
    return Group("west", (Service("web", "nginx", Resources(1, 1, 1, ()), 1, expose=exposes),))


def test_only_global_exposes_that_name_an_endpoint_want_an_address() -> None:
    wanted = wanted_addresses(
        L,
        group(
            Expose(80, global_=True, ip="meow"),
            Expose(81, global_=False, ip="meow"),
            Expose(82, global_=True),
            Expose(5353, external_port=53, proto="udp", global_=True, ip="me_you"),
            Expose(90, external_port=80, global_=True, ip="meow"),
        ),
    )
    assert [claim.name for claim in wanted] == [
        f"{OWNER}-ip-meow-tcp-80",
        f"{OWNER}-ip-dkp6evv330kmn93vqlo61ska-udp-53",
    ]
    assert wanted[0].port == 80


def test_a_claim_read_back_is_the_claim_that_was_written() -> None:
    (claim,) = wanted_addresses(L, group(Expose(8080, external_port=80, global_=True, ip="meow")))
    obj = leased_ip_object(claim, namespace="lease")
    assert address_claims([obj]) == {claim.name: claim}
    status = leased_ip_object(claim.at("203.0.113.9"), namespace="lease", status=True)
    assert address_claims([{**obj, "status": status["status"]}])[claim.name].address == "203.0.113.9"


@pytest.mark.parametrize("spec", [None, {}, {"lease_id": "x"}, {"lease_id": {"owner": "a", "dseq": "NaN"}}])
def test_an_unreadable_claim_claims_nothing(spec: Any) -> None:
    assert address_claims([{"metadata": {"name": "x"}, "spec": spec}]) == {}


class Pools:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.keys = [sharing_key(OWNER, name) for name in ("meow", "purr")]
        for key in self.keys:
            for kind in (IP_ADDRESS_POOL, L2_ADVERTISEMENT):
                self.put(kind.kind, pool_name(key), {"akash.network/sharing-key-hash": pool_name(key)[3:]})
        self.put("IPAddressPool", "the-operators-own", {})

    def put(self, kind: str, name: str, labels: dict[str, str]) -> None:
        meta = {"name": name, "namespace": "metallb-system", "labels": labels}
        self.cluster.put({"apiVersion": "metallb.io/v1beta1", "kind": kind, "metadata": meta, "spec": {}})

    def claim(self, endpoint: str) -> None:
        (claim,) = wanted_addresses(L, group(Expose(80, global_=True, ip=endpoint)))
        self.cluster.put(leased_ip_object(claim, namespace="lease"))

    async def sweep(self) -> tuple[str, ...]:
        return await remove_unused_pools(self.cluster, claims_namespace="lease", metallb_namespace="metallb-system")

    @property
    def names(self) -> list[str]:
        return self.cluster.named(IP_ADDRESS_POOL) + self.cluster.named(L2_ADVERTISEMENT)


async def test_pools_without_a_claim_go_and_others_stay() -> None:
    pools = Pools()
    pools.claim("meow")
    assert await pools.sweep() == (pool_name(pools.keys[1]),) * 2
    assert pools.names == [pool_name(pools.keys[0]), "the-operators-own", pool_name(pools.keys[0])]


async def test_a_claim_that_appears_after_the_pools_were_listed_keeps_its_pool() -> None:
    pools = Pools()

    def meanwhile(operation: str, kind: str, name: str) -> None:
        if (operation, kind) == ("list", "ProviderLeasedIP"):
            pools.claim("meow")
            pools.claim("purr")

    pools.cluster.before = meanwhile
    assert await pools.sweep() == ()


async def test_a_pool_that_a_service_is_on_stays_though_its_claim_is_not_in_our_list() -> None:
    """Somebody deleted it, or it is another provider's of the same cluster."""
    pools = Pools()
    labels = {"akash.network": "true", "akash.network/service-target": "metal-lb"}
    meta = {"name": "web-ip-80-tcp", "namespace": "theirs", "labels": labels}
    meta["annotations"] = {"metallb.io/address-pool": pool_name(pools.keys[0])}
    pools.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}})
    pools.cluster.put({"apiVersion": "v1", "kind": "Service", "metadata": meta})
    assert await pools.sweep() == (pool_name(pools.keys[1]),) * 2
    pools.cluster.remove(("v1", "Service", "theirs", "web-ip-80-tcp"))
    assert await pools.sweep() == (pool_name(pools.keys[0]),) * 2


async def test_a_pool_that_changes_before_it_is_deleted_stays() -> None:
    pools = Pools()

    def meanwhile(operation: str, kind: str, name: str) -> None:
        if operation == "delete":
            pools.put(kind, name, {"akash.network/sharing-key-hash": name[3:], "new": "label"})

    pools.cluster.before = meanwhile
    assert await pools.sweep() == () and len(pools.names) == 5


async def test_no_pool_goes_while_a_claim_cannot_be_read() -> None:
    pools = Pools()
    meta = {"name": "broken", "namespace": "lease"}
    pools.cluster.put({"apiVersion": "akash.network/v2beta2", "kind": "ProviderLeasedIP", "metadata": meta, "spec": {}})
    assert await pools.sweep() == () and len(pools.names) == 5


async def test_a_cluster_without_metallb_has_no_pools() -> None:
    pools = Pools()

    def no_such_kind(operation: str, kind: str, name: str) -> None:
        if kind in ("IPAddressPool", "L2Advertisement"):
            raise ClusterError("https://fake", "the server could not find the requested resource", status=404)

    pools.cluster.before = no_such_kind
    assert await pools.sweep() == ()


@given(
    first=st.integers(0, 2**32 - 1), size=st.integers(1, 1500), other=st.integers(-800, 800), width=st.integers(1, 900)
)
def test_the_count_of_usable_addresses_is_that_of_one_by_one(first: int, size: int, other: int, width: int) -> None:
    last = min(first + size - 1, 2**32 - 1)
    one = AddressRange(IPv4Address(first), IPv4Address(last), usable_only=True)
    begin = min(max(first + other, 0), 2**32 - 1)
    second = AddressRange(IPv4Address(begin), IPv4Address(min(begin + width - 1, 2**32 - 1)))
    usable = {value for value in range(first, last + 1) if value % 256 not in (0, 255)}
    assert one.size == len(usable) == sum(IPv4Address(value) in one for value in range(first, last + 1))
    common = {value for value in usable if IPv4Address(value) in second}
    assert one.common(second) == second.common(one) == len(common)


def test_a_pool_of_millions_of_addresses_is_one_range_and_its_first_usable_address_is_found() -> None:
    pool = {"metadata": {"name": "public"}, "spec": {"addresses": ["11.0.0.0/8"]}}
    ranges = named_ranges([pool], {"public"})
    assert [one.size for one in ranges] == [2**16 * 254]
    assert choose_address("k", ranges=ranges, taken=["11.0.0.1"], pools=()) == "11.0.0.2"
    block = parse_address_range("11.0.0.1-11.0.0.254")
    assert choose_address("k", ranges=ranges, taken=[], pools=[block]) == "11.0.1.1"


def test_a_pool_of_dropped_addresses_alone_has_none_to_lease() -> None:
    pool = {"metadata": {"name": "public"}, "spec": {"addresses": ["11.0.0.255-11.0.1.0"]}}
    assert named_ranges([pool], {"public"}) == ()
