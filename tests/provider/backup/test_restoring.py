"""`lessor restore`: a home whole or not at all, and nothing of a hostile file outside it."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from provider.backup.restoring import Restored, check_backup, exchanged, restore_home
from provider.backup.saving import save_home
from provider.errors import BackupError
from stacks.common import DataInUse, hold
from tests.provider.backup.homes import STATE, VERSION, files_of, inode, make_home, modes_of, rows_of, write_archive
from tests.world.users import needs_root

PLAIN = {"store.key": b"key", STATE: b"{}"}


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Of `home`, which is gone."""
    make_home(tmp_path / "home")
    save_home(tmp_path / "home", tmp_path / "x.zip", database=tmp_path / "home" / "lessor.db", version=VERSION)
    shutil.rmtree(tmp_path / "home")
    return tmp_path / "x.zip"


def restore(file: Path, home: Path, *, replace: bool = False, version: str = VERSION) -> Restored:
    return restore_home(file, home, version=version, replace=replace)


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("empty", [False, True])
def test_the_home_is_as_it_was_and_closed_to_others(tmp_path: Path, backup: Path, empty: bool) -> None:
    home = tmp_path / "home"
    if empty:
        home.mkdir(mode=0o755)
    os.umask(0o000)
    try:
        restore(backup, home)
    finally:
        os.umask(0o022)
    texts = make_home(tmp_path / "again")
    found = files_of(home)
    assert found.keys() == {*texts, "lessor.db"}
    assert {name: text.decode() for name, text in found.items() if name != "lessor.db"} == texts
    assert rows_of(home) == 3
    assert modes_of(home) == {"d700", "-600", "-700"}
    assert stat.S_IMODE((home / "prices.sh").stat().st_mode) == 0o700
    assert left(tmp_path) == {"again", "home", "x.zip"}


def test_a_home_that_is_there_is_kept_unless_it_is_to_be_replaced_and_then_moved_aside(
    tmp_path: Path, backup: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("1")
    with pytest.raises(BackupError, match="--replace"):
        restore(backup, home)
    assert left(home) == {"mine"} and left(tmp_path) == {"home", "x.zip"}
    done = restore(backup, home, replace=True)
    assert done.aside is not None and left(done.aside) == {"mine"}
    assert (home / "store.key").exists() and not (home / "mine").exists()
    again = restore(backup, home, replace=True)
    assert again.aside is not None and again.aside != done.aside and (again.aside / "store.key").exists()
    assert len(left(tmp_path)) == 4


def test_folders_are_exchanged_at_once_or_else_renamed(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("1")
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    before = inode(one), inode(other)
    assert exchanged(one, other)
    assert (inode(other), inode(one)) == before
    done = restore_home(backup, home, version=VERSION, replace=True, exchange=lambda *_: False)
    assert done.aside is not None and left(done.aside) == {"mine"} and (home / "store.key").exists()


def test_a_running_provider_is_not_disturbed(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    held = hold(home / "engine")
    try:
        with pytest.raises(BackupError, match="a provider runs"):
            restore(backup, home, replace=True)
    finally:
        os.close(held)
    assert left(home) == {"engine"} and left(tmp_path) == {"home", "x.zip"}


def test_no_provider_starts_in_a_home_in_which_none_ran_while_it_is_replaced(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").touch()
    seen = []

    def exchange(fresh: Path, old: Path) -> bool:
        with pytest.raises(DataInUse):
            hold(home / "engine")
        seen.append(left(old))
        return exchanged(fresh, old)

    done = restore_home(backup, home, version=VERSION, replace=True, exchange=exchange)
    assert seen == [{"mine", "engine"}]
    assert done.aside is not None and left(done.aside) == {"mine"}, "nothing of the lock is left"
    with pytest.raises(BackupError, match="No such file"):
        restore(tmp_path / "absent.zip", done.aside, replace=True)
    assert left(done.aside) == {"mine"}


@pytest.mark.parametrize("there", [False, True])
def test_a_provider_that_starts_in_an_empty_home_meanwhile_keeps_it(tmp_path: Path, backup: Path, there: bool) -> None:
    home = tmp_path / "home"
    if there:
        home.mkdir()

    def free(_: Path) -> int:
        make_home(home)
        return 1 << 40

    with pytest.raises(BackupError, match="does a provider run there"):
        restore_home(backup, home, version=VERSION, replace=True, free=free)
    assert (home / "store.key").exists() and left(tmp_path) == {"home", "x.zip"}


def test_states_are_left_out_at_another_path(tmp_path: Path, backup: Path) -> None:
    """They name the kubeconfig of the home."""
    done = restore(backup, tmp_path / "deep" / "other")
    assert done.without_stacks == 2
    assert not (tmp_path / "deep" / "other" / "engine" / "stacks").exists()
    assert (tmp_path / "deep" / "other" / "engine" / "key").exists()


_KILLED = """
import os, sys
from pathlib import Path
from provider.backup import restoring
place, line = restoring._place, sys.argv[3]
def dying(*arguments, **more):
    if line == "before":
        os._exit(9)
    Path.rename = lambda *_: os._exit(9)
    return place(*arguments, **more)
restoring._place = dying
restoring.restore_home(Path(sys.argv[1]), Path(sys.argv[2]), version="0.1.0", replace=True)
"""


@pytest.mark.parametrize("line", ["before", "after"])
def test_a_kill_leaves_the_old_home_or_the_new_one_and_the_next_restore_loses_neither(
    tmp_path: Path, backup: Path, line: str
) -> None:
    """`before`: all is unpacked. `after`: the folders are exchanged, and the old one has its name no more."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("1")
    done = subprocess.run([sys.executable, "-c", _KILLED, backup, home, line], timeout=240, check=False)
    assert done.returncode == 9
    assert (home / "mine").exists() is (line == "before") and (home / "store.key").exists() is (line == "after")
    restore(backup, home, replace=True)
    assert rows_of(home) == 3
    assert len([path for path in tmp_path.iterdir() if (path / "mine").exists()]) == 1
    assert not any(path.name.startswith(".") for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    "name",
    [
        "../out",
        "/tmp/out",
        "a/../../out",
        "./x",
        "a//b",
        "a\\b",
        "a\nb",
        "a\x1b[31m",
        "x" * 256,
        "a/" * 1200 + "b",
        "d/",
    ],
)
def test_a_member_that_would_leave_the_home_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    file = write_archive(tmp_path / "x.zip", {**PLAIN, name: b""})
    with pytest.raises(BackupError):
        restore(file, tmp_path / "home")
    assert left(tmp_path) == {"x.zip"}


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR, stat.S_IFSOCK])
def test_links_devices_and_pipes_are_refused(tmp_path: Path, kind: int) -> None:
    file = write_archive(tmp_path / "x.zip", {"link": b"/etc/passwd"}, attributes=kind | 0o777)
    with pytest.raises(BackupError, match="is no file"):
        restore(file, tmp_path / "home")
    assert left(tmp_path) == {"x.zip"}


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ({"form": 2, "files": 7}, "form 2"),
        ({"form": True}, "not as Lessor writes it"),
        ({"version": "0.2.0"}, "is of lessor 0.2.0"),
        ({"version": "1.0.0.dev3"}, "is of lessor 1.0.0.dev3"),
        ({"schema_number": "9999"}, "schema 9999"),
        ({"files": {}}, "does not name"),
        ({"files": {"store.key": {"size": 3, "sha256": "0" * 64}, STATE: {"size": 2, "sha256": "0" * 64}}}, "checksum"),
        ({"files": {"store.key": {"size": -1, "sha256": "0" * 64}}}, "not as Lessor writes it"),
        ({"home": 7}, "not as Lessor writes it"),
    ],
)
def test_a_head_that_is_wrong_or_newer_is_refused(tmp_path: Path, head: dict[str, Any], problem: str) -> None:
    file = write_archive(tmp_path / "x.zip", PLAIN, **head)
    for attempt in (lambda: restore(file, tmp_path / "home"), lambda: check_backup(file, version=VERSION)):
        with pytest.raises(BackupError, match=problem):
            attempt()
    assert left(tmp_path) == {"x.zip"}


def test_a_later_fix_of_the_same_version_is_not_newer(tmp_path: Path) -> None:
    file = write_archive(tmp_path / "x.zip", PLAIN, version="0.1.0")
    assert restore(file, tmp_path / "home", version="0.1.0.dev1").aside is None


def test_a_file_that_is_a_folder_too_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="as a file and as a folder"):
        restore(write_archive(tmp_path / "x.zip", {"a": b"", "a/b": b""}), tmp_path / "home")
    assert left(tmp_path) == {"x.zip"}


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    file = write_archive(tmp_path / "x.zip", PLAIN)
    with pytest.warns(UserWarning), zipfile.ZipFile(file, "a") as packed:
        packed.writestr("store.key", b"key")
    with pytest.raises(BackupError, match="two members"):
        restore(file, tmp_path / "home")


def test_more_than_the_disk_has_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A few kilobytes may claim to become any number of bytes."""
    file = write_archive(tmp_path / "x.zip", {"bomb": b""}, files={"bomb": {"size": 1 << 31, "sha256": "0" * 64}})
    with zipfile.ZipFile(file) as packed:
        at = packed.start_dir + 24
    text = bytearray(file.read_bytes())
    text[at : at + 4] = (1 << 31).to_bytes(4, "little")
    file.write_bytes(text)
    with pytest.raises(BackupError, match=r"2147483648 bytes of files, 1000000 are free"):
        restore_home(file, tmp_path / "home", version=VERSION, replace=False, free=lambda _: 1_000_000)
    assert left(tmp_path) == {"x.zip"}


def test_a_member_with_more_than_it_claims_ends_at_what_it_claims(tmp_path: Path) -> None:
    file = write_archive(tmp_path / "x.zip", {"bomb": bytes(64 << 20)})
    packed = file.read_bytes()
    claimed = (64 << 20).to_bytes(4, "little")
    file.write_bytes(packed.replace(claimed, (16).to_bytes(4, "little")))
    with zipfile.ZipFile(file) as found:
        assert found.getinfo("bomb").file_size == 16
    lying = write_archive(
        tmp_path / "y.zip", {"bomb": bytes(64 << 20)}, files={"bomb": {"size": 16, "sha256": "0" * 64}}
    )
    lying.write_bytes(lying.read_bytes().replace(claimed, (16).to_bytes(4, "little")))
    with pytest.raises(BackupError, match="damaged"):
        restore(lying, tmp_path / "home")
    assert left(tmp_path) == {"x.zip", "y.zip"}


def test_no_flipped_byte_makes_half_a_home(tmp_path: Path, backup: Path) -> None:
    """A byte may stand where no reader looks; then the home is the whole one."""
    whole, draw = backup.read_bytes(), random.Random(7)
    refused = 0
    for _ in range(150):
        broken = bytearray(whole)
        broken[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        backup.write_bytes(broken)
        try:
            restore(backup, tmp_path / "home")
        except BackupError:
            refused += 1
            assert left(tmp_path) == {"x.zip"}
        else:
            assert rows_of(tmp_path / "home") == 3 and len(files_of(tmp_path / "home")) == 8
            shutil.rmtree(tmp_path / "home")
    assert refused > 100


@pytest.mark.parametrize("name", ["/dev/zero", "none.zip", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BackupError):
        restore(tmp_path / name, tmp_path / "home")


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BackupError, match="is no file"):
        restore(tmp_path / "pipe", tmp_path / "home")


@pytest.mark.parametrize("form", ["link", "file"])
def test_a_home_that_is_no_folder_is_refused(tmp_path: Path, backup: Path, form: str) -> None:
    (tmp_path / "target").mkdir()
    if form == "link":
        (tmp_path / "home").symlink_to(tmp_path / "target")
    else:
        (tmp_path / "home").write_text("")
    with pytest.raises(BackupError, match="AP_HOME="):
        restore(backup, tmp_path / "home", replace=True)
    assert list((tmp_path / "target").iterdir()) == []


@needs_root
def test_root_gives_the_files_to_the_owner_of_the_home(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 4321, 4322)
    restore(backup, home)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (home, *home.rglob("*"))} == {(4321, 4322)}


def test_a_disk_that_fails_leaves_the_old_home(tmp_path: Path, backup: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("1")

    def fails(_: object) -> int:
        raise OSError(28, "No space left on device")

    with pytest.raises(BackupError, match="No space left"):
        restore_home(backup, home, version=VERSION, replace=True, free=fails)
    assert left(home) == {"mine"} and left(tmp_path) == {"home", "x.zip"}
