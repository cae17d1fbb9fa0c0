"""Laws: what means the same hashes the same, what differs hashes differently, what is decoded is what was encoded."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lease.groups import GroupSpec, Requirements, ResourceUnit, SignedBy
from lease.groups_json import groups_from_value, groups_json
from lease.manifest_json import canonical_manifest, manifest_from_json, manifest_json, manifest_value, manifest_version
from lease.resources import Attribute, Endpoint, EndpointKind, Price, Resources, Volume
from lease.sdl import read_sdl
from tests.lease.rewriting import rewritten

FULL = """version: "2.1"
endpoints: {meow: {kind: ip}}
services:
  web:
    image: "nginx:1.27"
    command: [sh, -c]
    args: ["exec nginx", '-g']
    env: ["A=<b>&\\u2028", "B='x'", 'C="y"']
    expose:
      - port: 8080
        as: 80
        accept: [www.example.org, example.org]
        to: [{global: true}]
        http_options: {max_body_size: 1000, read_timeout: 1, send_timeout: 2, next_tries: 4, next_timeout: 5,
          next_cases: ["500", "404"], proxy_buffer_size: 4096}
      - port: 53
        proto: udp
        to: [{global: true, ip: meow}, {service: db}]
    params:
      storage: {data: {mount: /data, readOnly: true}}
      permissions: {read: [logs, events]}
      tee: cpu
    credentials: {host: ghcr.io, email: a@example.org, username: u, password: p}
  db: {image: postgres, expose: [{port: 5432, to: [{service: web}]}]}
profiles:
  compute:
    big:
      resources:
        cpu: {units: 1.5, attributes: {arch: amd64}}
        memory: {size: 1Gi}
        storage: [{size: 1Gi}, {name: data, size: 2Gi, attributes: {persistent: true, class: beta2}}]
        gpu: {units: 1, attributes: {vendor: {nvidia: [{model: a100, ram: 80Gi, interface: sxm}]}}}
    small: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 1Gi}}}
  placement:
    dc:
      attributes: {region: eu, zone: a}
      signedBy: {anyOf: [akash1a], allOf: [akash1b]}
      pricing: {big: {denom: uact, amount: 10.5}, small: {denom: uact, amount: 1}}
deployment: {web: {dc: {profile: big, count: 2}}, db: {dc: {profile: small, count: 1}}}
"""
SDL = read_sdl(FULL)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_meaning_in_other_words_is_the_same_deployment(seed: int) -> None:
    assert read_sdl(rewritten(FULL, seed)) == SDL


def test_rewriting_really_changes_the_text() -> None:
    texts = {rewritten(FULL, seed) for seed in range(50)}
    assert len(texts) == 50
    assert any("*n" in text for text in texts)
    assert any("# noise" in text for text in texts)


def test_every_corpus_document_in_other_words_keeps_its_hash(valid_sdl: tuple[str, bytes, dict[str, Any]]) -> None:
    name, text, expected = valid_sdl
    for seed in range(2):
        sdl = read_sdl(rewritten(text, seed))
        assert sdl.version.hex() == expected["version"], name
        assert json.loads(groups_json(sdl.groups)) == expected["groups"]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in members:
        yield (*path, name), item
        yield from _leaves(item, (*path, name))


VALUE = json.loads(manifest_json(SDL.manifest))
PATHS = list(_leaves(VALUE))


def _other(value: Any, path: tuple[Any, ...]) -> Any:
    """A value of the same type that is not this one."""
    if path[-1] == "val":
        return str(int(value) + 1)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if path[-1] != "kind" else 3 - value
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, list):
        return [*value, copy.deepcopy(value[-1])] if value else None
    return [] if value is None and path[-1] in ("command", "args", "env", "hosts", "expose") else None


def _changed(path: tuple[Any, ...]) -> Any:
    value = copy.deepcopy(VALUE)
    *way, last = path
    target = value
    for name in way:
        target = target[name]
    target[last] = _other(target[last], path)
    return value


CHANGES = {
    ".".join(map(str, path)): path
    for path, value in PATHS
    if not isinstance(value, dict) and _other(value, path) != value  # of mappings the members are changed
}


def test_the_full_manifest_has_every_member_there_is() -> None:
    names = {name for path, _ in PATHS for name in path if isinstance(name, str)}
    assert names >= {
        *("name", "image", "command", "args", "env", "resources", "count", "expose", "params", "credentials"),
        *("id", "cpu", "memory", "storage", "gpu", "endpoints", "units", "size", "val", "attributes", "key", "value"),
        *("kind", "sequence_number", "port", "externalPort", "proto", "service", "global", "hosts", "httpOptions"),
        *("ip", "endpointSequenceNumber", "maxBodySize", "readTimeout", "sendTimeout", "nextTries", "nextTimeout"),
        *("nextCases", "proxyBufferSize", "mount", "readOnly", "permissions", "read", "tee", "type", "attestation"),
        *("host", "email", "username", "password"),
    }


@pytest.mark.parametrize("path", CHANGES.values(), ids=CHANGES.keys())
def test_a_manifest_that_differs_in_one_place_has_another_hash(path: tuple[Any, ...]) -> None:
    other = manifest_from_json(json.dumps(_changed(path)))
    assert manifest_version(other) != SDL.version
    assert json.loads(canonical_manifest(other)) != VALUE


def test_all_single_changes_have_hashes_of_their_own() -> None:
    versions = {manifest_version(manifest_from_json(json.dumps(_changed(path)))) for path in CHANGES.values()}
    assert len(versions) == len({json.dumps(_changed(path)) for path in CHANGES.values()})


def _as_clients_write(value: Any, chance: random.Random) -> Iterator[str]:
    """Go: in its order, HTML escaped. TypeScript: sorted, nothing escaped that need not be. Others: pure ASCII."""
    yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    yield json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    yield json.dumps(value, ensure_ascii=True, indent=chance.choice([1, 4]))
    yield json.dumps(value, ensure_ascii=False).replace("/", "\\/").replace("<", "\\u003C")


def test_a_manifest_of_any_client_becomes_the_same_bytes_again(valid_sdl: tuple[str, bytes, dict[str, Any]]) -> None:
    name, text, expected = valid_sdl
    canonical, printed = canonical_manifest(read_sdl(text).manifest), manifest_json(read_sdl(text).manifest)
    for body in _as_clients_write(expected["manifest"], random.Random(name)):
        manifest = manifest_from_json(body.encode())
        assert canonical_manifest(manifest) == canonical
        assert manifest_json(manifest) == printed
        assert json.loads(json.dumps(manifest_value(manifest))) == expected["manifest"]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
UINT32 = st.integers(0, 2**32 - 1)
ATTRIBUTES = st.lists(st.builds(Attribute, TEXT, TEXT), max_size=2).map(tuple)
TEXTS = st.none() | st.lists(TEXT, max_size=2).map(tuple)
RESOURCES = st.builds(
    Resources,
    id=UINT32,
    cpu_milli=st.integers(0, 2**64),
    memory_bytes=st.integers(0, 2**64),
    storage=st.none()
    | st.lists(st.builds(Volume, TEXT, st.integers(0, 2**64), ATTRIBUTES), min_size=1, max_size=2).map(tuple),
    gpu_units=st.integers(0, 2**64),
    endpoints=st.none() | st.lists(st.builds(Endpoint, st.sampled_from(EndpointKind), UINT32), max_size=2).map(tuple),
    cpu_attributes=ATTRIBUTES,
    memory_attributes=ATTRIBUTES,
    gpu_attributes=ATTRIBUTES,
)
PRICES = st.builds(Price, TEXT, st.integers(0, 10**25).map(lambda number: Decimal(number).scaleb(-18)))
GROUPS = st.lists(
    st.builds(
        GroupSpec,
        name=TEXT,
        requirements=st.builds(Requirements, st.builds(SignedBy, TEXTS, TEXTS), st.none() | ATTRIBUTES),
        units=st.lists(st.builds(ResourceUnit, RESOURCES, UINT32, PRICES), max_size=2).map(tuple),
    ),
    max_size=2,
).map(tuple)


@settings(max_examples=50, deadline=None)
@given(GROUPS)
def test_group_specs_are_what_was_written_and_are_written_alike_again(groups: tuple[GroupSpec, ...]) -> None:
    text = groups_json(groups)
    again = groups_from_value(json.loads(text))
    assert again == groups
    assert groups_json(again) == text
