"""Which of several errors comes first: the one that Go's decoder and checks would tell (sdl-and-manifest.md §1.15).

Go decodes section by section as they stand. Values of a wrong kind are collected while a section is read; a value that
one of its own unmarshallers refuses (sizes, prices, GPUs, storage, hosts, unknown keys of strict places) ends it.
"""

from __future__ import annotations

import pytest

from lease.errors import Finding, SdlInvalid
from lease.sdl import read_sdl

TEXT = """version: "2.0"
services:
  web:
    image: nginx
    expose:
      - port: 80
        to:
          - global: true
profiles:
  compute:
    web:
      resources:
        cpu:
          units: 1
        memory:
          size: 128Mi
        gpu:
          units: 0
        storage:
          - size: 1Gi
          - name: data
            size: 2Gi
  placement:
    dc:
      pricing:
        web:
          denom: uact
          amount: 1
deployment:
  web:
    dc:
      profile: web
      count: 1
"""
GPU = ("units: 0", "units: 1\n          attributes: {vendor: {nvidia: [{model: a}]}}")


def findings(*changes: tuple[str, str]) -> tuple[Finding, ...]:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(text)
    return caught.value.findings


PORT_TEXT = ("port: 80", "port: http")
BAD_HOST = ("port: 80", "port: 80\n        accept: ['a b']")
COUNT_TEXT = ("count: 1", "count: one")
BAD_SIZE = ("128Mi", "128MiB")
BAD_PRICE = ("amount: 1", "amount: 0")
IMAGE_LIST = ("image: nginx", "image: [nginx]")
IMAGE_TWICE = ("image: nginx", "image: nginx\n    image: apache")
UNKNOWN_AFTER = ("deployment:", "extra: 1\ndeployment:")
UNKNOWN_BEFORE = ("services:", "extra: 1\nservices:")
NAME_LIST = ("- size: 1Gi", "- size: 1Gi\n            name: [a]")
BAD_VOLUME = ("2Gi", "2GB")
CPU_LIST = ("units: 1\n        memory", "units: [1]\n        memory")
LATE_COUNT = ("denom: uact", "denom: [uact]")

FIRST = [
    pytest.param([PORT_TEXT, IMAGE_LIST], "services.web.image", id="two wrong kinds: the earlier"),
    pytest.param([PORT_TEXT, BAD_SIZE], "services.web.expose[0].port", id="the earlier section"),
    pytest.param([COUNT_TEXT, BAD_SIZE], "profiles.compute.web.resources.memory.size", id="the earlier section again"),
    pytest.param([IMAGE_LIST, BAD_HOST], "services.web.expose[0].accept[0]", id="a refused host ends the section"),
    pytest.param([BAD_SIZE, BAD_PRICE], "profiles.compute.web.resources.memory.size", id="two refusals: the earlier"),
    pytest.param([CPU_LIST, BAD_PRICE], "profiles.compute.web.resources.cpu.units", id="units are refused at once"),
    pytest.param([LATE_COUNT, BAD_SIZE], "profiles.compute.web.resources.memory.size", id="a refusal first"),
    pytest.param([LATE_COUNT, BAD_VOLUME], "profiles.compute.web.resources.storage[1].size", id="a later refusal"),
    pytest.param([NAME_LIST, BAD_PRICE], "profiles.placement.dc.pricing.web.amount", id="a refusal after a collected"),
    pytest.param([NAME_LIST, BAD_VOLUME], "profiles.compute.web.resources.storage[0].name", id="storage stops reading"),
    pytest.param([IMAGE_TWICE, PORT_TEXT], "services.web.image", id="a repeated key"),
    pytest.param([IMAGE_TWICE, BAD_HOST], "services.web.image", id="what a repeated key hides"),
    pytest.param([UNKNOWN_BEFORE, PORT_TEXT], "extra", id="an unknown section before"),
    pytest.param([UNKNOWN_AFTER, PORT_TEXT], "services.web.expose[0].port", id="an unknown section after"),
    pytest.param([UNKNOWN_AFTER, COUNT_TEXT], "extra", id="an unknown section in between"),
]


@pytest.mark.parametrize(("changes", "path"), FIRST)
def test_the_first_finding_is_the_one_gos_decoder_would_tell(changes: list[tuple[str, str]], path: str) -> None:
    found = findings(*changes)
    assert found[0].path == path
    assert len(found) == len(changes), "each is told, once"


def test_after_the_first_findings_stand_in_the_order_of_the_document() -> None:
    found = findings(COUNT_TEXT, BAD_PRICE, IMAGE_LIST, BAD_HOST)
    assert found[0].path == "services.web.expose[0].accept[0]"
    assert [finding.line for finding in found[1:]] == sorted(finding.line for finding in found[1:])


def test_protocols_and_http_options_come_before_references_and_those_before_limits() -> None:
    proto = ("port: 80", "port: 80\n        proto: sctp\n        http_options: {max_body_size: 104857601}")
    reference = ("profile: web", "profile: ghost")
    image = ("image: nginx", "image: ''")
    found = findings(proto, reference, image)
    assert [finding.message.split(":")[0] for finding in found] == [
        "unsupported service protocol",
        "http option not allowed",
        "web.dc",
        "web.dc",
    ]
    assert "no compute profile named ghost" in findings(reference, image)[0].message
    assert "empty image" in findings(image)[0].message


def test_references_are_checked_compute_placement_price_service_credentials_addresses_storage() -> None:
    found = findings(
        ("profile: web", "profile: ghost"),
        ("  web:\n    dc:", "  api:\n    west:"),
    )
    assert [finding.message.partition(": ")[2] for finding in found] == [
        "no compute profile named ghost",
        "no placement profile named west",
        "no service profile named api",
    ]
    service = (
        "image: nginx",
        "image: nginx\n    credentials: {host: '', username: '', password: ''}"
        "\n    params: {storage: {other: {mount: /m}}}",
    )
    address = ("- global: true", "- ip: meow")
    told = [finding.message for finding in findings(service, address)]
    assert "missing Host" in told[0]
    assert "must be declared as global" in told[1]
    assert 'no endpoint named "meow"' in told[2]
    assert "no-existing compute volume" in told[3]


def test_reclamation_is_told_before_endpoints_and_those_before_references() -> None:
    top = ("services:", "reclamation: {min_window: 0s}\nendpoints: {A: {kind: ip}}\nservices:")
    told = [finding.message for finding in findings(top, ("profile: web", "profile: ghost"))]
    assert "min_window" in told[0]
    assert "not a valid name" in told[1]
    assert "no compute profile" in told[2]
    assert "declared but never used" in told[-1]


def test_group_limits_come_before_the_manifests_rules() -> None:
    told = [finding.message for finding in findings(("128Mi", "1Ki"), ("image: nginx", "image: ''"))]
    assert "memory out of range" in told[0]
    assert "empty image" in told[-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("units: 0", "units: 1")], "GPU attributes must be present if units > 0"),
        ([("units: 0", "units: 1\n          attributes: []")], "at least one vendor must be set"),
        ([("units: 0", "units: 1\n          attributes: text")], "at least one vendor must be set"),
        (
            [("units: 0", "units: 1\n          attributes: {vendor: {nvidia: []}, zone: 1}")],
            "unsupported attribute (zone)",
        ),
        ([("units: 1", "units: 1\n          attributes: {model: x}")], 'unsupported cpu attribute "model"'),
        ([("- size: 1Gi", "- size: 1Gi\n            attributes: {class: beta1, foo: 1}")], "should not set attribute"),
    ],
)
def test_a_part_of_a_document_has_one_first_error_too(changes: list[tuple[str, str]], message: str) -> None:
    assert message in findings(*changes)[0].message


@pytest.mark.parametrize("change", [("gpu:\n          units: 0", "gpu: []"), ("gpu:\n          units: 0", "gpu: none")])
def test_a_gpu_without_content_is_none(change: tuple[str, str]) -> None:
    assert read_sdl(TEXT.replace(*change)).version == read_sdl(TEXT).version


def test_cpu_attributes_without_content_are_none() -> None:
    for text in ("[]", "{}", "none", "null"):
        changed = TEXT.replace("units: 1\n        memory", f"units: 1\n          attributes: {text}\n        memory")
        assert read_sdl(changed).version == read_sdl(TEXT).version


def test_merge_keys_count_in_storage_attributes_and_not_in_the_strict_places() -> None:
    text = TEXT.replace("services:", "services:\n  base: &a {persistent: false}", 1)
    merged = text.replace("size: 1Gi", "size: 1Gi\n            attributes: {<<: *a}", 1)
    plain = TEXT.replace("size: 1Gi", "size: 1Gi\n            attributes: {persistent: false}", 1)
    assert read_sdl(merged).version == read_sdl(plain).version
    for old, new in (
        (GPU[0], "units: 0\n          <<: *a"),
        ("units: 1\n", "units: 1\n          attributes: {<<: *a}\n"),
    ):
        with pytest.raises(SdlInvalid, match="unsupported"):
            read_sdl(text.replace(old, new, 1))
