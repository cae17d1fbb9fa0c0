"""A real PostgreSQL on loopback, which a test stops and starts."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

import asyncpg  # type: ignore[import-untyped]

from provider.store import open_database
from tests.world.patience import until
from tests.world.servers import free_port, server_program

__all__ = ["PostgresqlServer", "a_postgresql"]

_FOLDERS = tuple(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
_NOBODY = 65534
_TEMPLATE = "migrated"


class PostgresqlServer:
    """PostgreSQL refuses to run as root, so root lends it to nobody. A killed server recovers when it is started."""

    def __init__(self, folder: Path) -> None:
        initdb = server_program("initdb", package="postgresql", folders=_FOLDERS)
        self._postgres = server_program("postgres", package="postgresql", folders=_FOLDERS)
        self._folder, self.port = folder, free_port()
        self._user = _NOBODY if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user, -1)
        made = [initdb, "-D", f"{folder}/data", "-U", "lessor", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(made, user=self._user, cwd=folder, check=True, capture_output=True, timeout=240)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = {
            "listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self._folder,
            "fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB", "autovacuum": "off",
        }  # fmt: skip
        argv = [self._postgres, "-D", f"{self._folder}/data", *(f"--{key}={value}" for key, value in options.items())]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, user=self._user, cwd=self._folder, stdout=log, stderr=log)
        until(lambda: b"ready to accept connections" in (self._folder / "log").read_bytes())

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: connections are cut and the server ends."""
        if self._process is not None:
            os.kill(self._process.pid, number)
            self._process.wait(240)
            (self._folder / "log").write_bytes(b"")

    def url(self, name: str) -> str:
        return f"postgresql+asyncpg://lessor@127.0.0.1:{self.port}/{name}"

    def new_database(self, *, migrated: bool = False) -> str:
        """The URL of a fresh database: empty, or with the tables of the newest schema."""
        name = f"t{token_hex(6)}"
        asyncio.run(self._create(name, _TEMPLATE if migrated else "template0"))
        return self.url(name)

    def make_template(self) -> None:
        asyncio.run(self._create(_TEMPLATE, "template0"))
        asyncio.run(_migrate(self.url(_TEMPLATE)))

    async def _create(self, name: str, template: str) -> None:
        connection = await asyncpg.connect(host="127.0.0.1", port=self.port, user="lessor", database="postgres")
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        await connection.close()


async def _migrate(url: str) -> None:
    await (await open_database(url)).close()


@contextmanager
def a_postgresql() -> Iterator[PostgresqlServer]:
    """A server of its own, in a folder that goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="lessor-pg-"))
    server = None
    try:
        server = PostgresqlServer(folder)
        server.start()
        server.make_template()
        yield server
    finally:
        if server is not None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)
