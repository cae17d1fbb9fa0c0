"""The form of a backup: a ZIP file whose last member says what else is in it, with the checksum of each file.

A backup may come from a hostile writer. `restore` checks names, kinds, sizes and versions in the directory at the end
of the file before it writes one byte.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from provider.errors import BackupError

__all__ = [
    "CHUNK",
    "FORM",
    "HEAD",
    "Archive",
    "BackupHead",
    "FileEntry",
    "entry_info",
    "head_text",
    "is_backup",
    "opened",
]

FORM = 1
"""Of the archive. A reader refuses a greater one."""
HEAD = "lessor-backup.json"
CHUNK = 1 << 20
_MOST_FILES = 1_000_000
_HEAD_BYTES = 512 << 20
_SHOWN = 80
_KINDS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 0x1
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError)
"""What `zipfile` raises for files that are truncated, damaged or of another program."""


class FileEntry(BaseModel):
    """A file of the home. `size`: in bytes. `program`: its owner may execute it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    program: bool = False


class BackupHead(BaseModel):
    """`home`: the absolute path of the home. `schema_number`: of the SQLite database; empty without one."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    form: int
    version: str
    schema_number: str
    made_at: str
    home: str
    files: Mapping[str, FileEntry]


@dataclass(frozen=True, slots=True)
class Archive:
    """A backup whose directory was checked."""

    path: Path
    head: BackupHead
    zip: zipfile.ZipFile

    @property
    def size(self) -> int:
        """Bytes of all files together, as they will be on the disk."""
        return sum(each.size for each in self.head.files.values())

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file in pieces. Raises `BackupError` at the end if it is another than the head says."""
        wanted, seen, digest = self.head.files[name], 0, hashlib.sha256()
        try:
            with self.zip.open(name) as file:
                while piece := file.read(CHUNK):
                    seen += len(piece)
                    digest.update(piece)
                    yield piece
        except _DAMAGE as error:
            raise BackupError(f"{self.path} is damaged at {name}: {error}; take another backup") from None
        if (seen, digest.hexdigest()) != (wanted.size, wanted.sha256):
            raise BackupError(f"{self.path} is damaged at {name}: its checksum is another; take another backup")


def is_backup(path: Path) -> bool:
    """Whether a program has written a backup there, whole or not damaged at its end."""
    try:
        with zipfile.ZipFile(path) as found:
            return HEAD in found.namelist()
    except _DAMAGE:
        return False


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """The backup at `path`, checked as far as its directory goes. Raises `BackupError`."""
    with _file(path) as file:
        try:
            found = zipfile.ZipFile(file)
            head = _head(path, found)
        except BackupError:
            raise
        except _DAMAGE as error:
            raise BackupError(f"{path} is no backup of Lessor, or it is truncated: {error}") from None
        _compare(path, found.infolist(), head)
        yield Archive(path, head, found)


@contextmanager
def _file(path: Path) -> Iterator[IO[bytes]]:
    """The file, opened; a pipe or a device is refused, since reading one may never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BackupError(f"{path} is no file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _head(path: Path, found: zipfile.ZipFile) -> BackupHead:
    if len(found.infolist()) > _MOST_FILES:
        raise BackupError(f"{path} names {len(found.infolist())} files; a home has at most {_MOST_FILES}")
    try:
        info = found.getinfo(HEAD)
    except KeyError:
        raise BackupError(f"{path} is no backup of Lessor: it has no {HEAD}") from None
    if info.file_size > _HEAD_BYTES:
        raise BackupError(f"{path}: {HEAD} claims to have {info.file_size} bytes; take another backup")
    with found.open(info) as file:
        text = file.read(_HEAD_BYTES + 1)
    _refuse_newer_form(path, text)
    try:
        return BackupHead.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise BackupError(f"{path}: {HEAD} is not as Lessor writes it ({where[:_SHOWN]!r}); take another") from None


def _refuse_newer_form(path: Path, text: bytes) -> None:
    """A newer form may have other fields, so its number is read before them."""
    found = re.match(rb'\s*\{\s*"form":\s*(\d{1,9})\b', text)
    if found and int(found[1]) > FORM:
        raise BackupError(f"{path} has form {int(found[1])}, this lessor reads {FORM}: restore it with the newer one")


def _compare(path: Path, members: list[zipfile.ZipInfo], head: BackupHead) -> None:
    """Raise `BackupError` unless the members are exactly the files that the head names, each of them harmless."""
    seen: set[str] = set()
    for info in members:
        name = info.filename
        if problem := _name_problem(name) or _member_problem(info):
            raise BackupError(f"{path} has a member {ascii(name)[:_SHOWN]} that {problem}; nothing was restored")
        if name in seen:
            raise BackupError(f"{path} has two members {ascii(name)[:_SHOWN]}; nothing was restored")
        seen.add(name)
        if name != HEAD and (name not in head.files or head.files[name].size != info.file_size):
            raise BackupError(f"{path} has a member {ascii(name)[:_SHOWN]} that its head does not name")
    if missing := head.files.keys() - seen:
        raise BackupError(f"{path} lacks {len(missing)} files, such as {ascii(min(missing))[:_SHOWN]}")
    folders = {str(parent) for name in head.files for parent in Path(name).parents}
    if both := folders & head.files.keys():
        raise BackupError(f"{path} names {ascii(min(both))[:_SHOWN]} as a file and as a folder; nothing was restored")


def _name_problem(name: str) -> str:
    """What is wrong with the path of a member; empty for a path that stays below the home."""
    if not name.isprintable() or "\\" in name:
        return "has characters that no file of a home has"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "would be written outside the home"
    if len(name.encode()) > 2048 or any(len(part.encode()) > 255 for part in name.split("/")):
        return "has a name that is too long"
    return ""


def _member_problem(info: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or info.is_dir():
        return "is no file"
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _KINDS:
        return "is packed in a way that Lessor does not use"
    return ""


def entry_info(name: str, *, program: bool) -> zipfile.ZipInfo:
    """How a file is written: compressed, for its owner only, without a time of its own."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | (0o700 if program else 0o600)) << 16
    return info


def head_text(head: BackupHead) -> str:
    """The head as the last member has it: its form comes first."""
    return head.model_dump_json(indent=1)
