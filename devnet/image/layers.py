"""Layers and the OCI layout that holds them. Equal content gives equal digests: times, owners and order are fixed."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeAlias

__all__ = ["Entry", "Files", "Layout", "executable", "file", "folder", "link"]

EPOCH = 1767225600
"""The time of every file: 2026-01-01."""
_CREATED = "2026-01-01T00:00:00Z"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path of a layer. `content`: of a file, itself or the file that has it. `target`: of a symbolic link."""

    mode: int
    content: bytes | Path | None = None
    target: str = ""


Files: TypeAlias = dict[str, Entry]
"""Path in the image, without a slash at either end, to what is there."""


def file(content: bytes | Path, *, mode: int = 0o644) -> Entry:
    """A file that everybody may read."""
    return Entry(mode, content)


def executable(content: bytes | Path) -> Entry:
    """A program."""
    return Entry(0o755, content)


def folder(*, mode: int = 0o755) -> Entry:
    """An empty folder. Folders above a path need no entry."""
    return Entry(mode)


def link(target: str) -> Entry:
    """A symbolic link."""
    return Entry(0o777, target=target)


class Layout:
    """An OCI image layout in a folder, which is made anew."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._blobs = place / "blobs" / "sha256"
        if place.exists():
            shutil.rmtree(place)
        self._blobs.mkdir(parents=True)
        self._layers: list[dict[str, Any]] = []
        self._history: list[dict[str, str]] = []

    @property
    def size(self) -> int:
        """Bytes of all layers, which are not compressed."""
        return sum(int(each["size"]) for each in self._layers)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each layer by what it holds."""
        return {had["comment"]: each["size"] for had, each in zip(self._history, self._layers, strict=True)}

    def add(self, what: str, files: Files) -> None:
        """Add a layer; `what` it holds is for its history."""
        partial = self._place / "layer.partial"
        with partial.open("wb") as output:
            _write_tar(files, output)
        with partial.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        size = partial.stat().st_size
        partial.replace(self._blobs / digest)
        self._layers.append({"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": size})
        self._history.append({"created": _CREATED, "created_by": "devnet.image", "comment": what})

    def close(self, config: Mapping[str, Any], *, name: str) -> str:
        """Write configuration, manifest and index; the digest of the manifest. `name` of the image in the index."""
        document = {
            "created": _CREATED,
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [each["digest"] for each in self._layers]},
            "history": self._history,
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, **self._blob(document)},
            "layers": self._layers,
        }
        described = self._blob(manifest)
        named = {"mediaType": _MANIFEST, **described, "annotations": {"org.opencontainers.image.ref.name": name}}
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [named]}
        (self._place / "index.json").write_text(json.dumps(index, indent=1))
        (self._place / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
        return str(described["digest"])

    def _blob(self, document: Mapping[str, Any]) -> dict[str, Any]:
        content = json.dumps(document, sort_keys=True).encode()
        digest = hashlib.sha256(content).hexdigest()
        (self._blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}


def _write_tar(files: Files, output: BinaryIO) -> None:
    parents = {str(above) for path in files for above in PurePosixPath(path).parents if str(above) != "."}
    complete = {path: folder() for path in parents} | dict(files)
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, entry in sorted(complete.items()):
            _add(tar, path, entry)


def _add(tar: tarfile.TarFile, path: str, entry: Entry) -> None:
    item = tarfile.TarInfo(path)
    item.mode, item.mtime = entry.mode, EPOCH
    if entry.target:
        item.type, item.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(item)
    elif entry.content is None:
        item.type = tarfile.DIRTYPE
        tar.addfile(item)
    elif isinstance(entry.content, bytes):
        item.size = len(entry.content)
        tar.addfile(item, io.BytesIO(entry.content))
    else:
        with entry.content.open("rb") as source:
            item.size = entry.content.stat().st_size
            tar.addfile(item, source)
