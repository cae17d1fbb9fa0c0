"""Homes of providers, and hostile files in place of their backups."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import stat
import zipfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from provider.backup.archive import HEAD
from provider.store import newest_schema

VERSION = "0.1.0"
STATE = "engine/stacks/abc/.pulumi/stacks/lease/abc.json"


def make_home(home: Path, *, rows: int = 3) -> dict[str, str]:
    """A home; the texts of the files that a backup must have."""
    texts = {
        "store.key": "key\n",
        "akash1x.pem": "certificate\n",
        "config/lessor.toml": "stack_workers = 3\n",
        "prices.sh": "#!/bin/sh\necho 1\n",
        "engine/key": "passphrase",
        STATE: '{"version": 3}',
        "engine/stacks/abc/Pulumi.yaml": "name: lease\n",
    }
    anew = ("dashboard.link", "engine/kubeconfig", "engine/lock", "engine/term", "engine/pulumi/logs", ".x.pem.77.new")
    for name in (*texts, *anew):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(texts.get(name, "gone"))
    (home / "prices.sh").chmod(0o755)
    with closing(sqlite3.connect(home / "lessor.db")) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES (?)", (newest_schema(),))
        database.execute("CREATE TABLE rows (number INTEGER)")
        database.executemany("INSERT INTO rows VALUES (?)", ((number,) for number in range(rows)))
        database.commit()
    return texts


def rows_of(home: Path) -> int:
    with closing(sqlite3.connect(home / "lessor.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return int(database.execute("SELECT count(*) FROM rows").fetchone()[0])


def files_of(home: Path) -> dict[str, bytes]:
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def modes_of(home: Path) -> set[str]:
    """The modes of folders and files, as in `d700`."""
    paths = (home, *home.rglob("*"))
    return {f"{'d' if path.is_dir() else '-'}{stat.S_IMODE(path.stat().st_mode):03o}" for path in paths}


def write_archive(path: Path, members: Mapping[str, bytes], *, attributes: int = 0o600, **head: Any) -> Path:
    """An archive as somebody could make it by hand. `head`: fields of the head that are others."""
    entries = {name: {"size": len(text), "sha256": hashlib.sha256(text).hexdigest()} for name, text in members.items()}
    whole = {
        "form": 1,
        "version": VERSION,
        "schema_number": newest_schema(),
        "made_at": "2026-01-01T00:00:00Z",
        "home": str(path.parent / "home"),
        "files": entries,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (attributes if stat.S_IFMT(attributes) else stat.S_IFREG | attributes) << 16
            packed.writestr(info, text)
        packed.writestr(HEAD, json.dumps(whole | head))
    return path


def inode(path: Path) -> int:
    return path.stat().st_ino
