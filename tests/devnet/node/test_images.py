"""The images of the real node: complete, the same each time, and with a shell where tests need one."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from devnet.node.images import PAUSE, STAND_IN
from tests.devnet.node.registry_folder import written_images


def blob(folder: Path, described: dict[str, Any]) -> bytes:
    content = (folder / "blobs" / described["digest"].removeprefix("sha256:")).read_bytes()
    assert len(content) == described["size"]
    return content


def manifest(folder: Path, tag: str) -> dict[str, Any]:
    digest = json.loads((folder / "tags.json").read_text())[tag]
    found: dict[str, Any] = json.loads((folder / "blobs" / digest.removeprefix("sha256:")).read_text())
    return found


def test_every_blob_has_the_digest_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written_images(tmp_path, monkeypatch)
    for path in (folder / "blobs").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    for tag in json.loads((folder / "tags.json").read_text()):
        described = manifest(folder, tag)
        config = json.loads(blob(folder, described["config"]))
        assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in described["layers"]]
        assert all(blob(folder, layer) for layer in described["layers"])


def test_the_stand_in_serves_by_itself_and_has_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written_images(tmp_path, monkeypatch)
    described = manifest(folder, STAND_IN)
    config = json.loads(blob(folder, described["config"]))["config"]
    assert config["Entrypoint"][:3] == ["/bin/standin", "serve", "80"]
    with tarfile.open(fileobj=io.BytesIO(blob(folder, described["layers"][0]))) as layer:
        assert layer.getmember("bin/standin").mode == 0o755
        assert layer.getmember("bin/sh").linkname == "busybox"
        assert layer.getmember("tmp").mode == 0o1777


def test_a_pod_is_held_by_a_program_that_only_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written_images(tmp_path, monkeypatch)
    config = json.loads(blob(folder, manifest(folder, PAUSE)["config"]))["config"]
    assert config["Entrypoint"] == ["/bin/standin", "pause"]


def test_equal_programs_make_equal_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (written_images(tmp_path, monkeypatch, name=name) for name in ("first", "second"))
    assert (first / "tags.json").read_text() == (second / "tags.json").read_text()
