"""The images of the real node, made without a builder, in the folder that `devnet.node.registry` serves.

A folder holds `blobs/<sha256>` and `tags.json` (reference to digest). Layers are not compressed: they never leave the
machine, and packing them would cost more than storing them.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MANIFEST_TYPE",
    "PAUSE",
    "STAND_IN",
    "Image",
    "add_image",
    "add_layout",
    "busybox",
    "program_image",
    "write_empty",
    "write_images",
]

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
PAUSE = "lessor.test/pause:1"
STAND_IN = "stand-in"
"""The tag of the image that any unknown reference gets: a web server on the ports that tenants like to name."""
_PORTS = ("80", "8080", "3000", "5000", "5432", "8000", "8443", "9000", "udp:53")
_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "STANDIN=1")
_FOLDERS = ("bin", "dev", "etc", "proc", "root", "sbin", "sys", "usr/bin", "var", "www")
_ACCOUNTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "www/index.html": "stand-in\n",
}
_EPOCH = 1767225600
"""Fixed, so that equal files give equal digests."""


@dataclass(frozen=True)
class Image:
    """`programs`: path in the image to a file of the machine. `links`: path to what it points to."""

    names: Sequence[str]
    entrypoint: Sequence[str]
    programs: Mapping[str, Path]
    links: Mapping[str, str]


def write_images(folder: Path, programs: Mapping[str, Path]) -> None:
    """Write every image of the node; `programs` has `standin`, `edge`, `coredns` and `metallb-speaker`.

    Raises OSError; CalledProcessError when busybox does not run.
    """
    write_empty(folder)
    _write_tags(folder, {name: _write(folder, image) for image in _images(programs) for name in image.names})


def add_image(folder: Path, image: Image) -> None:
    """Add an image to a folder that `write_images` has made."""
    tags = json.loads((folder / "tags.json").read_text())
    _write_tags(folder, tags | {name: _write(folder, image) for name in image.names})


def add_layout(folder: Path, layout: Path) -> None:
    """Add the image of an OCI layout, whose index names it, to a folder that `write_images` has made."""
    (named,) = json.loads((layout / "index.json").read_text())["manifests"]
    for blob in (layout / "blobs" / "sha256").iterdir():
        (folder / "blobs" / blob.name).unlink(missing_ok=True)
        try:
            (folder / "blobs" / blob.name).hardlink_to(blob)
        except OSError:  # another file system
            shutil.copyfile(blob, folder / "blobs" / blob.name)
    tags = json.loads((folder / "tags.json").read_text())
    _write_tags(folder, tags | {named["annotations"]["org.opencontainers.image.ref.name"]: named["digest"]})


def write_empty(folder: Path) -> None:
    """Make the folder without an image."""
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    _write_tags(folder, {})


def _write_tags(folder: Path, tags: Mapping[str, str]) -> None:
    partial = folder / "tags.json.partial"
    partial.write_text(json.dumps(tags, indent=1))
    partial.replace(folder / "tags.json")  # the registry may be reading it


def _images(programs: Mapping[str, Path]) -> Iterable[Image]:
    standin = {"bin/standin": programs["standin"]}
    yield Image([PAUSE], ["/bin/standin", "pause"], standin, {})
    shell = {f"bin/{name}": "busybox" for name in _applets(busybox()) if name != "busybox"}
    yield Image([STAND_IN], ["/bin/standin", "serve", *_PORTS], standin | {"bin/busybox": busybox()}, shell)
    for name in ("edge", "coredns", "metallb-speaker"):
        yield program_image(name, programs[name])


def program_image(name: str, program: Path) -> Image:
    """The image `lessor.test/NAME:1` of one static program."""
    return Image([f"lessor.test/{name}:1"], [f"/bin/{name}"], {f"bin/{name}": program}, {})


def busybox() -> Path:
    """The machine's static shell."""
    return Path(shutil.which("busybox") or "/bin/busybox")


def _applets(program: Path) -> list[str]:
    return subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()


def _write(folder: Path, image: Image) -> str:
    """The digest of the image's manifest."""
    layer, size = _blob(folder, _layer(image))
    config = {
        "created": "2026-01-01T00:00:00Z",
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(image.entrypoint), "Env": list(_ENVIRONMENT)},
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    }
    described, described_size = _blob(folder, json.dumps(config).encode())
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": _CONFIG, "digest": described, "size": described_size},
        "layers": [{"mediaType": _LAYER, "digest": layer, "size": size}],
    }
    return _blob(folder, json.dumps(manifest).encode())[0]


def _blob(folder: Path, content: bytes) -> tuple[str, int]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs" / digest).write_bytes(content)
    return f"sha256:{digest}", len(content)


def _layer(image: Image) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in _FOLDERS:
            tar.addfile(_entry(name, kind=tarfile.DIRTYPE, mode=0o755))
        tar.addfile(_entry("tmp", kind=tarfile.DIRTYPE, mode=0o1777))
        for name, text in _ACCOUNTS.items():
            _add_file(tar, name, text.encode(), mode=0o644)
        for name, path in image.programs.items():
            _add_file(tar, name, path.read_bytes(), mode=0o755)
        for name, target in image.links.items():
            link = _entry(name, kind=tarfile.SYMTYPE, mode=0o777)
            link.linkname = target
            tar.addfile(link)
    return raw.getvalue()


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    entry = _entry(name, kind=tarfile.REGTYPE, mode=mode)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _entry(name: str, *, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime = kind, mode, _EPOCH
    return entry
