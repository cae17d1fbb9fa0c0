"""A tenant's JSON at its edges: numbers that must not wrap, members of a wrong type, repeated ones, broken text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from lease.errors import ManifestRefused
from lease.groups import GroupSpec, Requirements, ResourceUnit
from lease.manifest import Group, Manifest, Service
from lease.manifest_json import canonical_manifest, manifest_from_json, manifest_json
from lease.resources import Price
from lease.validation import cross_validate


def first_service(body: Any) -> Service:
    manifest = manifest_from_json(json.dumps([{"name": "g", "services": [body]}]))
    return (manifest[0].services or ())[0]


def groups_of(manifest: Manifest) -> tuple[GroupSpec, ...]:
    price = Price("uact", Decimal(1))
    return tuple(
        GroupSpec(
            group.name,
            Requirements(),
            tuple(ResourceUnit(service.resources, service.count, price) for service in group.services or ()),
        )
        for group in manifest
    )


UINT32_PLACES = {
    "count": '"count":{}',
    "id": '"resources":{{"id":{}}}',
    "endpoint": '"resources":{{"endpoints":[{{"sequence_number":{}}}]}}',
    **{name: f'"expose":[{{{{"{name}":{{}}}}}}]' for name in ("port", "externalPort", "endpointSequenceNumber")},
    **{
        name: f'"expose":[{{{{"httpOptions":{{{{"{name}":{{}}}}}}}}}}]'
        for name in ("maxBodySize", "readTimeout", "sendTimeout", "nextTries", "nextTimeout", "proxyBufferSize")
    },
}


@pytest.mark.parametrize("place", UINT32_PLACES)
def test_numbers_end_at_32_bits_and_never_wrap(place: str) -> None:
    def body(number: str) -> str:
        return f'[{{"services":[{{{UINT32_PLACES[place].format(number)}}}]}}]'

    largest = manifest_from_json(body("4294967295"))
    assert "4294967295" in manifest_json(largest)
    for number in ("4294967296", "18446744073709551616", "-1", "1.0", "1e3", "-0", "1" * 400):
        with pytest.raises(ManifestRefused, match="cannot unmarshal number") as caught:
            manifest_from_json(body(number))
        assert number[:300] in str(caught.value)
    for wrong in ('"1"', "true", "{}", "[1]"):
        with pytest.raises(ManifestRefused, match="cannot unmarshal"):
            manifest_from_json(body(wrong))


QUANTITY_PLACES = ("cpu.units", "memory.size", "gpu.units")


@pytest.mark.parametrize("place", QUANTITY_PLACES)
def test_quantities_are_kept_exactly_up_to_256_bits_and_judged_later(place: str) -> None:
    """Go's integers here are as long as they need be; the groups' limits and the provider refuse what is too much."""
    resource, member = place.split(".")

    def service(text: str) -> Service:
        return first_service({"resources": {resource: {member: {"val": text}}}})

    for number in (2**32, 2**53 + 1, 2**63, 2**64, 2**256 - 1):
        assert str(number) in manifest_json((Group("g", (service(str(number)),)),))
        with pytest.raises(ManifestRefused):
            cross_validate((Group("g", (service(str(number)),)),), groups_of((Group("g", (service("1"),)),)))
    for text, number in (
        ("1_0", 10),
        ("1_0_0", 100),
        ("0x_f", 15),
        ("0_7", 7),
        ("0o1_7", 15),
        ("0b_1", 1),
        ("+1_0", 10),
    ):
        assert f'"{number}"' in manifest_json((Group("g", (service(text),)),))
    for text in ("_1", "1_", "1__0", "0o", "0x_", "1_a"):
        with pytest.raises(ManifestRefused, match="cannot unmarshal"):
            service(text)
    for text in ("", " 1", "1 ", "1.0", "1e3", "0x", "NaN", "\u0661", str(2**256), "9" * 101):
        with pytest.raises(ManifestRefused):
            service(text)
    for wrong in (1, True, [], {}):
        with pytest.raises(ManifestRefused):
            first_service({"resources": {resource: {member: {"val": wrong}}}})


MEMBERS = {
    "name": "string",
    "image": "string",
    "command": "list",
    "args": "list",
    "env": "list",
    "resources": "object",
    "expose": "list",
    "params": "object",
    "credentials": "object",
}
SAMPLES: dict[str, Any] = {"string": "x", "list": [], "object": {}, "number": 1, "bool": True}


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_of_a_wrong_type_is_refused_with_its_way(member: str) -> None:
    for kind, value in SAMPLES.items():
        if kind == MEMBERS[member]:
            first_service({member: value})
            continue
        with pytest.raises(ManifestRefused, match="json: cannot unmarshal") as caught:
            first_service({member: value})
        assert f"services.{member}" in str(caught.value)


def test_repeated_members_are_one_decision_for_hash_and_rules() -> None:
    """The last one counts, for every check alike: nothing is judged by one and run by the other."""
    resources = '"resources":{"id":1,"cpu":{"units":{"val":"1"}}},"resources":{"id":2}'
    manifest = manifest_from_json(f'[{{"name":"g","services":[{{"name":"a",{resources},"name":"b"}}]}}]')
    (service,) = manifest[0].services or ()
    assert (service.name, service.resources.id, service.resources.cpu_milli) == ("b", 2, 0)
    assert manifest_from_json(canonical_manifest(manifest)) == manifest


@pytest.mark.parametrize("text", ["\\ud800", "\\udc00x", "\\ud800\\ud800", "a\\udfff"])
def test_lone_surrogates_never_reach_the_hash_or_the_cluster(text: str) -> None:
    for body in (f'[{{"name":"{text}"}}]', f'[{{"services":[{{"env":["{text}"]}}]}}]'):
        manifest = manifest_from_json(body)
        assert canonical_manifest(manifest).decode()
        assert "\ufffd" in manifest_json(manifest)
        assert manifest_from_json(canonical_manifest(manifest)) == manifest


def test_errors_name_gos_own_types_of_a_protocol_and_of_an_endpoints_kind() -> None:
    with pytest.raises(ManifestRefused, match=r"expose\.proto of type v2beta3\.ServiceProtocol"):
        first_service({"expose": [{"proto": 1}]})
    for kind in ("RANDOM_PORT", True, 2**31):
        with pytest.raises(ManifestRefused, match=r"endpoints\.kind of type v1beta4\.Endpoint_Kind"):
            first_service({"resources": {"endpoints": [{"kind": kind}]}})
