"""The files of Debian packages and of all that they depend on, as apt resolves them for an empty machine.

apt verifies what it downloads. No package is installed, so that none of its scripts runs: what the scripts would do and
the image needs is done here.
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from devnet.errors import DevnetError
from devnet.image.layers import Entry, Files, executable, file, folder, link

__all__ = ["Package", "debian_files", "download", "packages"]

_APT = ("apt-get", "-qq", "-o", "APT::Install-Recommends=0")
_URI = re.compile(r"^'[^']+' (?P<name>[^_ ]+)_(?P<version>[^_ ]+)_(?P<architecture>[a-z0-9]+)\.deb ")
_LEFT_OUT = re.compile(
    r"^(usr/share/(doc/.*(?<!/copyright)|doc-base/.*|lintian/.*|man/.*|info/.*|locale/.*|bug/.*|menu/.*|pixmaps/.*"
    r"|applications/.*|python3?/.*|binfmts/.*)|var/.*|etc/(cron\..*|python3.*/sitecustomize.py|apt/.*))$"
)
_MERGED = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")
"""Folders of the root that are links to those below /usr."""
_AUTHORITIES = "usr/share/ca-certificates/mozilla/"
_RELEASE = "VERSION_CODENAME=bookworm"


@dataclass(frozen=True, slots=True, order=True)
class Package:
    """One package that apt has chosen."""

    name: str
    version: str
    architecture: str

    @property
    def deb(self) -> str:
        """The name of the file that `apt-get download` writes."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


def packages(wanted: Sequence[str], *, without: Sequence[str] = ()) -> list[Package]:
    """The packages and their dependencies, for a machine that has none. Raises `DevnetError`."""
    _require_bookworm()
    with tempfile.NamedTemporaryFile() as nothing:
        printed = _apt("--print-uris", "-o", f"Dir::State::status={nothing.name}", "install", *wanted)
    found = [match for line in printed.splitlines() if (match := _URI.match(line))]
    chosen = [Package(each["name"], unquote(each["version"]), each["architecture"]) for each in found]
    return sorted(each for each in chosen if each.name not in without)


def download(chosen: Sequence[Package], cache: Path) -> None:
    """Download into `cache` what is not there yet. Raises `DevnetError`."""
    cache.mkdir(parents=True, exist_ok=True)
    missing = [each for each in chosen if not (cache / each.deb).exists()]
    if not missing:
        return
    with tempfile.TemporaryDirectory(dir=cache) as partial:
        _apt("download", *(f"{each.name}={each.version}" for each in missing), folder=Path(partial))
        for each in missing:
            (Path(partial) / each.deb).replace(cache / each.deb)


def debian_files(chosen: Sequence[Package], cache: Path) -> Files:
    """The files of downloaded packages, and what every root has beside them."""
    found: Files = {name: link(f"usr/{name}") for name in ("bin", "lib", "lib64", "sbin")}
    for each in chosen:
        found |= dict(_unpacked(cache / each.deb))
    authorities = (entry.content for path, entry in sorted(found.items()) if path.startswith(_AUTHORITIES))
    bundle = b"".join(each for each in authorities if isinstance(each, bytes))
    listed = "".join(f"{each.name} {each.version}\n" for each in chosen)
    return found | {
        "etc/ssl/certs/ca-certificates.crt": file(bundle),
        "usr/lib/ssl/cert.pem": link("/etc/ssl/certs/ca-certificates.crt"),
        "usr/lib/ssl/certs": link("/etc/ssl/certs"),
        "etc/nsswitch.conf": file(b"passwd: files\ngroup: files\nhosts: files dns\n"),
        "tmp": folder(mode=0o1777),
        **{name: folder() for name in ("dev", "proc", "sys", "run", "var/tmp")},
        "usr/share/lessor/packages": file(listed.encode()),
    }


def _unpacked(deb: Path) -> Iterator[tuple[str, Entry]]:
    """Path and entry of each file of a package."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # noqa: S101  (PIPE was asked for)
        with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            for item in tar:
                path = _merged_path(item.name)
                if not item.isdir() and not _LEFT_OUT.match(path):
                    yield path, _entry(tar, item)
        if process.wait():
            raise DevnetError(f"dpkg-deb cannot read {deb}: remove it, and it is downloaded again")


def _entry(tar: tarfile.TarFile, item: tarfile.TarInfo) -> Entry:
    """A hard link becomes a symbolic one, since it may name a path that has moved below /usr. No file keeps a bit by
    which it runs as another user.
    """
    if item.issym():
        return link(item.linkname)
    if item.islnk():
        return link(f"/{_merged_path(item.linkname)}")
    source = tar.extractfile(item)
    content = source.read() if source else b""
    return executable(content) if item.mode & 0o100 else file(content)


def _merged_path(name: str) -> str:
    path = name.removeprefix("./").strip("/")
    return f"usr/{path}" if path.partition("/")[0] in _MERGED else path


def _require_bookworm() -> None:
    try:
        release = Path("/etc/os-release").read_text()
    except OSError:
        release = ""
    if _RELEASE not in release:
        raise DevnetError("the image is made on Debian 12 (bookworm) only, whose packages it holds; use Containerfile")


def _apt(*arguments: str, folder: Path | None = None) -> str:
    """What apt prints. Raises `DevnetError`."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            [*_APT, *arguments], capture_output=True, text=True, cwd=folder, env=environment, check=False
        )
    except OSError as error:
        raise DevnetError(f"apt-get does not run: {error}") from None
    if done.returncode:
        raise DevnetError(f"apt-get {arguments[0]} failed; try `apt-get update` first:\n{done.stderr.strip()}")
    return done.stdout
