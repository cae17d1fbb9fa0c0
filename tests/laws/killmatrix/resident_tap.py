"""Between the workers and a resident engine: sees each engine event first, then hands it on.

No code of the product is touched: the engine is given a `lessor-engine` that is a shell script. It leaves its socket to
the tap, and becomes the real program, under its own name and process id, with a socket beside it.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from stacks.worker.resident import connect
from tests.laws.killmatrix.tap import EngineEvent

__all__ = ["ResidentTap"]

_SCRIPT = """#!/bin/sh
socket=$1
shift
mkdir -p -m 700 "${{socket%/*}}"
echo "$socket" > {notes}/$$.part && mv {notes}/$$.part {notes}/$$
while [ ! -S "$socket" ]; do sleep 0.02; done
exec {engine} "$socket.real" "$@"
"""
_PAUSE_S = 0.02


class ResidentTap:
    """`on_event` is called in a thread of its own with the number of the operation, before the worker hears of the
    event.
    """

    def __init__(self, folder: Path, pulumi: Path, engine: Path) -> None:
        self.on_event: Callable[[int, EngineEvent], None] = lambda _run, _event: None
        self.pulumi = pulumi
        self.resident = folder / "lessor-engine"
        self._notes = folder / "notes"
        self._notes.mkdir()
        self._runs = count(1)
        self._pids: dict[int, tuple[int, int]] = {}
        self._closed = threading.Event()
        names = {"notes": shlex.quote(str(self._notes)), "engine": shlex.quote(str(engine))}
        self.resident.write_text(_SCRIPT.format(**names))
        self.resident.chmod(0o755)
        threading.Thread(target=self._watch, daemon=True).start()

    def engine_pid(self, run: int) -> int:
        """The process that runs the operation."""
        return self._pids.get(run, (0, 0))[0]

    def worker_pid(self, run: int) -> int:
        """The process that asked for the operation."""
        return self._pids.get(run, (0, 0))[1]

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        seen: set[str] = set()
        while not self._closed.is_set():
            for note in self._notes.iterdir():
                if note.suffix or note.name in seen:
                    continue
                seen.add(note.name)
                with suppress(OSError):  # its daemon was killed, and the next one has removed the folder
                    self._serve(Path(note.read_text().strip()), int(note.name))
            time.sleep(_PAUSE_S)

    def _serve(self, path: Path, engine: int) -> None:
        arguments = (_listen(path), engine, path.with_name(f"{path.name}.real"))
        threading.Thread(target=self._accept, args=arguments, daemon=True).start()

    def _accept(self, listener: socket.socket, engine: int, real: Path) -> None:
        while not self._closed.is_set():
            connection, _ = listener.accept()
            threading.Thread(target=self._pass, args=(connection, engine, real), daemon=True).start()

    def _pass(self, connection: socket.socket, engine: int, real: Path) -> None:
        """One operation; either side may be killed at any moment."""
        run = next(self._runs)
        with suppress(OSError, ValueError), connection:
            try:
                self._between(run, connection, engine, real)
            finally:  # `close` alone tells the peer nothing while the other thread waits in `recv`
                connection.shutdown(socket.SHUT_RDWR)

    def _between(self, run: int, connection: socket.socket, engine: int, real: Path) -> None:
        with connect(real) as onward:
            self._pids[run] = (engine, _peer(connection))
            threading.Thread(target=_forward, args=(connection, onward), daemon=True).start()
            with onward.makefile("rb") as lines:
                for line in lines:
                    event = json.loads(line)
                    if not event.get("ended"):
                        self.on_event(run, event)
                    connection.sendall(line)


def _peer(connection: socket.socket) -> int:
    """The process id of the other end."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[0])


def _forward(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _listen(path: Path) -> socket.socket:
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    os.close(folder)
    listener.listen(64)
    return listener
