"""No limit on strangers refuses what stock clients send: every SDL of the corpus stays far below each of them."""

from __future__ import annotations

import contextlib
from functools import cache

from akash.provider.v1 import service_pb2

from lease.errors import SdlInvalid
from lease.go_json import values_in
from lease.manifest_decode import MAX_MANIFEST_BYTES, MAX_MANIFEST_VALUES, manifest_from_json
from lease.manifest_json import manifest_json
from lease.sdl import Sdl, read_sdl
from provider.chain import codec
from provider.chain.group_size import oversize
from tests.data import SDL
from tests.lease.hostile import heaviest_valid

_MAX_SCREENING_BYTES = 64 * 1024


@cache
def sdls() -> tuple[Sdl, ...]:
    found = []
    for path in sorted(SDL.glob("*.yaml")):
        with contextlib.suppress(SdlInvalid):
            found.append(read_sdl(path.read_bytes()))
    return tuple(found)


def test_every_manifest_of_the_corpus_has_a_twentieth_of_the_values_that_are_read() -> None:
    assert len(sdls()) > 150
    for sdl in sdls():
        text = manifest_json(sdl.manifest).encode()
        assert values_in(text, most=0) * 20 < MAX_MANIFEST_VALUES
        assert len(text) * 20 < MAX_MANIFEST_BYTES
        assert manifest_from_json(text) == manifest_from_json(text.decode())


def test_the_heaviest_sdl_that_is_allowed_is_a_manifest_that_is_read() -> None:
    text = manifest_json(read_sdl(heaviest_valid()).manifest).encode()
    assert MAX_MANIFEST_VALUES / 4 < values_in(text, most=0) < MAX_MANIFEST_VALUES
    assert manifest_from_json(text)


def test_every_group_of_the_corpus_is_converted_and_fits_into_a_screening() -> None:
    for group in (group for sdl in sdls() for group in sdl.groups):
        message = codec.group_to_pb(group)
        assert oversize(message) == ""
        assert codec.counted_group_from_pb(message) == codec.group_from_pb(message)
        request = service_pb2.BidScreeningRequest(group_spec=message, hostnames=["a" * 253] * 100)
        assert len(request.SerializeToString()) < _MAX_SCREENING_BYTES


def test_commas_and_brackets_inside_texts_are_no_values() -> None:
    assert values_in(b'["' + b",[{" * 1000 + b'\\"",1]', most=10) == 3
    assert values_in(b'["a\\\\","b"]', most=0) == 3
    assert values_in(b'["' + b"," * 1000, most=10) == 2
