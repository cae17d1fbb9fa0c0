"""Layers of the image: equal content gives equal digests, and nothing in them depends on the machine that made them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from devnet.image.contents import SITE_PACKAGES
from devnet.image.debian import Package, debian_files
from devnet.image.environment import compiled, compiled_library
from devnet.image.layers import Files, Layout, executable, file, folder, link
from devnet.node.images import add_layout, write_empty

CONFIG = {"Entrypoint": ["lessor"]}


def layer(layout: Path, number: int = 0) -> list[tarfile.TarInfo]:
    """The entries of one layer."""
    digest = manifest(layout)["layers"][number]["digest"].removeprefix("sha256:")
    with tarfile.open(layout / "blobs" / "sha256" / digest) as tar:
        return tar.getmembers()


def manifest(layout: Path) -> dict:
    index = json.loads((layout / "index.json").read_text())
    return json.loads((layout / "blobs" / "sha256" / index["manifests"][0]["digest"].partition(":")[2]).read_text())


def written(place: Path, files: Files) -> str:
    layout = Layout(place)
    layout.add("something", files)
    return layout.close(CONFIG, name="lessor.test/lessor:1")


def test_order_and_times_and_owners_of_files_do_not_change_the_digest(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("text")
    files = {"b/one": file(source), "a": link("b"), "tmp": folder(mode=0o1777)}
    first = written(tmp_path / "1", files)
    os.utime(source, (1, 1))
    source.chmod(0o600)
    assert written(tmp_path / "2", dict(reversed(files.items()))) == first
    entries = {entry.name: entry for entry in layer(tmp_path / "1")}
    assert list(entries) == ["a", "b", "b/one", "tmp"], "a folder comes before what is in it"
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 1767225600)}
    assert entries["b/one"].mode == 0o644 and entries["tmp"].mode == 0o1777


def test_a_changed_file_changes_the_digest(tmp_path: Path) -> None:
    assert written(tmp_path / "1", {"a": file(b"1")}) != written(tmp_path / "2", {"a": file(b"2")})
    assert written(tmp_path / "1", {"a": file(b"1")}) != written(tmp_path / "2", {"a": executable(b"1")})


def test_the_layout_names_what_it_holds(tmp_path: Path) -> None:
    written(tmp_path / "1", {"a": file(b"1")})
    found = manifest(tmp_path / "1")
    config = json.loads((tmp_path / "1/blobs/sha256" / found["config"]["digest"].partition(":")[2]).read_text())
    assert config["config"] == CONFIG
    assert config["rootfs"]["diff_ids"] == [each["digest"] for each in found["layers"]]
    assert config["history"][0]["comment"] == "something"
    for each in (found["config"], *found["layers"]):
        assert (tmp_path / "1/blobs/sha256" / each["digest"].partition(":")[2]).stat().st_size == each["size"]


def test_the_devnets_registry_serves_a_layout(tmp_path: Path) -> None:
    digest = written(tmp_path / "layout", {"a": file(b"1")})
    write_empty(tmp_path / "images")
    add_layout(tmp_path / "images", tmp_path / "layout")
    assert json.loads((tmp_path / "images/tags.json").read_text()) == {"lessor.test/lessor:1": digest}
    for each in manifest(tmp_path / "layout")["layers"]:
        assert (tmp_path / "images/blobs" / each["digest"].partition(":")[2]).is_file()


def test_modules_are_compiled_for_a_root_that_cannot_be_written(tmp_path: Path) -> None:
    found = []
    for name in ("1", "2"):
        staged = tmp_path / name
        staged.mkdir()
        (staged / "module.py").write_text("NAMES = {'a', 'b', 'c'}\n\ndef one() -> int:\n    return 1\n")
        (staged / "template.py").write_text("{{ not python }}\n")
        os.utime(staged / "module.py", (int(name), int(name)))
        made = compiled(staged, SITE_PACKAGES).items()
        found.append({path: entry.content.read_bytes() for path, entry in made if isinstance(entry.content, Path)})
    assert found[0] == found[1]
    inside = SITE_PACKAGES.lstrip("/")
    code = found[0][f"{inside}/__pycache__/module.cpython-311.pyc"]
    assert code[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(code[4:8], "little") == 1, "checked by no time and by no hash"
    assert f"/{inside}/module.py".encode() in code and str(tmp_path).encode() not in code
    assert f"{inside}/template.py" in found[0]


def test_pythons_own_library_is_compiled_where_it_stays(tmp_path: Path) -> None:
    files = {"usr/lib/python3.11/json/a.py": file(b"x = 1\n"), "usr/bin/python3.11": executable(b"")}
    assert list(compiled_library(files, tmp_path)) == ["usr/lib/python3.11/json/__pycache__/a.cpython-311.pyc"]


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not there")
def test_files_of_a_package_are_below_usr_and_run_as_nobody_else(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path, mode in {"lib/x/one.so": 0o644, "bin/two": 0o4755, "usr/share/doc/p/changelog": 0o644}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
        (root / path).chmod(mode)
    (root / "bin/three").hardlink_to(root / "bin/two")
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text("Package: p\nVersion: 1:2\nArchitecture: all\nMaintainer: m\nDescription: d\n")
    package = Package("p", "1:2", "all")
    subprocess.run(["dpkg-deb", "-b", root, tmp_path / package.deb], check=True, capture_output=True)
    found = debian_files([package], tmp_path)
    assert found["usr/lib/x/one.so"] == file(b"lib/x/one.so")
    assert {found["usr/bin/two"], found["usr/bin/three"]} <= {
        executable(b"bin/two"),
        *map(link, ("/usr/bin/two", "/usr/bin/three")),
    }
    assert found["lib"] == link("usr/lib") and "usr/share/doc/p/changelog" not in found
    assert found["usr/share/lessor/packages"] == file(b"p 1:2\n")
