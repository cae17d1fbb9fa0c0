"""Manifests and group specs against the rules of sdl-and-manifest.md §4 (numbered behaviours 35-39)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from lease.errors import GroupsInvalid, ManifestErrorKind, ManifestRefused
from lease.go_quote import go_quote
from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.manifest import Expose, Group, Manifest, Service
from lease.resources import Attribute, Price, Volume
from lease.validation import (
    cross_validate,
    group_problems,
    validate_groups,
    validate_manifest,
)
from tests.lease.manifests import (
    EXPOSE,
    HTTP,
    IP,
    PORT,
    PRICE,
    RESOURCES,
    SERVICE,
    manifest,
    with_expose,
    with_resources,
)


def test_a_plain_manifest_is_fine() -> None:
    validate_manifest(manifest(SERVICE))
    validate_manifest(manifest(SERVICE, replace(SERVICE, expose=())))
    validate_manifest(manifest(with_expose(hosts=("1.2.3.4", "localhost", "a" * 64 + ".com"))))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ((), "invalid manifest: manifest is empty"),
        (manifest(), 'invalid manifest: group "dc" contains no services'),
        ((Group("dc", None),), 'invalid manifest: group "dc" contains no services'),
        (manifest(SERVICE, replace(SERVICE, name="db")), 'invalid manifest: group "dc" services is not sorted'),
        (manifest(replace(SERVICE, name="")), "invalid manifest: service name is empty"),
        *(
            (manifest(replace(SERVICE, name=name)), f"invalid manifest: service {go_quote(name)} name is invalid")
            for name in ("a_bad_service_name", "a-name-", "9aaa-bar", "Web", "web\n")
        ),
        (manifest(replace(SERVICE, image="")), 'invalid manifest: service "web" has empty image name'),
        *(
            (
                manifest(replace(SERVICE, env=(entry,))),
                f'invalid manifest: service "web" defines an env. var. with an invalid name "{entry.split("=")[0]}"',
            )
            for entry in ("=FOO", "9VAR=FOO", "", ".=1", "..", "..a=1", "A B=1", "É=1")
        ),
        (
            manifest(with_expose(port=65536)),
            'invalid manifest: service "web": port value must be 0 < value <= 65535 ',
        ),
        (manifest(with_expose(proto="ICMP")), 'invalid manifest: service "web": protocol "ICMP" unknown'),
        *(
            (
                manifest(with_expose(hosts=(host,))),
                f'invalid manifest: service "web": has invalid hostname {go_quote(host)}',
            )
            for host in ("-bob", "a" * 259, "A.com", "a_b", "*.a.com", "a.com:80", "", "é.com", "a..b", "a.com\n")
        ),
        (
            manifest(with_expose(hosts=("a.com", "a.com"))),
            'invalid manifest: service "web": hostname "a.com" is duplicated, this is not allowed',
        ),
        (
            manifest(replace(SERVICE, expose=(Expose(81, global_=True), EXPOSE))),
            'invalid manifest: service "web": expose is not sorted',
        ),
        (
            (*manifest(SERVICE), *manifest(replace(SERVICE, expose=()))),
            'invalid manifest: duplicate group "dc"',
        ),
        (manifest(replace(SERVICE, expose=None)), "invalid manifest: zero global services"),
    ],
)
def test_a_manifest_against_the_rules_is_refused_in_the_recorded_words(wrong: Manifest, text: str) -> None:
    """sdl-and-manifest.md §6 35."""
    with pytest.raises(ManifestRefused) as caught:
        validate_manifest(wrong)
    assert str(caught.value) == text
    assert caught.value.kind is ManifestErrorKind.INVALID


def test_absent_resources_are_told_in_order_and_without_the_sentinel() -> None:
    """sdl-and-manifest.md §6 38."""
    absent: dict[str, Any] = {"absent": frozenset(("cpu", "gpu", "memory")), "storage": None, "endpoints": None}
    for changes, text in (
        ({"id": 0}, "resources ID must be > 0"),
        ({}, "CPU must not be nil"),
        ({"absent": frozenset(("gpu", "memory"))}, "GPU must not be nil"),
        ({"absent": frozenset(("memory",))}, "memory must not be nil"),
        ({"absent": frozenset()}, "storage must not be nil"),
        ({"absent": frozenset(), "storage": ()}, "endpoints must not be nil"),
    ):
        with pytest.raises(ManifestRefused) as caught:
            validate_manifest(manifest(with_resources(**{**absent, **changes})))
        assert (str(caught.value), caught.value.kind) == (text, ManifestErrorKind.PLAIN)


def spec(*units: ResourceUnit, name: str = "dc") -> GroupSpec:
    return GroupSpec(name, Requirements(), units or (ResourceUnit(RESOURCES, 1, PRICE),))


def unit(count: int = 1, **changes: Any) -> ResourceUnit:
    return ResourceUnit(replace(RESOURCES, **changes), count, PRICE)


def test_a_manifest_that_uses_exactly_what_is_rented_passes() -> None:
    """sdl-and-manifest.md §6 37."""
    for count in range(1, 21):
        cross_validate(manifest(replace(SERVICE, count=count)), [spec(unit(count))])
    names = ("c", "b", "a")
    groups = tuple(Group(name, (SERVICE,)) for name in names)
    cross_validate(groups, [spec(name=name) for name in reversed(names)])
    twice = manifest(replace(SERVICE, count=2), replace(SERVICE, expose=()))
    cross_validate(twice, [spec(unit(3))])


def test_more_volumes_on_chain_pass_and_fewer_are_a_mismatch() -> None:
    """sdl-and-manifest.md §6 38."""
    more = (*(RESOURCES.storage or ()), Volume("extra", 2**30))
    cross_validate(manifest(SERVICE), [spec(unit(storage=more))])
    with pytest.raises(ManifestRefused, match="Storage resources mismatch for ID 1"):
        cross_validate(manifest(with_resources(storage=more)), [spec()])


CROSS = 'manifest cross-validation error: group "dc": '
IN_WEB = f'{CROSS}service "web": '


@pytest.mark.parametrize(
    ("service", "group", "text"),
    [
        (SERVICE, spec(unit(id=2)), f"{IN_WEB}not found deployment group resources with ID = 1"),
        (with_resources(cpu_milli=101), spec(), f"{IN_WEB}CPU resources mismatch for ID 1"),
        (with_resources(gpu_units=1), spec(), f"{IN_WEB}GPU resources mismatch for ID 1"),
        (with_resources(memory_bytes=1), spec(), f"{IN_WEB}Memory resources mismatch for ID 1"),
        (with_resources(storage=(Volume("other", 2**30),)), spec(), f"{IN_WEB}Storage resources mismatch for ID 1"),
        (
            replace(SERVICE, count=2),
            spec(),
            f"{IN_WEB}over-utilized replicas (2) > group spec resources count (1)",
        ),
        (SERVICE, spec(unit(endpoints=())), f"{IN_WEB}resource ID 1: over-utilized HTTP endpoints"),
        (with_expose(port=81), spec(), f"{IN_WEB}resource ID 1: over-utilized PORT endpoints"),
        (with_expose(ip="meow"), spec(), f"{IN_WEB}resource ID 1: over-utilized IP endpoints"),
    ],
)
def test_a_manifest_that_uses_more_or_other_than_is_rented_is_refused(
    service: Service, group: GroupSpec, text: str
) -> None:
    """sdl-and-manifest.md §6 37."""
    with pytest.raises(ManifestRefused) as caught:
        cross_validate(manifest(service), [group])
    assert (str(caught.value), caught.value.kind) == (text, ManifestErrorKind.CROSS)


@pytest.mark.parametrize(
    ("group", "what"),
    [
        (spec(unit(2)), "under-utilized (1) resources"),
        (spec(unit(endpoints=(HTTP, HTTP))), "under-utilized (1) HTTP endpoints"),
        (spec(unit(endpoints=(HTTP, PORT, PORT))), "under-utilized (2) PORT endpoints"),
        (spec(unit(endpoints=(HTTP, IP))), "under-utilized (1) IP endpoints"),
    ],
)
def test_a_manifest_that_leaves_something_unused_is_refused(group: GroupSpec, what: str) -> None:
    """sdl-and-manifest.md §6 37."""
    with pytest.raises(ManifestRefused) as caught:
        cross_validate(manifest(SERVICE), [group])
    assert str(caught.value).startswith("manifest cross-validation error: ")
    assert what in str(caught.value)


def test_other_groups_than_those_on_chain_are_refused_without_the_sentinel() -> None:
    """sdl-and-manifest.md §6 37."""
    for groups, text in (
        ((), "invalid manifest: group count mismatch (1 != 0)"),
        ([spec(name="zz")], "invalid manifest: unknown deployment group ('dc')"),
    ):
        with pytest.raises(ManifestRefused) as caught:
            cross_validate(manifest(SERVICE), groups)
        assert (str(caught.value), caught.value.kind) == (text, ManifestErrorKind.PLAIN)


GPU = (Attribute("vendor/nvidia/model/*", "true"),)


@pytest.mark.parametrize(
    "group",
    [
        spec(unit(cpu_milli=10, memory_bytes=2**20, storage=(Volume("d", 5 * 2**20),))),
        spec(unit(cpu_milli=384_000, memory_bytes=2**41, storage=(Volume("d", 2**45),))),
        spec(unit(gpu_units=24, gpu_attributes=GPU)),
        spec(unit(50, cpu_milli=384_000)),
        spec(unit(storage=())),
        spec(*(unit(id=number) for number in range(1, 31))),
        spec(unit(1), unit(0, id=2)),
    ],
)
def test_group_specs_within_the_limits(group: GroupSpec) -> None:
    validate_groups((group,))


@pytest.mark.parametrize(
    ("group", "field"),
    [
        (spec(unit(cpu_milli=9)), "cpu"),
        (spec(unit(cpu_milli=384_001)), "cpu"),
        (spec(unit(gpu_units=25, gpu_attributes=GPU)), "gpu"),
        (spec(unit(gpu_attributes=GPU)), "gpu"),
        (spec(unit(gpu_units=1, gpu_attributes=GPU * 2)), "gpu"),
        (spec(unit(memory_bytes=2**20 - 1)), "memory"),
        (spec(unit(memory_bytes=2**41 + 1)), "memory"),
        (spec(unit(storage=(Volume("d", 5 * 2**20 - 1),))), "storage"),
        (spec(unit(storage=(Volume("d", 2**45 + 1),))), "storage"),
        (spec(unit(storage=None)), "storage"),
        (spec(unit(absent=frozenset(("cpu",)))), "cpu"),
        (spec(unit(51, cpu_milli=384_000)), "cpu"),
        (spec(unit(51, gpu_units=24, gpu_attributes=GPU)), "gpu"),
        (spec(unit(51, memory_bytes=2**41)), "memory"),
        (spec(unit(0)), "cpu"),
        (spec(unit(id=0)), "id"),
        (spec(unit(), unit()), "id"),
        (spec(name=""), "name"),
        (spec(ResourceUnit(RESOURCES, 1, Price("uact", Decimal(10_000_001)))), "price"),
        (spec(ResourceUnit(RESOURCES, 1, Price("uact", Decimal(0)))), "price"),
        (spec(unit(), ResourceUnit(replace(RESOURCES, id=2), 1, Price("uakt", Decimal(1)))), "price"),
    ],
)
def test_group_specs_beyond_the_limits(group: GroupSpec, field: str) -> None:
    with pytest.raises(GroupsInvalid) as caught:
        validate_groups((group,))
    assert caught.value.field == field


def test_groups_need_names_of_their_own_and_one_denom() -> None:
    validate_groups((spec(name="a"), spec(name="b")))
    other = ResourceUnit(RESOURCES, 1, Price("uakt", Decimal(1)))
    for wrong in ((), (spec(name="a"), spec(name="a")), (spec(name="a"), spec(other, name="b"))):
        with pytest.raises(GroupsInvalid):
            validate_groups(wrong)


def test_groups_are_checked_denom_name_units_ids_totals_prices_and_repetition() -> None:
    """sdl-and-manifest.md §4.3: the order of the chain, told by what is first when the ones before are right."""
    other = ResourceUnit(replace(RESOURCES, id=1, cpu_milli=9), 2**31, Price("uakt", Decimal(10**8)))
    twin = ResourceUnit(replace(RESOURCES, id=1), 1, Price("uakt", Decimal(10**8)))
    groups = (spec(name=""), spec(other, twin, name=""))
    told = [problem.field or str(problem) for problem in group_problems(groups)]
    assert told == ["name", "price", "price", "name", "cpu", "id", "cpu", "memory", "price", "price", "name"]


def test_a_unit_is_checked_id_cpu_gpu_memory_storage() -> None:
    nothing = unit(id=0, absent=frozenset(("cpu", "gpu", "memory")), storage=None)
    fields = [problem.field for problem in group_problems((spec(nothing),))]
    assert fields[:5] == ["id", "cpu", "gpu", "memory", "storage"]
    wrong = (Attribute("$", "v"),)
    values = {"cpu_milli": 1, "gpu_units": 25, "memory_bytes": 1, "storage": (Volume("a", 1, wrong),)}
    attributes = {"cpu_attributes": wrong, "gpu_attributes": wrong, "memory_attributes": wrong}
    fields = [problem.field for problem in group_problems((spec(unit(**values, **attributes)),))]  # type: ignore[arg-type]
    assert fields[:8] == ["cpu", "cpu", "gpu", "gpu", "memory", "memory", "storage", "storage"]


@pytest.mark.parametrize("key", ["key1", "key1*", "key1/*"])
def test_attribute_keys_that_are_taken(key: str) -> None:
    """sdl-and-manifest.md §6 39."""
    validate_groups((spec(unit(cpu_attributes=(Attribute(key, "v"),))),))


@pytest.mark.parametrize("key", ["*key1", "key1**", "key1*/", "key1/*/", "$", "", "k" * 130, "k", "key\n", "kéy"])
def test_attribute_keys_that_are_refused(key: str) -> None:
    """sdl-and-manifest.md §6 39."""
    with pytest.raises(GroupsInvalid):
        validate_groups((spec(unit(cpu_attributes=(Attribute(key, "v"),))),))


@pytest.mark.parametrize(
    ("expose", "ingress"),
    [
        (Expose(80, global_=True), True),
        (Expose(8080, 80, global_=True), True),
        (Expose(81, global_=True), False),
        (Expose(80), False),
        (Expose(80, proto="UDP", global_=True), False),
        (Expose(80, 8080, global_=True), False),
    ],
)
def test_global_tcp_on_external_port_80_is_the_shared_edge(expose: Expose, ingress: bool) -> None:
    """sdl-and-manifest.md §6 36."""
    assert expose.is_ingress is ingress
