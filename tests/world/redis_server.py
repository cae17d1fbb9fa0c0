"""A real Redis on loopback, which a test stops, starts, suspends and fills."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.world.patience import until
from tests.world.servers import free_port, server_program

__all__ = ["RedisServer", "a_redis"]


class RedisServer:
    """`redis-server` without a file on disk, so that it comes back empty. `sentinel`: the lines of a Sentinel."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self._program = server_program("redis-server", package="redis-server")
        self._folder, self._options = folder, options
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        argv = [self._program, *self._options, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        with (self._folder / f"redis-{self.port}.log").open("ab") as log:
            self._process = subprocess.Popen(argv, cwd=self._folder, stdout=log, stderr=log)
        until(lambda: self.ask("PING") == "PONG")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def ask(self, *command: str) -> str:
        """What `redis-cli` prints."""
        argv = [server_program("redis-cli", package="redis-server"), "-p", str(self.port), *command]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60).stdout.strip()


@contextmanager
def a_redis(folder: Path, *options: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
