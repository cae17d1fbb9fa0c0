"""Manifest JSON in both directions: Go's texts for what is wrong, the same bytes for what is right."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lease.errors import ManifestErrorKind, ManifestRefused
from lease.manifest import (
    Credentials,
    Expose,
    Group,
    HttpOptions,
    Manifest,
    Params,
    Permissions,
    Service,
    StorageMount,
    Tee,
)
from lease.manifest_json import canonical_manifest, manifest_from_json, manifest_json, manifest_version
from lease.resources import Attribute, Endpoint, EndpointKind, Resources, Volume
from lease.sdl import read_sdl
from lease.validation import check_version, cross_validate, validate_manifest
from tests.world.work import calls_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TEXTS = st.none() | st.lists(TEXT, max_size=3).map(tuple)
UINT32 = st.integers(0, 2**32 - 1)
AMOUNT = st.integers(0, 2**64 - 1)
ATTRIBUTES = st.lists(st.builds(Attribute, TEXT, TEXT), max_size=2).map(tuple)
VOLUMES = st.lists(st.builds(Volume, TEXT, AMOUNT, ATTRIBUTES), min_size=1, max_size=3).map(tuple)
ENDPOINTS = st.lists(st.builds(Endpoint, st.sampled_from(EndpointKind), UINT32), max_size=3).map(tuple)
RESOURCES = st.builds(
    Resources,
    id=UINT32,
    cpu_milli=AMOUNT,
    memory_bytes=AMOUNT,
    storage=st.none() | VOLUMES,
    gpu_units=AMOUNT,
    endpoints=st.none() | ENDPOINTS,
    cpu_attributes=ATTRIBUTES,
    memory_attributes=ATTRIBUTES,
    gpu_attributes=ATTRIBUTES,
)
NUMBERS = dict.fromkeys(
    ("max_body_size", "read_timeout", "send_timeout", "next_tries", "next_timeout", "proxy_buffer_size"), UINT32
)
HTTP = st.builds(HttpOptions, **NUMBERS, next_cases=st.lists(TEXT, max_size=3).map(tuple))
EXPOSE = st.builds(
    Expose,
    port=UINT32,
    external_port=UINT32,
    proto=TEXT,
    service=TEXT,
    global_=st.booleans(),
    hosts=TEXTS,
    http_options=HTTP,
    ip=TEXT,
    endpoint_sequence_number=UINT32,
)
CREDENTIALS = st.builds(Credentials, TEXT, TEXT, TEXT, TEXT)
PARAMS = st.builds(
    Params,
    storage=st.none() | st.lists(st.builds(StorageMount, TEXT, TEXT, st.booleans()), max_size=2).map(tuple),
    credentials=st.none() | CREDENTIALS,
    permissions=st.none() | st.builds(Permissions, st.none() | st.lists(TEXT, min_size=1, max_size=2).map(tuple)),
    tee=st.none() | st.builds(Tee, TEXT, st.booleans()),
)
SERVICE = st.builds(
    Service,
    name=TEXT,
    image=TEXT,
    resources=RESOURCES,
    count=UINT32,
    command=TEXTS,
    args=TEXTS,
    env=TEXTS,
    expose=st.none() | st.lists(EXPOSE, max_size=2).map(tuple),
    params=st.none() | PARAMS,
    credentials=st.none() | CREDENTIALS,
)
MANIFEST = st.lists(st.builds(Group, TEXT, st.none() | st.lists(SERVICE, max_size=2).map(tuple)), max_size=2).map(tuple)


@settings(max_examples=60, deadline=None)
@given(MANIFEST)
def test_decoding_what_was_encoded_gives_it_back(manifest: Manifest) -> None:
    for text in (manifest_json(manifest), manifest_json(manifest, indent=2), canonical_manifest(manifest)):
        assert manifest_from_json(text) == manifest


@settings(max_examples=40, deadline=None)
@given(MANIFEST)
def test_canonical_bytes_are_the_sorted_json_with_gos_escapes(manifest: Manifest) -> None:
    text = json.dumps(json.loads(manifest_json(manifest)), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    assert canonical_manifest(manifest) == text.encode()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | st.text('[]{}:,"\\u0123456789truefalsn-+.eE \n', max_size=60).map(str.encode))
def test_no_bytes_do_more_than_be_refused(body: bytes) -> None:
    try:
        manifest_from_json(body)
    except ManifestRefused as error:
        assert error.kind is ManifestErrorKind.DECODE
        assert str(error)


HOSTILE = {
    "deep lists": b"[" * 900_000,
    "deep and closed": b"[" * 400_000 + b"]" * 400_000,
    "deep objects": b'{"a":' * 150_000,
    "a deep member nobody knows": b'[{"zzz":' + b"[" * 5000 + b"]" * 5000 + b"}]",
    "a huge number": b'[{"services":[{"count":' + b"9" * 900_000 + b"}]}]",
    "a huge quantity": b'[{"services":[{"resources":{"cpu":{"units":{"val":"' + b"9" * 900_000 + b'"}}}}]}]',
    "many elements, then an error": b"[" + b"1," * 500_000 + b"x",
    "too large": b" " * (1024 * 1024 + 1),
    "not a number": b'[{"services":[{"count":NaN}]}]',
    "infinity": b"[Infinity]",
    "a lone minus": b"[-]",
    "a byte order mark": b"\xef\xbb\xbf[]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_is_refused_quickly_and_without_recursion(name: str) -> None:
    def decode() -> ManifestRefused:
        with pytest.raises(ManifestRefused) as caught:
            manifest_from_json(HOSTILE[name])
        return caught.value

    calls, refused = calls_of(decode)
    assert calls < len(HOSTILE[name]) / 2 + 10_000, "it grows out of hand"
    assert refused.kind is ManifestErrorKind.DECODE
    assert len(str(refused)) < 1_000_000


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "EOF"),
        ("  \n", "EOF"),
        ("[", "unexpected EOF"),
        ('["abc', "unexpected EOF"),
        ("[01]", "invalid character '1' after array element"),
        ("[1.]", "invalid character ']' after decimal point in numeric literal"),
        ("[1e]", "invalid character ']' in exponent of numeric literal"),
        ("[tru]", "invalid character ']' in literal true (expecting 'e')"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"', "invalid character '\"' after object key:value pair"),
        ("{1:2}", "invalid character '1' looking for beginning of object key string"),
        ('["\\x"]', "invalid character 'x' in string escape code"),
        ('["\\u12g4"]', "invalid character 'g' in \\u hexadecimal character escape"),
        ('["\n"]', "invalid character '\\n' in string literal"),
        ("'", "invalid character '\\'' looking for beginning of value"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        ("[1]", "json: cannot unmarshal number into Go value of type v2beta3.Group"),
        ("7", "json: cannot unmarshal number into Go value of type v2beta3.Manifest"),
        ("true", "json: cannot unmarshal bool into Go value of type v2beta3.Manifest"),
        (
            '[{"services":{}}]',
            "json: cannot unmarshal object into Go struct field Group.services of type v2beta3.Services",
        ),
        (
            '[{"services":[5]}]',
            "json: cannot unmarshal number into Go struct field Group.services of type v2beta3.Service",
        ),
        (
            '[{"services":[{"count":4294967296}]}]',
            "json: cannot unmarshal number 4294967296 into Go struct field Service.services.count of type uint32",
        ),
        (
            '[{"services":[{"count":1.5}]}]',
            "json: cannot unmarshal number 1.5 into Go struct field Service.services.count of type uint32",
        ),
        (
            '[{"services":[{"env":[1]}]}]',
            "json: cannot unmarshal number into Go struct field Service.services.env of type string",
        ),
        (
            '[{"services":[{"expose":[{"global":"yes"}]}]}]',
            "json: cannot unmarshal string into Go struct field ServiceExpose.services.expose.global of type bool",
        ),
        (
            '[{"services":[{"resources":{"cpu":{"units":{"val":"one"}}}}]}]',
            'math/big: cannot unmarshal "one" into a *big.Int',
        ),
    ],
)
def test_what_is_not_a_manifest_is_refused_in_gos_words(body: str, text: str) -> None:
    with pytest.raises(ManifestRefused) as caught:
        manifest_from_json(body)
    assert str(caught.value) == text


def _first(body: Any) -> Service:
    manifest = manifest_from_json(json.dumps([{"name": "g", "services": [body]}]))
    services = manifest[0].services
    assert services is not None
    return services[0]


def test_null_leaves_values_alone_and_makes_lists_null() -> None:
    service = _first({"name": None, "count": None, "env": None, "args": [], "expose": None, "resources": None})
    assert (service.name, service.count, service.env, service.args, service.expose) == ("", 0, None, (), None)
    assert service.resources.absent == {"cpu", "memory", "gpu"}
    assert manifest_from_json("null") == ()


def test_names_match_without_case_and_the_last_of_a_repeated_one_wins() -> None:
    manifest = manifest_from_json('[{"NAME":"a","name":"b","\u017fervices":[{"Image":"x","IMAGE":null}]}]')
    assert manifest[0].name == "b"
    assert (manifest[0].services or ())[0].image == "x"


def test_quantities_are_integers_in_strings_with_gos_prefixes() -> None:
    units = {"units": {"val": "0x10"}}
    service = _first({"resources": {"cpu": units, "memory": {"size": {"val": "010"}}, "gpu": {"units": {"val": "+1"}}}})
    resources = service.resources
    assert (resources.cpu_milli, resources.memory_bytes, resources.gpu_units) == (16, 8, 1)


def test_bad_utf8_and_lone_surrogates_become_replacement_characters() -> None:
    assert manifest_from_json(b'[{"name":"a\xff\xed\xa0\x80"}]')[0].name == "a" + "\ufffd" * 4
    assert manifest_from_json('[{"name":"\\ud800x\\ud83d\\ude00"}]')[0].name == "\ufffdx\U0001f600"
    assert manifest_version(manifest_from_json('[{"name":"\\ud800"}]'))


@pytest.mark.parametrize("kind", [3, 7, 2**31 - 1, -1, -(2**31)])
def test_an_endpoint_of_another_kind_is_taken_and_hashed_as_it_is(kind: int) -> None:
    manifest = manifest_from_json(json.dumps([{"services": [{"resources": {"endpoints": [{"kind": kind}]}}]}]))
    assert f'"endpoints":[{{"kind":{kind},"sequence_number":0}}]'.encode() in canonical_manifest(manifest)
    assert manifest_from_json(canonical_manifest(manifest)) == manifest
    assert manifest == pickle.loads(pickle.dumps(manifest))


@pytest.mark.parametrize("kind", [2**31, -(2**31) - 1, 1.5])
def test_an_endpoint_kind_of_more_than_32_bits_is_refused(kind: float) -> None:
    with pytest.raises(ManifestRefused, match=r"of type v1beta4\.Endpoint_Kind"):
        _first({"resources": {"endpoints": [{"kind": kind}]}})


def test_what_has_no_storage_is_hashed_without_the_member() -> None:
    """`storage,omitempty`, and so cpu, memory and gpu (chain-messages.json)."""
    empty, absent = (
        manifest_from_json(json.dumps([{"services": [{"resources": resources}]}]))
        for resources in ({"storage": [], "endpoints": []}, {"endpoints": []})
    )
    assert b'"resources":{"endpoints":[],"id":0}' in canonical_manifest(empty)
    assert canonical_manifest(empty) == canonical_manifest(absent)
    assert empty[0].services[0].resources.storage == ()  # type: ignore[index]
    assert absent[0].services[0].resources.storage is None  # type: ignore[index]


def test_credentials_are_not_shown_when_printed() -> None:
    service = _first({"credentials": {"host": "h", "username": "u", "password": "secret"}})
    assert "secret" not in repr(service)


def test_members_are_written_in_gos_order() -> None:
    text = """version: "2.0"
services: {web: {image: nginx, expose: [{port: 80, to: [{global: true}]}]}}
profiles:
  compute: {p: {resources: {cpu: {units: 1}, memory: {size: 1Gi}, storage: {size: 1Gi}}}}
  placement: {dc: {pricing: {p: {denom: uact, amount: 1}}}}
deployment: {web: {dc: {profile: p, count: 1}}}
"""
    value = json.loads(manifest_json(read_sdl(text).manifest))
    service = value[0]["services"][0]
    assert list(service) == ["name", "image", "command", "args", "env", "resources", "count", "expose", "credentials"]
    assert list(service["resources"]) == ["id", "cpu", "memory", "storage", "gpu", "endpoints"]
    assert " ".join(service["expose"][0]) == (
        "port externalPort proto service global hosts httpOptions ip endpointSequenceNumber"
    )


# What the Go provider answered (recorded): decode, rules, hash, groups.

_STATUS = {ManifestErrorKind.PLAIN: 500}
_ELSEWHERE = ("unauthorized", "rpc error", "no lease", "hostname not allowed", "must have a hostname")


def _groups_of(manifest: Manifest) -> Any:
    from decimal import Decimal

    from lease.groups import GroupSpec, Requirements, ResourceUnit
    from lease.resources import Price

    price = Price("uact", Decimal(1))
    return tuple(
        GroupSpec(
            group.name,
            Requirements(),
            tuple(ResourceUnit(service.resources, service.count, price) for service in group.services or ()),
        )
        for group in manifest
    )


def _answer(body: str, *, version: bytes | None, groups: Any) -> tuple[int, str]:
    """The gateway's order of checks; `version` None stands for a deployment whose hash is the manifest's own."""
    try:
        manifest = manifest_from_json(body)
        validate_manifest(manifest)
        check_version(manifest_version(manifest), version or manifest_version(manifest))
        cross_validate(manifest, groups)
    except ManifestRefused as error:
        return _STATUS.get(error.kind, 422), f"{error}\n"
    return 200, ""


def test_every_recorded_put_gets_the_recorded_status_and_body(recorded_manifest_puts: list[dict[str, Any]]) -> None:
    bodies = {record["name"]: record["request"].get("body") or "" for record in recorded_manifest_puts}
    main, small = manifest_from_json(bodies["accepted"]), manifest_from_json(bodies["no lease"])
    compared = 0
    for record in recorded_manifest_puts:
        response = record["response"]
        if any(text in response["body"] for text in _ELSEWHERE) or record["name"].startswith("static hosts off"):
            continue
        deployment = record["request"]["path"].split("/")[2]
        on_chain = {"82022200": main, "82022202": small}.get(deployment)
        version = manifest_version(on_chain) if on_chain else None
        groups = _groups_of(on_chain or small)
        answer = _answer(bodies[record["name"]], version=version, groups=groups)
        assert (record["name"], *answer) == (record["name"], response["status"], response["body"])
        compared += 1
    assert compared >= 55
