"""Documents that are meant to hurt: refused with a place, after a bounded amount of work, within 200 MB.

Seconds are measured by `benchmarks/sdl.py`; here the work is counted, so that a busy machine fails nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import FrameType

import pytest

from lease.errors import SdlInvalid
from lease.manifest_json import canonical_manifest
from lease.sdl import read_sdl
from lease.sdl.document import MAX_NODES
from lease.sdl.reader import MAX_FINDINGS, MAX_VISITS
from tests.lease.hostile import HOSTILE, heaviest_valid

MOST_CALLS = 10 * (MAX_NODES + MAX_VISITS)
"""Function calls: some for each value composed or read; nothing may grow with a product of two."""


def _calls(text: str | bytes) -> tuple[int, SdlInvalid | None]:
    """How many functions (Python's and C's) reading a document calls, and how it was refused."""
    count = 0

    def tick(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(tick)
    try:
        read_sdl(text)
    except SdlInvalid as error:
        return count, error
    finally:
        sys.setprofile(before)
    return count, None


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


def test_hostile_documents_fit_in_200_megabytes() -> None:
    """The process starts at some 35 MB; the peak over the worst stays below the limit."""
    program = (
        "import sys\n"
        "from lease.errors import SdlInvalid\n"
        "from lease.sdl import read_sdl\n"
        "for text in sys.stdin.read().split('\\f'):\n"
        "    try: read_sdl(text)\n"
        "    except SdlInvalid: pass\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(status['VmHWM'].split()[0])\n"  # ru_maxrss would count the test process it was forked from
    )
    names = ("ten thousand services", "many anchors", "laughs inside the grammar", "billion laughs")
    worst = [HOSTILE[name] for name in (*names, "volumes times services", "hosts times offers", "merged mappings")]
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="\f".join(map(str, worst)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) < 200 * 1024


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
