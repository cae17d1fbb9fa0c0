"""Documents that are meant to hurt: refused with a place, after a bounded amount of work, within 200 MB.

Seconds are measured by `benchmarks/sdl.py`; here the work is counted, so that a busy machine fails nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lease.errors import SdlInvalid
from lease.manifest_json import canonical_manifest
from lease.sdl import read_sdl
from lease.sdl.document import MAX_NODES
from lease.sdl.reader import MAX_FINDINGS, MAX_VISITS
from tests.lease.hostile import HOSTILE, heaviest_valid
from tests.world.work import calls_of

MOST_CALLS = 10 * (MAX_NODES + MAX_VISITS)
"""Function calls: some for each value composed or read; nothing may grow with a product of two."""


def _calls(text: str | bytes) -> tuple[int, SdlInvalid | None]:
    """How many functions (Python's and C's) reading a document calls, and how it was refused."""

    def read() -> SdlInvalid | None:
        try:
            read_sdl(text)
        except SdlInvalid as error:
            return error
        return None

    return calls_of(read)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_after_a_bounded_amount_of_work(name: str) -> None:
    count, refused = _calls(HOSTILE[name])
    assert count < MOST_CALLS
    assert refused is not None
    assert 1 <= len(refused.findings) <= MAX_FINDINGS
    assert refused.findings[0].line >= 1
    assert len(str(refused.findings[0])) < 2000, "a tenant's text is cut off"


def test_the_heaviest_document_that_is_allowed_costs_no_more() -> None:
    text = heaviest_valid()
    assert _calls(text)[0] < MOST_CALLS
    assert len(canonical_manifest(read_sdl(text).manifest)) > 300_000


def test_twice_the_document_is_about_twice_the_work() -> None:
    def document(services: int) -> str:
        return heaviest_valid().replace("s399: *s", f"s399: *s, {', '.join(f'x{n}: *s' for n in range(services))}", 1)

    small, large = (_calls(document(services))[0] for services in (300, 600))
    base = _calls(document(0))[0]
    assert large - base < 2.2 * (small - base)


@pytest.mark.parametrize("placed", ["{}", "null"])
def test_a_deployment_that_places_nothing_needs_no_service(checkout: Path, placed: str) -> None:
    text = (checkout / "examples" / "web.yaml").read_text()
    assert text.count("\ndeployment:\n") == 1
    more = text.replace("\ndeployment:\n", f"\ndeployment:\n  nobody: {placed}\n")
    assert read_sdl(more, file="a.yaml").version == read_sdl(text, file="a.yaml").version


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\u00e9: \x01", (1, 4)),
        ("a: b\n\u00e9\u00e9\u00e9: \x01\n".encode(), (2, 6)),
        ("a\rb: \x01", (2, 4)),
        ("a: b\r\nx: \x01".encode("utf-16"), (2, 4)),
        (b"a: b\r\rx: \xff", (3, 4)),
        ("a: b\u2028x: \x01", (2, 4)),
        (b"\xef\xbb\xbfa: \xff", (1, 4)),
        (b"\xff\xfea\x00\n\x00\x00\xd8b\x00", (2, 1)),
    ],
)
def test_a_character_that_is_no_text_is_placed_whatever_the_encoding_and_line_breaks(
    text: str | bytes, place: tuple[int, int]
) -> None:
    with pytest.raises(SdlInvalid) as refused:
        read_sdl(text, file="a.yaml")
    first = refused.value.findings[0]
    assert (first.line, first.column) == place
