"""One engine to be killed: a daemon process with its workers, a tap on its engine events, and folders of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from devnet.tools import Toolbox
from stacks.common.processes import command_name
from stacks.engine import EngineConfig
from tests.laws.killmatrix.resident_tap import ResidentTap
from tests.laws.killmatrix.tap import EngineEvent, Tap
from tests.world.patience import PATIENCE_S

__all__ = ["VICTIMS", "Engine", "Reply", "Slot", "Trap"]

Engine = Literal["list", "sdk", "stock"]
"""The resident engine with a list, the resident engine with the SDK's program, command lines."""
VICTIMS: Mapping[Engine, tuple[str, ...]] = {
    "list": ("resident", "plugin", "worker", "daemon"),
    "sdk": ("resident", "plugin", "worker", "daemon"),
    "stock": ("command line", "plugin", "worker", "daemon"),
}
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Trap:
    """Kills `victim` when the event called `event` comes in the first run after it was set; with `times` when it comes
    for that time, whatever its run.
    """

    victim: str
    event: str
    name_of: Callable[[EngineEvent], str | None]
    times: int = 0
    run: int = 0
    seen: list[str] = field(default_factory=list)
    killed_at: float = 0.0
    missed: bool = False
    """The event came, but the victim was not there (yet, or any more)."""


@dataclass(frozen=True)
class Reply:
    """What the daemon said at the end: `said` has one error for every attempt that failed."""

    ok: bool
    said: tuple[str, ...]
    at: float
    restarts: int


class Slot:
    """Runs one order at a time. `close` ends its processes."""

    def __init__(
        self, folder: Path, toolbox: Toolbox, kubeconfig: Path, *, engine: Engine = "list", workers: int = 2
    ) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        pulumi = toolbox.program("pulumi")
        self._tap: Tap | ResidentTap = Tap(folder, pulumi)
        if engine != "stock":
            self._tap = ResidentTap(folder, pulumi, toolbox.program("lessor-engine"))
        self._tap.on_event = self._on_event
        self.config = EngineConfig(
            data=folder / "engine",
            kubeconfig=kubeconfig,
            pulumi=self._tap.pulumi,
            pulumi_home=toolbox.pulumi_home,
            workers=workers,
            engine="stock" if engine == "stock" else "resident",
            program="sdk" if engine == "sdk" else "list",
            resident=self._tap.resident if isinstance(self._tap, ResidentTap) else None,
        )
        self._daemon: Process | None = None
        self._trap: Trap | None = None

    async def close(self) -> None:
        if self._daemon is not None:
            assert self._daemon.stdin
            self._daemon.stdin.close()
            await self._daemon.wait()
        self._tap.close()

    async def order(self, what: dict[str, Any], trap: Trap | None = None, *, seconds: float = 2 * PATIENCE_S) -> Reply:
        """Until the cluster is as ordered. A daemon that dies is started again and given the order again."""
        restarts = 0
        self._trap = trap
        async with asyncio.timeout(seconds):
            while not (line := await self._ask(what)):
                restarts += 1
        self._trap = None
        answer = json.loads(line)
        return Reply(answer["ok"], tuple(answer["said"]), time.monotonic(), restarts)

    async def _ask(self, what: dict[str, Any]) -> bytes:
        daemon = self._daemon = self._daemon or await self._start()
        assert daemon.stdin and daemon.stdout
        with suppress(ConnectionError):
            daemon.stdin.write(json.dumps(what).encode() + b"\n")
            await daemon.stdin.drain()
        line = await daemon.stdout.readline()
        if not line:
            await daemon.wait()
            self._daemon = None
        return line

    async def _start(self) -> Process:
        daemon = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.laws.killmatrix.daemon"),
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(self.temporary)},
            stdin=PIPE,
            stdout=PIPE,
        )
        assert daemon.stdin
        daemon.stdin.write(self.config.model_dump_json().encode() + b"\n")
        return daemon

    def _on_event(self, run: int, event: EngineEvent) -> None:
        """In a thread of the tap's. The event is handed on when this returns: the victim is dead by then."""
        trap = self._trap
        if trap is None or (name := trap.name_of(event)) is None or (trap.run not in (0, run) and not trap.times):
            return
        trap.run = run
        self._came(trap, name)

    def _came(self, trap: Trap, name: str) -> None:
        trap.seen.append(name)
        if name == trap.event and trap.seen.count(name) >= trap.times and not trap.killed_at and not trap.missed:
            pid = self._victim(trap.victim, trap.run)
            if pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    trap.killed_at = time.monotonic()
            trap.missed = not trap.killed_at

    def _victim(self, victim: str, run: int) -> int:
        """Its process id; 0 if it does not run."""
        if victim == "daemon":
            return self._daemon.pid if self._daemon else 0
        if isinstance(self._tap, ResidentTap):
            return _victim_of_resident(self._tap, victim, run)
        return _victim_of_command_line(victim, run)


def _victim_of_command_line(victim: str, command_line: int) -> int:
    match victim:
        case "command line":
            return command_line if command_name(command_line) == "pulumi" else 0
        case "plugin":
            return _child(command_line, "pulumi-resource")
        case _:
            return _parent(command_line)


def _victim_of_resident(tap: ResidentTap, victim: str, run: int) -> int:
    match victim:
        case "resident":
            return tap.engine_pid(run)
        case "plugin":
            return _child(tap.engine_pid(run), "pulumi-resource")
        case _:
            return tap.worker_pid(run)


def _child(parent: int, words: str) -> int:
    """A child of `parent` in whose command line `words` are; 0 if there is none."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return next((pid for pid in pids if parent and _parent(pid) == parent and words in _command(pid)), 0)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
