"""Documents that are meant to hurt: refused in under a second, within 200 MB, with a place."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from lease.errors import SdlInvalid
from lease.sdl import read_sdl
from lease.sdl.reader import MAX_FINDINGS

HEAD = 'version: "2.0"\n'


def many_services(count: int) -> str:
    body = "    image: nginx\n    expose:\n      - port: 80\n        to:\n          - global: true\n"
    return f"{HEAD}services:\n" + "".join(f"  s{number}:\n{body}" for number in range(count))


def laughs_inside_the_grammar() -> str:
    to = ", ".join(["{global: true}"] * 500)
    exposes = "      - *o\n" * 500
    services = "".join(f"  b{number}: *s\n" for number in range(500))
    first = f"  a: &s\n    image: x\n    expose:\n      - &o\n        port: 80\n        to: [{to}]\n"
    return f"{HEAD}services:\n{first}{exposes}{services}"


HOSTILE = {
    "deep lists": "[" * 200_000,
    "deep mappings": "{a: " * 100_000,
    "deep compact lists": "- " * 200_000,
    "deep keys": "? " * 100_000,
    "deep indentation": "".join(" " * depth + "a:\n" for depth in range(1300)),
    "ten thousand services": many_services(10_000),
    "a megabyte of services": many_services(11_000)[: 1024 * 1024],
    "billion laughs": f"{HEAD}a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 200)),
    "laughs inside the grammar": laughs_inside_the_grammar(),
    "too large": "a" * (1024 * 1024 + 1),
    "one long scalar": f"{HEAD}services: " + "a" * 1_000_000,
    "a long flat list": f"{HEAD}include: [" + "a," * 300_000 + "]",
    "many anchors": HEAD + "".join(f"x{number}: &a{number} 1\n" for number in range(60_000)),
    "many merges": f"{HEAD}services:\n  a: &a {{image: x}}\n  b:\n    <<: [" + "*a," * 200_000 + "]\n",
    "a merge of itself": f"{HEAD}services: &a\n  <<: *a\n",
    "a service that is its own parent": f"{HEAD}services: &a\n  x: *a\ndeployment: {{x: {{dc: {{profile: p}}}}}}\n",
    "an alias of nothing": f"{HEAD}services: *nobody\n",
    "a list as key": f"{HEAD}services:\n  ? [a]\n  : b\n",
    "a control character": f"{HEAD}services: \0\n",
    "half a byte order mark": b"\xff\xfea",
    "not unicode": b"version: \xe9\n",
    "a lone surrogate": "version: '\ud800'\n",
    "an unfinished string": f'{HEAD}services: "abc',
    "truncated flow": f"{HEAD}services: {{web: {{image: nginx",
    "colons": HEAD + ": " * 100_000,
    "tags": "!!map " * 10_000,
    "nothing": b"",
    "dashes": "---\n---\n",
    "a number": "5",
}


OUT_OF_HAND_SECONDS = 10


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_at_once(name: str) -> None:
    """Well below a second on a quiet machine; what is caught here is what grows out of hand."""
    start = time.process_time()
    with pytest.raises(SdlInvalid) as caught:
        read_sdl(HOSTILE[name])
    assert time.process_time() - start < OUT_OF_HAND_SECONDS
    assert 1 <= len(caught.value.findings) <= MAX_FINDINGS
    assert caught.value.findings[0].line >= 1


def test_hostile_documents_fit_in_200_megabytes() -> None:
    """The process starts at some 35 MB; the peak over the three worst stays below the limit."""
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
    worst = [
        HOSTILE[name]
        for name in ("ten thousand services", "many anchors", "laughs inside the grammar", "billion laughs")
    ]
    done = subprocess.run(
        [sys.executable, "-c", program],
        input="\f".join(map(str, worst)),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) < 200 * 1024
