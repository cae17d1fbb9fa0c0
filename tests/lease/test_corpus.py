"""Every document of the corpus: verdict, hash, manifest and group specs, byte for byte."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

from lease.errors import SdlInvalid
from lease.groups_json import groups_from_value, groups_json
from lease.manifest_json import canonical_manifest, manifest_from_json, manifest_json, manifest_version
from lease.sdl import read_sdl
from lease.validation import cross_validate, validate_groups, validate_manifest

Document = tuple[str, bytes, dict[str, Any]]


def test_a_valid_sdl_gives_the_hash_manifest_and_groups_of_the_go_parser(valid_sdl: Document) -> None:
    name, text, expected = valid_sdl
    sdl = read_sdl(text, file=name)
    assert sdl.version.hex() == expected["version"]
    assert json.loads(manifest_json(sdl.manifest)) == expected["manifest"]
    assert json.loads(groups_json(sdl.groups)) == expected["groups"]
    assert sdl.reclamation_min_window_seconds == expected.get("reclamation_min_window_seconds")


def test_an_invalid_sdl_is_refused_with_a_place_for_every_finding(invalid_sdl: Document) -> None:
    name, text, _ = invalid_sdl
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(text, file=name)
    lines = text.decode().splitlines()
    assert caught.value.findings
    for finding in caught.value.findings:
        assert finding.file == name
        assert 1 <= finding.line <= len(lines) + 1
        assert finding.column >= 1
        assert finding.message


GO_WORDS = {
    r"cannot unmarshal .* into uint32": "must be a number",
    r"cannot unmarshal .* into bool": "must be a boolean",
    r"cannot unmarshal .* into string": "must be text",
    r"cannot unmarshal .* into (\[\]string|the expected type)": "must be a list",
    r"cannot unmarshal .* into map\[string\]string": "must be a mapping",
    r"(?:config: |yaml: )(.*)": r"\1",
    r"(invalid character) .* (in host name)": r"\1 \2",
    r"(already in use by) another volume": r'\1 volume "config"',
    r" \(allowed: cpu, cpu-gpu\)": "",
}
"""Where our text of the first finding says the same in other words; the rest of the corpus' gists stand in it."""


def test_the_first_finding_of_an_invalid_sdl_is_the_cause_the_go_parser_tells(invalid_sdl: Document) -> None:
    """sdl-and-manifest.md §1.15; the corpus has the gist of Go's error, sometimes cut off by dots."""
    name, text, expected = invalid_sdl
    gist = expected["error"].rstrip(".")
    for theirs, ours in GO_WORDS.items():
        gist = re.sub(theirs, ours, gist)
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(text, file=name)
    assert gist in caught.value.findings[0].message


def test_what_a_document_derives_passes_every_check_of_chain_and_gateway(valid_sdl: Document) -> None:
    sdl = read_sdl(valid_sdl[1])
    validate_groups(sdl.groups)
    validate_manifest(sdl.manifest)
    cross_validate(sdl.manifest, sdl.groups)
    cross_validate(tuple(reversed(sdl.manifest)), sdl.groups)


def test_a_manifest_survives_json_and_keeps_its_bytes(valid_sdl: Document) -> None:
    manifest = read_sdl(valid_sdl[1]).manifest
    for text in (manifest_json(manifest), manifest_json(manifest, indent=2), canonical_manifest(manifest)):
        again = manifest_from_json(text)
        assert again == manifest
        assert canonical_manifest(again) == canonical_manifest(manifest)


def test_group_specs_survive_json(valid_sdl: Document) -> None:
    groups = read_sdl(valid_sdl[1]).groups
    assert groups_from_value(json.loads(groups_json(groups))) == groups


def _shuffled(value: Any, chance: random.Random) -> Any:
    """The same JSON with members in another order, other case and a member nobody knows."""
    if isinstance(value, list):
        return [_shuffled(item, chance) for item in value]
    if not isinstance(value, dict):
        return value
    members = [(name, _shuffled(item, chance)) for name, item in value.items()]
    chance.shuffle(members)
    changed = {chance.choice([name, name.upper()]): item for name, item in members}
    return {"zzz": [1, {"deep": None}], **changed}


def test_key_order_blanks_case_and_unknown_members_do_not_change_the_hash(valid_sdl: Document) -> None:
    name, _, expected = valid_sdl
    body = json.dumps(_shuffled(expected["manifest"], random.Random(name)), indent=3) + " trailing bytes"
    assert manifest_version(manifest_from_json(body)).hex() == expected["version"]


def test_text_and_bytes_of_a_document_mean_the_same(any_sdl: Document) -> None:
    _, text, expected = any_sdl
    if expected["valid"]:
        assert read_sdl(text.decode()) == read_sdl(text)
    else:
        with pytest.raises(SdlInvalid):
            read_sdl(text.decode())
