"""Manifest objects and applied Secrets: read back as written, be they ours, the Go provider's or damaged (T75)."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lease.ids import LeaseId, namespace_name
from lease.manifest import (
    Credentials,
    Expose,
    Group,
    HttpOptions,
    Params,
    Permissions,
    Service,
    StorageMount,
    Tee,
)
from lease.manifest_json import manifest_from_json
from lease.resources import Attribute, Endpoint, EndpointKind, Resources, Volume
from lease.spec import GpuPlacement
from provider.records.applied import Applied, Attempt, applied_object, read_applied
from provider.records.go_form import decode_group, encode_group
from provider.records.manifests import EXACT, BadRecordError, ManifestRecord, manifest_object, read_manifest
from tests.components.specs import environment
from tests.components.specs import service as made_service
from tests.components.specs import spec as made_spec
from tests.data import document, names
from tests.provider.lifecycle.world import World, a_group, a_lease

pytestmark = pytest.mark.virtual_time

L = a_lease()

_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8)
_TEXTS = st.none() | st.lists(_TEXT, min_size=1, max_size=3).map(tuple)
_NUMBER = st.integers(0, 2**31 - 1)
_ATTRIBUTES = st.lists(st.builds(Attribute, _TEXT, _TEXT), max_size=2).map(tuple)
_VOLUME = st.builds(Volume, _TEXT, st.integers(0, 2**64 - 1), _ATTRIBUTES)
_VOLUMES = st.none() | st.lists(_VOLUME, min_size=1, max_size=2).map(tuple)
"""No storage is left out of the object, as Go does, and read back as None."""
_ENDPOINTS = st.lists(st.builds(Endpoint, st.sampled_from(EndpointKind), st.integers(0, 255)), max_size=3).map(tuple)
_RESOURCES = st.builds(
    Resources,
    id=st.integers(1, 2**32 - 1),
    cpu_milli=st.integers(0, 2**32 - 1),
    memory_bytes=st.integers(0, 2**64 - 1),
    storage=_VOLUMES,
    gpu_units=st.integers(0, 2**32 - 1),
    endpoints=_ENDPOINTS,
    cpu_attributes=_ATTRIBUTES,
    memory_attributes=_ATTRIBUTES,
    gpu_attributes=_ATTRIBUTES,
)
_HTTP = st.builds(HttpOptions, _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER, st.lists(_TEXT, max_size=2).map(tuple))
_PORT = st.integers(0, 65535)
_EXPOSE = st.builds(
    Expose,
    port=_PORT,
    external_port=_PORT,
    proto=st.sampled_from(["TCP", "UDP"]),
    service=st.just("") | _TEXT,
    global_=st.booleans(),
    hosts=_TEXTS,
    http_options=_HTTP,
    ip=st.just("") | _TEXT,
    endpoint_sequence_number=st.integers(0, 2**32 - 1),
)
_CREDENTIALS = st.none() | st.builds(Credentials, _TEXT, _TEXT, _TEXT, _TEXT)
_PARAMS = st.none() | st.builds(
    Params,
    storage=st.none()
    | st.lists(st.builds(StorageMount, _TEXT, _TEXT, st.booleans()), min_size=1, max_size=2).map(tuple),
    permissions=st.none() | st.builds(Permissions, _TEXTS),
)
_SERVICE = st.builds(
    Service,
    name=_TEXT,
    image=_TEXT,
    resources=_RESOURCES,
    count=st.integers(0, 2**32 - 1),
    command=_TEXTS,
    args=_TEXTS,
    env=_TEXTS,
    expose=st.lists(_EXPOSE, max_size=2).map(tuple),
    params=_PARAMS,
    credentials=_CREDENTIALS,
)
_GROUP = st.builds(Group, name=_TEXT, services=st.lists(_SERVICE, min_size=1, max_size=2).map(tuple))


@settings(max_examples=60, deadline=None)
@given(_GROUP)
def test_a_manifest_object_read_back_is_the_manifest(group: Group) -> None:
    obj = json.loads(json.dumps(manifest_object(ManifestRecord(L, group, {}), namespace="lease")))
    read = read_manifest(obj)
    assert read.lease == L
    assert read.content_hash() == ManifestRecord(L, group, {}).content_hash()
    assert read.group == group


@settings(max_examples=60, deadline=None)
@given(_GROUP)
def test_the_go_form_alone_loses_only_endpoints(group: Group) -> None:
    """And that no storage was null, not an empty list."""
    read, placements = decode_group(json.loads(json.dumps(encode_group(group, {}))))
    assert read == _in_go_form(group) and placements == {}


def _in_go_form(group: Group) -> Group:
    services = [
        replace(service, resources=replace(service.resources, endpoints=(), storage=service.resources.storage or ()))
        for service in group.services or ()
    ]
    return replace(group, services=tuple(services))


def test_what_only_newer_manifests_have_survives_in_the_exact_text() -> None:
    group = a_group()
    assert group.services is not None
    expose = Expose(80, global_=True, http_options=HttpOptions(proxy_buffer_size=4096))
    service = replace(group.services[0], params=Params(tee=Tee("cpu")), expose=(expose,))
    record = ManifestRecord(L, replace(group, services=(service,)), {})
    assert read_manifest(manifest_object(record, namespace="lease")).group == record.group


def test_placements_come_back_by_resource_id() -> None:
    group = a_group()
    assert group.services is not None
    service = replace(group.services[0], resources=replace(group.services[0].resources, gpu_units=1))
    placed = {1: GpuPlacement(vendor="nvidia", model="a100", memory_size="80Gi", interface="sxm")}
    record = ManifestRecord(L, replace(group, services=(service,)), placed)
    obj = manifest_object(record, namespace="lease")
    assert obj["spec"]["group"]["services"][0]["scheduler_params"]["runtime_class"] == "nvidia"
    assert read_manifest(obj).placements == placed


def test_a_service_without_a_card_has_no_scheduler_params() -> None:
    obj = manifest_object(ManifestRecord(L, a_group(), {1: None}), namespace="lease")
    assert "scheduler_params" not in obj["spec"]["group"]["services"][0]


def test_an_edited_object_is_believed_over_the_exact_text() -> None:
    obj = manifest_object(ManifestRecord(L, a_group("nginx:1"), {}), namespace="lease")
    obj["spec"]["group"]["services"][0]["image"] = "nginx:2"
    group = read_manifest(obj).group
    assert group.services is not None and group.services[0].image == "nginx:2"


@pytest.mark.parametrize(
    "exact",
    [
        None,
        7,
        "",
        "***",
        base64.b64encode(b"not zlib").decode(),
        base64.b64encode(zlib.compress(b"{}")).decode(),
        base64.b64encode(zlib.compress(b"[]")).decode(),
        base64.b64encode(zlib.compress(b" " * 50_000_000)).decode(),
    ],
)
def test_a_damaged_or_hostile_exact_text_falls_back_to_the_form(exact: Any) -> None:
    obj = manifest_object(ManifestRecord(L, a_group(), {}), namespace="lease")
    obj["metadata"]["annotations"][EXACT] = exact
    assert read_manifest(obj).group == a_group()


def test_an_exact_text_too_long_for_an_annotation_is_left_out() -> None:
    group = a_group()
    assert group.services is not None
    noise = base64.b64encode(bytes((n * n * 7919 + n) % 251 for n in range(400_000))).decode()
    incompressible = "".join(chr(0x4E00 + (n * 2654435761 % 20000)) for n in range(120_000))
    service = replace(group.services[0], env=(f"A={noise[:1000]}{incompressible}",))
    obj = manifest_object(ManifestRecord(L, replace(group, services=(service,)), {}), namespace="lease")
    assert obj["metadata"]["annotations"] == {}
    assert read_manifest(obj).group == replace(group, services=(service,))


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"lease_id": None, "group": None},
        {"lease_id": {"owner": "a", "dseq": "1", "gseq": 1, "oseq": 1, "provider": "b/c"}, "group": {"name": "x"}},
        {"lease_id": {"owner": "a", "dseq": "one", "gseq": 1, "oseq": 1, "provider": "b"}, "group": {"name": "x"}},
    ],
)
def test_an_object_that_is_no_manifest_is_refused_by_name(spec: Any) -> None:
    with pytest.raises(BadRecordError, match="Manifest some-name"):
        read_manifest({"metadata": {"name": "some-name"}, "spec": spec})


def test_an_object_under_another_leases_name_is_refused() -> None:
    obj = manifest_object(ManifestRecord(L, a_group(), {}), namespace="lease")
    obj["metadata"]["name"] = namespace_name(a_lease(2))
    with pytest.raises(BadRecordError, match="would be named"):
        read_manifest(obj)


def _recordings() -> list[dict[str, Any]]:
    return [document(f"recordings/objects/{name}.json") for name in names("recordings/objects", ending=".json")]


def _recorded() -> list[dict[str, Any]]:
    requests = [item for recording in _recordings() for item in recording.get("api_requests") or ()]
    bodies = [item["body"] for item in requests if isinstance(item, dict) and isinstance(item.get("body"), dict)]
    return [body for body in bodies if body.get("kind") == "Manifest"]


def test_every_recorded_manifest_object_is_read_and_written_as_the_go_provider_wrote_it() -> None:
    recorded = _recorded()
    assert len(recorded) > 150
    for body in recorded:
        record = read_manifest(body)
        ours = manifest_object(record, namespace=body["metadata"].get("namespace", "lease"))
        assert ours["spec"] == body["spec"]
        assert ours["metadata"]["labels"] == body["metadata"]["labels"]
        assert ours["metadata"]["name"] == body["metadata"]["name"]


def test_every_recorded_manifest_comes_back_exactly() -> None:
    sent = [recording.get("manifest") for recording in _recordings()]
    groups = [group for item in sent if item for group in manifest_from_json(json.dumps(item))]
    assert len(groups) > 150
    for group in groups:
        record = ManifestRecord(LeaseId("akash1a", 7, 1, 1, "akash1p"), group, {})
        assert read_manifest(manifest_object(record, namespace="lease")) == record


async def test_an_applied_record_read_back_is_what_was_written() -> None:
    world = World()
    spec = await world.run(L, a_group(hosts=["a.example.com"], ip="meow"))
    for applied in (
        Applied(),
        Applied(spec, "hash", frozenset({"b.example.com"})),
        Applied(None, attempt=Attempt("hash")),
        Applied(spec, "hash", attempt=Attempt("other", "is invalid", restored=True)),
    ):
        assert read_applied(applied_object(L, applied, namespace="lease")) == applied
    assert read_applied(None) == Applied()


def test_a_long_spec_is_stored_compressed_and_read_back() -> None:
    spec = made_spec(made_service(environment=environment(("A", "x" * 300_000))))
    stored = applied_object(spec.lease, Applied(spec, "hash"), namespace="lease")
    assert sorted(stored["data"]) == ["facts", "spec.zlib"]
    assert len(stored["data"]["spec.zlib"]) < 4096
    assert read_applied(stored) == Applied(spec, "hash")
    stored["data"]["spec.zlib"] = stored["data"]["spec.zlib"][:400]
    with pytest.raises(BadRecordError):
        read_applied(stored)


@pytest.mark.parametrize("data", [None, {}, {"facts": "!"}, {"facts": "e30="}, {"facts": "bnVsbA=="}])
def test_a_damaged_applied_record_is_refused_by_name(data: Any) -> None:
    with pytest.raises(BadRecordError, match="Secret applied-x"):
        read_applied({"metadata": {"name": "applied-x"}, "data": data})
