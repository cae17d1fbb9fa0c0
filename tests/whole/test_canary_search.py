"""The search for the canary finds it wherever it is planted: a test that finds nothing must be able to find."""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.whole.canary import Canary, Watch
from tests.world.patience import until
from tests.world.processes import start_process

PLANTED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda raw: raw,
    "json": lambda raw: json.dumps({"x": raw.decode()}).encode(),
    "json in json": lambda raw: json.dumps(json.dumps({"x": raw.decode()})).encode(),
    "url": lambda raw: quote(raw).encode(),
    "hex": lambda raw: raw.hex().encode(),
    "gzip": lambda raw: b"before" + gzip.compress(raw),
    "zlib": lambda raw: b"before" + zlib.compress(raw, 9) + b"after",
    "zlib in base64": lambda raw: b'{"x": "' + base64.b64encode(zlib.compress(raw)) + b'"}',
    "base64 in base64": lambda raw: base64.b64encode(b'{"auth": "' + base64.b64encode(b"me:" + raw) + b'"}'),
    "base64 for urls in gzip": lambda raw: gzip.compress(base64.urlsafe_b64encode(b"??" + raw)),
    **{f"base64 after {shift}": lambda raw, shift=shift: base64.b64encode(b"x" * shift + raw) for shift in range(4)},  # type: ignore[misc]
}


@pytest.mark.parametrize("form", PLANTED)
def test_it_is_found_in_every_form(form: str) -> None:
    canary = Canary()
    noise = bytes(range(256)) * 8
    assert canary.found(noise + PLANTED[form](canary.value.encode()) + noise)
    assert not canary.found(noise + PLANTED[form](Canary().value.encode()) + noise)


def test_it_is_found_in_files_and_in_tables(tmp_path: Path) -> None:
    canary = Canary()
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "hit").write_text(f"x{canary.value}")
    (tmp_path / "a" / "miss").write_text("x")
    connection = sqlite3.connect(tmp_path / "x.db")
    with connection:
        connection.execute("CREATE TABLE t (body BLOB)")
        connection.execute("INSERT INTO t VALUES (?)", (zlib.compress(canary.value.encode() * 3),))
    connection.close()
    assert {Path(path).name for path in canary.in_files([tmp_path])} == {"hit", "x.db"}


def test_processes_and_files_that_come_and_go_are_seen(tmp_path: Path) -> None:
    argument, environment, file = Canary(), Canary(), Canary()
    argv = [sys.executable, "-c", "import time; time.sleep(3600)", argument.value]
    watches = [Watch(canary, [tmp_path]) for canary in (argument, environment, file)]
    with watches[0], watches[1], watches[2]:
        child = start_process(argv, env={"X": environment.value})
        (tmp_path / "brief").write_text(file.value)
        until(lambda: all(watch.leaks for watch in watches))
        (tmp_path / "brief").unlink()
        child.kill()
        child.wait()
    assert [bool(watch.leaks) for watch in watches] == [True, True, True]
    assert str(tmp_path / "brief") in watches[2].leaks
