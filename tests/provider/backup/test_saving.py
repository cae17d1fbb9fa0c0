"""`lessor backup`: whole files of a home that is in use, for its owner only, whole or not at all."""

from __future__ import annotations

import json
import socket
import sqlite3
import stat
import sys
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from provider.backup.archive import HEAD, opened
from provider.backup.restoring import check_backup
from provider.backup.saving import Saved, save_home
from provider.errors import ArgumentError, BackupError
from tests.provider.backup.homes import STATE, VERSION, make_home
from tests.world.processes import line_of, start_process

_WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=60)
number = 1000
while True:
    with database:
        database.executemany("INSERT INTO rows VALUES (?)", [(number,)] * 10)
    number += 1
    print(number, flush=True)
"""


def save(home: Path, file: Path) -> Saved:
    return save_home(home, file, database=home / "lessor.db", version=VERSION)


def test_a_backup_has_what_a_start_does_not_make_and_is_for_its_owner_only(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "lessor.zip"
    texts = make_home(home)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "control.sock"))
        saved = save(home, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with opened(file) as archive:
        found = {name: b"".join(archive.read(name)).decode() for name in archive.head.files if name != "lessor.db"}
        assert found == texts
        assert archive.head.home == str(home) and archive.head.files["prices.sh"].program
    assert saved.left_out == [] and saved.size == file.stat().st_size
    assert [path.name for path in tmp_path.iterdir() if path != home] == ["lessor.zip"]


def test_the_database_is_whole_while_it_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    writer = start_process([sys.executable, "-c", _WRITER, str(home / "lessor.db")], stdout=-1, text=True)
    line_of(writer)
    threading.Thread(target=lambda: [None for _ in writer.stdout or ()], daemon=True).start()
    for number in range(5):
        save(home, tmp_path / f"{number}.zip")
    writer.kill()
    for number in range(5):
        with zipfile.ZipFile(tmp_path / f"{number}.zip") as packed:
            packed.extract("lessor.db", tmp_path / str(number))
        with closing(sqlite3.connect(tmp_path / str(number) / "lessor.db")) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            counts = copy.execute("SELECT count(*) FROM rows WHERE number >= 1000 GROUP BY number").fetchall()
            assert counts and {count for (count,) in counts} == {10}


def test_a_stack_that_changes_meanwhile_is_read_again(tmp_path: Path) -> None:
    """The update writes two files; a backup with one of them would be of no moment."""
    home = tmp_path / "home"
    make_home(home)
    other = home / "engine/stacks/abc/shown.json"
    other.write_text("0")
    (home / STATE).write_text("0")
    pauses: list[float] = []

    def read(path: Path) -> bytes:
        content = path.read_bytes()
        if path.name == "abc.json" and not pauses:
            for each in (home / STATE, other):
                each.unlink()
                each.write_text("1")
        return content

    save_home(home, tmp_path / "x.zip", database=None, version=VERSION, pause=pauses.append, read=read)
    with opened(tmp_path / "x.zip") as archive:
        texts = {b"".join(archive.read(name)) for name in (STATE, "engine/stacks/abc/shown.json")}
    assert (len(pauses), texts) == (1, {b"1"})


def test_links_and_unprintable_names_are_left_out_by_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    make_home(home)
    (home / "linked").symlink_to("/etc/passwd")
    (home / "a\x1bb").write_text("")
    saved = save(home, tmp_path / "x.zip")
    assert saved.left_out == [r"'a\x1bb': characters in its name", "linked: a symbolic link, to /etc/passwd"]


def test_a_damaged_database_is_no_backup_and_the_one_before_stays(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "x.zip"
    make_home(home, rows=20_000)
    save(home, file)
    before = file.read_bytes()
    for name in ("lessor.db-wal", "lessor.db-shm"):
        (home / name).unlink(missing_ok=True)
    whole = (home / "lessor.db").read_bytes()
    (home / "lessor.db").write_bytes(whole[:8192] + b"\xff" * 40960 + whole[49152:])
    with pytest.raises(BackupError, match=r"lessor\.db"):
        save(home, file)
    assert file.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"home", "x.zip"}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("home/x.zip", None, "in the home itself"),
        ("none/x.zip", None, "is no folder"),
        ("letter.txt", b"Dear tenant", "is no backup"),
        ("/dev/null", None, "is no backup"),
    ],
)
def test_no_other_file_is_replaced(tmp_path: Path, name: str, text: bytes | None, problem: str) -> None:
    make_home(tmp_path / "home")
    if text is not None:
        (tmp_path / name).write_bytes(text)
    with pytest.raises((BackupError, ArgumentError), match=problem):
        save(tmp_path / "home", tmp_path / name)
    assert text is None or (tmp_path / name).read_bytes() == text


def test_an_empty_home_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for home in (tmp_path / "home", tmp_path / "none"):
        with pytest.raises(BackupError, match="has nothing in it"):
            save(home, tmp_path / "x.zip")


def test_the_head_comes_last_so_that_a_truncated_file_is_none(tmp_path: Path) -> None:
    make_home(tmp_path / "home")
    file = tmp_path / "x.zip"
    save(tmp_path / "home", file)
    with zipfile.ZipFile(file) as packed:
        assert packed.namelist()[-1] == HEAD and json.loads(packed.read(HEAD))["form"] == 1
    whole = file.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(BackupError, match=r"truncated|no backup"):
            check_backup(file, version=VERSION)
