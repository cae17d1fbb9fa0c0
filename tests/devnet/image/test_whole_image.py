"""The image as a whole, made twice from the same checkout."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from devnet.errors import DevnetError
from devnet.image.build import Built, build_image
from devnet.image.contents import PREFIX, PROGRAMS, PULUMI_HOME
from devnet.tools import ENGINE, ensure_tools

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Needs Debian 12 and its mirror: elsewhere skipped, with the reason."""
    tools = ensure_tools(ENGINE, build=False)
    try:
        return build_image(tmp_path_factory.mktemp("image") / "first", toolbox=tools)
    except DevnetError as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="module")
def files(built: Built) -> dict[str, tarfile.TarInfo]:
    """Every path of the image."""
    found: dict[str, tarfile.TarInfo] = {}
    blobs = built.place / "blobs" / "sha256"
    manifest = json.loads((blobs / built.digest.partition(":")[2]).read_text())
    for layer in manifest["layers"]:
        with tarfile.open(blobs / layer["digest"].partition(":")[2]) as tar:
            found |= {entry.name: entry for entry in tar}
    return found


def test_the_same_checkout_gives_the_same_digest(built: Built, tmp_path: Path) -> None:
    assert build_image(tmp_path / "second", toolbox=ensure_tools(ENGINE, build=False)).digest == built.digest
    print(built.digest, {name: f"{size / 2**20:.0f} MiB" for name, size in built.sizes.items()})


def test_nothing_runs_as_another_user_and_nothing_can_be_written(files: dict[str, tarfile.TarInfo]) -> None:
    assert not [name for name, entry in files.items() if entry.mode & 0o6000]
    writable = [name for name, entry in files.items() if not entry.issym() and entry.mode & 0o022]
    assert writable == ["tmp"]


def test_no_program_builds_downloads_or_opens_a_shell(files: dict[str, tarfile.TarInfo]) -> None:
    programs = {Path(name).name for name, entry in files.items() if entry.isfile() and entry.mode & 0o100}
    assert not programs & {
        "sh",
        "bash",
        "dash",
        "gcc",
        "cc",
        "ld",
        "make",
        "go",
        "git",
        "curl",
        "wget",
        "apt",
        "dpkg",
        "pip",
    }
    for name in PROGRAMS:
        assert f"usr/local/bin/{name}" in files
    plugins = f"{PULUMI_HOME.lstrip('/')}/plugins/resource-kubernetes-"
    assert any(name.startswith(plugins) and name.endswith("/pulumi-resource-kubernetes") for name in files)


def test_every_module_that_compiles_is_compiled(files: dict[str, tarfile.TarInfo]) -> None:
    own = [name for name in files if name.startswith(f"{PREFIX.lstrip('/')}/lib") and "/provider/" in name]
    sources = {name for name in own if name.endswith(".py")}
    code = {name for name in own if name.endswith(".pyc")}
    assert sources and len(code) == len(sources)
