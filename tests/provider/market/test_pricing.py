"""The scale strategy: the Go provider's vectors (bidding.md §8, 1–8 and 61)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from provider.errors import PricingError, SettingsError
from provider.market.pricing.quote import maximum_price
from provider.market.pricing.scale import ScalePrices, price_lines, scale_price, scale_prices
from provider.settings import Settings

MIB = Decimal(2**20)


def group(
    *, cpu=11, memory=10000, volume: int | None = 4096, count=1, endpoints=(), price="23", attributes=()
) -> GroupSpec:
    storage = () if volume is None else (Volume("default", volume, tuple(attributes)),)
    resources = Resources(1, cpu, memory, storage, endpoints=tuple(endpoints))
    return GroupSpec("g", Requirements(), (ResourceUnit(resources, count, Price("uact", Decimal(price))),))


def priced(spec: GroupSpec, **scales: object) -> Decimal:
    price = scale_price(spec, ScalePrices(**scales))  # type: ignore[arg-type]
    assert price.denom == "uact"
    return price.amount


@pytest.mark.parametrize(
    ("spec", "scales", "amount"),
    [
        (group(cpu=13, volume=None), {"cpu": Decimal(22)}, "286"),
        (group(memory=123456, volume=None), {"memory": 23 * MIB}, "2839488"),
        (group(memory=1, volume=None), {"memory": Decimal(1)}, "0.0000009536743164"),
        (group(memory=2097151, volume=None), {"memory": Decimal(1)}, "1.9999990463256836"),
        (group(volume=98765), {"storage": {"ephemeral": 24 * MIB}}, "2370360.0000000004718592"),
        (group(volume=1501000), {"storage": {"ephemeral": Decimal("0.0016")}}, "0.00229034423828125"),
    ],
)
def test_a_price_is_the_go_providers(spec: GroupSpec, scales: dict[str, object], amount: str) -> None:
    assert priced(spec, **scales) == Decimal(amount)


@pytest.mark.parametrize(("count", "amount"), [(1, 333), (2, 666)])
def test_storage_counts_every_replica(count: int, amount: int) -> None:
    found = priced(group(volume=111, count=count), storage={"ephemeral": 3 * MIB})
    assert abs(found - amount) < Decimal("0.00001")


def leased(*numbers: int) -> list[Endpoint]:
    return [Endpoint(EndpointKind.LEASED_IP, number) for number in numbers]


def test_a_leased_ip_is_paid_once_a_number_and_not_a_replica() -> None:
    scales = {"ip": Decimal(3), "storage": {"ephemeral": Decimal(0)}}
    assert priced(group(endpoints=leased(1367)), **scales) == 3
    assert priced(group(endpoints=leased(1367, 1368)), **scales) == 6
    assert priced(group(endpoints=leased(1367, 1368), count=33), **scales) == 6
    assert priced(group(endpoints=leased(5, 5)), **scales) == 3


def test_endpoints_are_all_kinds_and_not_times_count() -> None:
    kinds = [Endpoint(EndpointKind.SHARED_HTTP), Endpoint(EndpointKind.RANDOM_PORT), *leased(1)]
    assert priced(group(endpoints=kinds, count=9), endpoint=Decimal(1), storage={"ephemeral": Decimal(0)}) == 3


def test_the_chart_defaults_give_their_known_price() -> None:
    spec = group(cpu=1000, memory=512 * 2**20, volume=2**30, endpoints=[Endpoint()])
    scales = {
        "cpu": Decimal("0.004"),
        "memory": Decimal("0.0016"),
        "storage": {"ephemeral": Decimal("0.00016"), "beta2": Decimal("0.00016")},
        "endpoint": Decimal(1),
        "ip": Decimal(60),
    }
    assert priced(spec, **scales) == Decimal("5.98304")


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ((), "ephemeral"),
        ((("class", "ram"), ("persistent", "false")), "ephemeral"),
        ((("class", "beta2"), ("persistent", "true")), "beta2"),
        ((("class", "beta2"), ("persistent", "no")), "ephemeral"),
        ((("persistent", "true"),), "ephemeral"),
    ],
)
def test_a_volume_is_priced_by_its_class_only_when_persistent(attributes, name: str) -> None:
    spec = group(attributes=[Attribute(*pair) for pair in attributes])
    lines = price_lines(spec, ScalePrices(storage={"ephemeral": Decimal(1), "beta2": Decimal(2)}))
    assert [line.what for line in lines if "storage" in line.what] == [f"MiB storage {name}"]


@pytest.mark.parametrize(
    ("spec", "scales", "words"),
    [
        (group(), {"cpu": Decimal(1)}, "class ephemeral has no price"),
        (group(cpu=0, volume=None), {"cpu": Decimal(1)}, "price is 0"),
        (group(volume=None), {"cpu": Decimal(9223372036854775807) * 10**2}, "above 10^18"),
    ],
)
def test_what_has_no_price_gets_no_bid(spec: GroupSpec, scales: dict[str, object], words: str) -> None:
    with pytest.raises(PricingError, match=words.replace("^", r"\^")):
        priced(spec, **scales)


def test_all_scales_zero_is_a_wrong_setting() -> None:
    for free in ({}, {"ephemeral": Decimal(0)}, {"ephemeral": Decimal(1), "beta2": Decimal(0)}):
        with pytest.raises(SettingsError, match="AP_BID_PRICE_CPU_SCALE"):
            scale_prices(Settings(storage_scale=free))
    for one in ("cpu_scale", "memory_scale", "endpoint_scale", "ip_scale"):
        assert scale_prices(Settings(**{one: 1}))  # type: ignore[arg-type]
    assert scale_prices(Settings(storage_scale={"": Decimal(1)}))


def test_the_maximum_is_the_sum_of_unit_prices_times_counts() -> None:
    two = group(price="1.5", count=3)
    spec = replace(two, units=(*two.units, *group(price="2").units))
    assert maximum_price(spec) == Price("uact", Decimal("6.5"))


SCALE = st.decimals("1e-6", 10**3, places=6)
AMOUNTS = st.tuples(st.integers(0, 384000), st.integers(0, 2**41), st.integers(0, 2**45), st.integers(1, 50))


@given(AMOUNTS, SCALE, SCALE)
def test_a_price_has_at_most_eighteen_places_and_grows_with_what_is_rented(amounts, one: Decimal, two: Decimal) -> None:
    scales = {"cpu": one, "memory": two, "storage": {"ephemeral": one}, "endpoint": two}
    cpu, memory, volume, count = amounts
    amount, more = (
        priced(group(cpu=milli, memory=memory, volume=volume, count=count, endpoints=[Endpoint()]), **scales)
        for milli in (cpu, cpu + 1)
    )
    exponent = amount.as_tuple().exponent
    assert isinstance(exponent, int)
    assert exponent >= -18
    assert more > amount
