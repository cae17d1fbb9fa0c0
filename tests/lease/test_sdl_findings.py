"""Findings: where they point, how many there are, which comes first."""

from __future__ import annotations

import pytest

from lease.errors import Finding, SdlInvalid
from lease.sdl import read_sdl

TEXT = """version: "2.0"
services:
  web:
    image: nginx
    env:
      - A=1
    expose:
      - port: 80
        accept: [a.example.com]
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
        storage:
          size: 1Gi
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


def findings(*changes: tuple[str, str]) -> tuple[Finding, ...]:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(text, file="deploy.yaml")
    return caught.value.findings


@pytest.mark.parametrize(
    ("old", "new", "place", "path"),
    [
        ("port: 80", 'port: "80"', (8, 15), "services.web.expose[0].port"),
        ("port: 80", "port: 0", (8, 15), "services.web.expose[0].port"),
        ("- A=1", "- 1A=1", (6, 9), "services.web.env[0]"),
        ("a.example.com", "a_b", (9, 18), "services.web.expose[0].accept[0]"),
        ("image: nginx", "image: ''", (4, 12), "services.web.image"),
        ("    image: nginx\n", "", (4, 5), "services.web.image"),
        ("units: 1", "units: one", (17, 18), "profiles.compute.web.resources.cpu.units"),
        ("units: 1", "units: 1m", (17, 11), "profiles.compute.web.resources.cpu"),
        ("size: 1Gi", "size: 1Mi", (21, 11), "profiles.compute.web.resources.storage"),
        ("denom: uact", "denom: u", (26, 18), "profiles.placement.dc.pricing.web.denom"),
        ("          denom: uact\n", "", (26, 11), "profiles.placement.dc.pricing.web.denom"),
        ("amount: 1", "amount: 10000001", (26, 11), "profiles.placement.dc.pricing.web"),
        ("      profile: web\n", "      profile: db\n", (31, 7), "deployment.web.dc.profile"),
        ("deployment:", "deploymnt:", (28, 1), "deploymnt"),
        ("global: true", "global: false", (3, 3), "services"),
        ("\nservices:", "\nextra: 1\nservices:", (2, 1), "extra"),
        ("    env:", "    image: b\n    env:", (5, 5), "services.web.image"),
    ],
)
def test_a_finding_points_at_the_value(old: str, new: str, place: tuple[int, int], path: str) -> None:
    first = findings((old, new))[0]
    assert (first.file, first.line, first.column, first.path) == ("deploy.yaml", *place, path)


def test_all_findings_of_a_pass_are_reported_in_the_order_of_the_document() -> None:
    found = findings(("size: 128Mi", "size: 128MiB"), ("port: 80", "port: -1"), ("amount: 1", "amount: 0"))
    assert [finding.line for finding in found] == [8, 19, 27]


def test_wrong_values_come_before_wrong_references_and_those_before_limits() -> None:
    limit, reference, value = ("image: nginx", "image: ''"), ("profile: web", "profile: x"), ("port: 80", "port: x")
    assert "must be a number" in findings(limit, reference, value)[0].message
    assert "no compute profile" in findings(limit, reference)[0].message
    assert "empty image" in findings(limit)[0].message


def test_a_missing_version_is_told_before_anything_else() -> None:
    found = findings(('version: "2.0"\n', ""), ("port: 80", "port: x"))
    assert [finding.message for finding in found] == ["no version found"]


def test_a_finding_reads_as_one_line_with_what_was_found_and_what_is_allowed() -> None:
    assert str(findings(("port: 80", "port: x"))[0]) == (
        "deploy.yaml:8:15: services.web.expose[0].port: must be a number "
        "(found x; allowed: a whole number from 0 to 4294967295, not quoted)"
    )


def test_a_value_behind_an_alias_is_found_at_its_anchor() -> None:
    found = findings(("size: 128Mi", "size: &s lots"), ("size: 1Gi", "size: *s"))
    assert {finding.line for finding in found} == {19}


def test_a_deployment_of_an_undefined_service_is_told_in_the_pinned_words() -> None:
    found = findings(("  web:\n    dc:", "  ghost:\n    dc:"))
    assert "no service profile named ghost" in found[0].message


def test_an_undeployed_service_is_ignored_but_its_types_are_not() -> None:
    extra = "  idle:\n    image: ''\n    expose: [{port: 0, proto: sctp}]\n"
    assert read_sdl(TEXT.replace("services:\n", f"services:\n{extra}")).version == read_sdl(TEXT).version
    assert findings(("services:\n", "services:\n  idle: [1]\n"))[0].path == "services.idle"


def test_the_only_unknown_keys_that_matter_are_those_of_strict_places() -> None:
    assert (
        read_sdl(TEXT.replace("    image: nginx", "    image: nginx\n    zzz: {a: 1}")).version
        == read_sdl(TEXT).version
    )
    assert "unsupported cpu attribute" in findings(("units: 1", "units: 1\n          attributes: {zzz: 1}"))[0].message


def test_merge_keys_give_way_to_explicit_ones_and_the_first_of_several_wins() -> None:
    text = TEXT.replace(
        "services:\n", "services:\n  a: &a {image: one, args: [x]}\n  b: &b {image: two, command: [y]}\n"
    )
    merged = read_sdl(text.replace("    image: nginx\n", "    <<: [*a, *b]\n"))
    services = merged.manifest[0].services or ()
    assert (services[0].image, services[0].args, services[0].command) == ("one", ("x",), ("y",))
    explicit = read_sdl(text.replace("    image: nginx\n", "    <<: *a\n    image: nginx\n"))
    assert (explicit.manifest[0].services or ())[0].image == "nginx"


def test_an_anchor_may_be_defined_twice_as_in_go() -> None:
    text = TEXT.replace("image: nginx", "image: &x nginx").replace("- A=1", "- &x A=1\n      - *x")
    assert (read_sdl(text).manifest[0].services or ())[0].env == ("A=1", "A=1")


def test_only_the_first_document_of_a_stream_counts() -> None:
    assert read_sdl(TEXT + "---\nnonsense: [\n").version == read_sdl(TEXT).version


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_and_carriage_returns_are_fine(encoding: str) -> None:
    assert read_sdl(TEXT.replace("\n", "\r\n").encode(encoding)).version == read_sdl(TEXT).version
