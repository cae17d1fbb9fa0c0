"""The resident engine as the daemon holds it: one process, started when it is first needed, replaced after its death
and when it is old or large.

A replaced process serves the operations that it has, and ends with the last of them. Where no resident engine can run,
operations are run by command lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from stacks.common.config import EngineConfig
from stacks.common.errors import EngineError
from stacks.common.listeners import FENCED
from stacks.common.plugin import installed_plugin
from stacks.common.processes import DATA_MARK, alive, memory_bytes

__all__ = ["ResidentEngine", "resident_problem"]

START_S = 30.0
LEAVE_S = 20.0
CHECK_S = 5.0
READY = b"ready 3\n"
"""The first line of a program that speaks this daemon's protocol."""
AGAIN_S = 60.0
"""Seconds without another try after it did not start."""
_ENVIRONMENT = {
    "GOGC": "400",
    "GOMEMLIMIT": str(300 << 20),
    "PULUMI_K8S_CLIENT_QPS": "300",
    "PULUMI_K8S_CLIENT_BURST": "600",
    "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS": "true",
    "PULUMI_SKIP_UPDATE_CHECK": "true",
    "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
    "PULUMI_DIY_BACKEND_NO_LEGACY_WARNING": "true",
}


def resident_problem(config: EngineConfig) -> str:
    """The reason why no resident engine can run the operations of `config`; empty when one can."""
    if config.resident is None or not os.access(config.resident, os.X_OK):
        return "there is no program lessor-engine; `lessor doctor` shows how to get it"
    if config.secrets == "vault":
        return "it has no access to the secrets of a Vault (LESSOR_STACK_SECRETS=vault)"
    try:
        installed_plugin(config.home)
    except EngineError as error:
        return str(error)
    return ""


class _Generation:
    """One process and the operations that it has."""

    def __init__(self, process: Process, socket: Path) -> None:
        self.process, self.socket = process, socket
        self.began = self.checked = time.monotonic()
        self.users = 0
        self.quiet = asyncio.Event()
        self.stderr: deque[str] = deque(maxlen=20)
        self.drain = asyncio.create_task(self._keep_stderr())

    @property
    def alive(self) -> bool:
        """Whether it runs; a death counts before the event loop has noticed it."""
        return self.process.returncode is None and alive(self.process.pid)

    def last_words(self) -> str:
        return " / ".join(self.stderr)[-2000:] or "it left no message"

    async def end(self, seconds: float) -> None:
        """End the process: SIGTERM, which lets its operations finish, then SIGKILL after `seconds`."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            self.kill()
            await self.process.wait()
        await self.drain
        self.socket.unlink(missing_ok=True)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()

    async def _keep_stderr(self) -> None:
        assert self.process.stderr is not None  # noqa: S101
        while chunk := await self.process.stderr.read(4096):
            self.stderr.extend(line for line in chunk.decode(errors="replace").splitlines() if line.strip())


class ResidentEngine:
    """`environment`: the variables that processes of the engine inherit. `on_problem` is called at every change of
    `problem`. `check_s`: the seconds between two checks of age and size.
    """

    def __init__(
        self,
        config: EngineConfig,
        environment: dict[str, str],
        *,
        on_problem: Callable[[str], None] | None = None,
        check_s: float = CHECK_S,
    ) -> None:
        self._config, self._environment, self._check_s = config, environment, check_s
        self._current: _Generation | None = None
        self._living: set[_Generation] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._renewing: asyncio.Task[None] | None = None
        self._numbers = count(1)
        self._not_before = 0.0
        self._on_problem = on_problem
        self._last = ""
        self.problem = ""
        """The reason why command lines run the operations at the moment; empty when they do not."""

    @property
    def pid(self) -> int | None:
        """Process id of the resident engine that takes new operations; None while there is none."""
        return self._current.process.pid if self._current is not None and self._current.alive else None

    async def start(self) -> None:
        """Start the process, so that the first operation need not wait."""
        await self._ready()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Path | None]:
        """The socket for one operation, in whose time the process is not replaced; None where none can run."""
        generation = await self._ready()
        if generation is None:
            yield None
            return
        generation.users += 1
        generation.quiet.clear()
        try:
            yield generation.socket
        finally:
            generation.users -= 1
            if not generation.users:
                generation.quiet.set()
            self._replace_if_due(generation)

    async def end(self, stack: str) -> None:
        """Cancel the operation of `stack` whose worker is lost, and wait for its end. A process in which it does not
        end is killed.
        """
        for generation in [each for each in self._living if each.alive]:
            try:
                async with asyncio.timeout(self._config.interrupt_seconds):
                    await _ask(generation.socket, {"operation": "end", "stack": stack})
            except TimeoutError:
                generation.kill()
                await generation.process.wait()
            except OSError:
                continue

    async def status(self) -> dict[str, int]:
        """Figures of the process: goroutines, bytes of the heap, plugins, running operations. Raises `OSError`."""
        if self._current is None:
            raise ConnectionError("there is no resident engine")
        return dict((await _ask(self._current.socket, {"operation": "status"}))["status"])

    async def stop(self) -> None:
        """End every process; running operations are cancelled by the end of their workers."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
        current, self._current = self._current, None
        if current is not None:
            self._leave(current, seconds=LEAVE_S, at_once=True)
        while self._leaving:
            await asyncio.wait(self._leaving)

    async def _ready(self) -> _Generation | None:
        async with self._starting:
            if self._current is not None and self._current.alive:
                return self._current
            if time.monotonic() < self._not_before:
                return None
            if self._current is not None:
                self._leave(self._current, seconds=LEAVE_S, at_once=True)
                self._current = None
            try:
                self._current = await self._start()
            except OSError as error:
                self._not_before = time.monotonic() + AGAIN_S
                self._report(str(error))
                return None
            self._report("")
            return self._current

    def _replace_if_due(self, generation: _Generation) -> None:
        now = time.monotonic()
        if generation is not self._current or now - generation.checked < self._check_s or self._renewing is not None:
            return
        generation.checked = now
        old = now - generation.began > self._config.resident_seconds
        if old or _memory(generation.process.pid) > self._config.resident_bytes:
            self._renewing = asyncio.create_task(self._renew(generation), name="renewing the resident engine")

    async def _renew(self, old: _Generation) -> None:
        """Start another process while the old one serves, then let the old one finish."""
        try:
            fresh = await self._start()
        except OSError:
            return  # the old one still serves, and the next check tries again
        finally:
            self._renewing = None
        self._current = fresh
        self._leave(old, seconds=LEAVE_S, at_once=False)

    def _leave(self, generation: _Generation, *, seconds: float, at_once: bool) -> None:
        async def leave() -> None:
            if generation.users and not at_once:
                await generation.quiet.wait()
            await generation.end(seconds)
            self._living.discard(generation)

        task = asyncio.create_task(leave(), name="ending a resident engine")
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _start(self) -> _Generation:
        """A process that answers. Raises `OSError`."""
        if problem := resident_problem(self._config):
            raise OSError(problem)
        config, number = self._config, next(self._numbers)
        socket = config.sockets / f"{os.getpid()}-{number}"
        plugin = installed_plugin(config.home)
        process = await asyncio.create_subprocess_exec(
            *FENCED,
            *map(str, (config.resident, socket, plugin, config.data / "tmp" / f"resident-{number}")),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=self._variables(),
            start_new_session=True,  # Ctrl-C is for the daemon alone
        )
        generation = _Generation(process, socket)
        said = b""
        try:
            assert process.stdout is not None  # noqa: S101
            async with asyncio.timeout(START_S):
                said = await process.stdout.readline()
            if said == READY:
                self._living.add(generation)
                return generation
        except TimeoutError:
            pass
        except BaseException:
            generation.kill()
            raise
        await generation.end(1.0)
        if said.startswith(b"ready"):
            raise OSError(f"{config.resident} is of another version of Lessor; `make tools` builds the right one")
        raise OSError(f"the resident engine did not start: {generation.last_words()}")

    def _variables(self) -> dict[str, str]:
        config = self._config
        found = self._environment | _ENVIRONMENT
        found |= {
            DATA_MARK: str(config.data),
            "KUBECONFIG": str(config.kubeconfig_copy),
            "PULUMI_HOME": str(config.quiet_home),
            "PULUMI_CONFIG_PASSPHRASE_FILE": str(config.key_file),
        }
        return found | ({"PULUMI_SKIP_CHECKPOINTS": "true"} if config.skip_checkpoints else {})

    def _report(self, problem: str) -> None:
        self.problem = problem
        if problem != self._last and self._on_problem is not None:
            self._on_problem(problem)
        self._last = problem


async def _ask(path: Path, request: dict[str, str]) -> dict[str, Any]:
    """The answer to one request that has no events. Raises `OSError`."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    finally:
        writer.close()
    if not line:
        raise ConnectionError("the resident engine has ended")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _memory(pid: int) -> int:
    """Resident memory of the process and of its plugins; a process that has ended has none."""
    found = {pid}
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found |= {int(child) for child in children.read_text().split()}
    return sum(map(memory_bytes, found))
