"""`python -m devnet.node.first FOLDER`: the first process of an enclosure.

Makes mounts and network, then reaps orphans (containerd's shims) and starts the members that a client asks for. On
SIGTERM it stops the members in the opposite order of their start. Its end takes every process, mount and network
namespace of the enclosure along. Members that die are not started again: a test decides that.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from devnet.node.enclosure import write_mark
from devnet.node.mounts import make_mounts
from devnet.node.network import make_network

__all__ = ["SOCKET"]

SOCKET = Path("/run/lessor-members.sock")
"""One line of JSON each way: `{"start": NAME, "argv": […], "env": {…}}`, `{"signal": NAME, "number": N}` or `{}`.
The answer names all members: `{NAME: {"pid": …, "status": … or null}}`, or `{"error": TEXT}`."""
_STOP_S = 5.0


class _First:
    """The members by name, in the order of their start."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs"
        self.logs.mkdir(exist_ok=True)
        self.members: dict[str, int] = {}
        self.ended: dict[str, int] = {}

    def start(self, name: str, argv: list[str], env: dict[str, str]) -> None:
        """Start one member with its output in `logs/NAME.log`. Raises OSError, ValueError if it runs already."""
        if name in self.members and name not in self.ended:
            raise ValueError(f"{name} runs already as process {self.members[name]}")
        log = str(self.logs / f"{name}.log")
        self.ended.pop(name, None)
        self.members.pop(name, None)
        self.members[name] = os.posix_spawnp(
            argv[0],
            argv,
            {**os.environ, **env},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
        )

    def reap(self) -> None:
        """Take note of every child that has ended; an orphan's end is nobody's business."""
        names = {pid: name for name, pid in self.members.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in names:
                self.ended[names[pid]] = os.waitstatus_to_exitcode(status)

    async def stop(self) -> None:
        """End the members, the youngest first; one that does not end within 5 s is killed."""
        for name in reversed([name for name in self.members if name not in self.ended]):
            os.kill(self.members[name], signal.SIGTERM)
            for _ in range(int(_STOP_S / 0.01)):
                if name in self.ended:
                    break
                await asyncio.sleep(0.01)
            else:
                os.kill(self.members[name], signal.SIGKILL)

    def answer(self, line: bytes) -> dict[str, Any]:
        """Do what one request asks and name all members."""
        try:
            request = json.loads(line)
            if "start" in request:
                self.start(request["start"], request["argv"], request.get("env", {}))
            elif "signal" in request and request["signal"] not in self.ended:
                os.kill(self.members[request["signal"]], request["number"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {name: {"pid": pid, "status": self.ended.get(name)} for name, pid in self.members.items()}


async def _serve(folder: Path) -> None:
    first, over = _First(folder), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    loop.add_signal_handler(signal.SIGCHLD, first.reap)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(first.answer(line)).encode() + b"\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(respond, SOCKET)
    (folder / "ready").touch()
    async with server:
        await over.wait()
    await first.stop()


def _main(folder: Path) -> None:
    os.umask(0o022)
    make_mounts(folder)
    write_mark(folder)
    make_network(folder)
    asyncio.run(_serve(folder))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
