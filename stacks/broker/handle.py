"""The broker as the daemon sees it: a child process, started when it is first needed, and again after it has died."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any

from stacks.broker.death import runs
from stacks.broker.errors import BrokerError
from stacks.broker.settings import BrokerSettings, BrokerStatus
from stacks.common.processes import DATA_MARK

__all__ = ["Broker"]

START_S = 30.0
ASK_S = 15.0


class Broker:
    """Starts and holds one broker process.

        async with Broker(settings, environment=env) as broker:
            variables["PULUMI_DEBUG_PROVIDERS"] = await broker.debug_providers()

    Ask before every operation: a broker that has died is replaced then, at another port. `environment` is all that the
    process and its plugins inherit; None: the caller's. Imports no gRPC.
    """

    def __init__(self, settings: BrokerSettings, *, environment: dict[str, str] | None = None) -> None:
        self._settings = settings
        self._environment = environment
        self._process: Process | None = None
        self._port = 0
        self._stderr: deque[str] = deque(maxlen=20)
        self._drain: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._asking = asyncio.Lock()

    async def __aenter__(self) -> Broker:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def pid(self) -> int | None:
        """The process id; None while it does not run."""
        return self._process.pid if self._process is not None and runs(self._process) else None

    async def start(self) -> None:
        """Make sure that it runs (about 0.4 s if it does not; no plugin yet). Raises `BrokerError`."""
        async with self._starting:
            if self.pid is None:
                await self._clear()
                await self._start()

    async def debug_providers(self) -> str:
        """`kubernetes:PORT`, for PULUMI_DEBUG_PROVIDERS of one operation. Raises `BrokerError`."""
        await self.start()
        return f"kubernetes:{self._port}"

    async def status(self) -> BrokerStatus:
        """Plugins, memory, counters. Raises `BrokerError` when it does not answer."""
        return BrokerStatus.model_validate(await self._ask({"ask": "status"}, ASK_S))

    async def settled(self, stack: str, *, seconds: float = 30) -> bool:
        """Wait until no call runs any more that a dead command line of `stack` began; False if it takes longer.

        True as well when there is no broker, since its plugins ended with it.
        """
        if self.pid is None:
            return True
        question = {"ask": "settle", "stack": stack, "seconds": seconds}
        return bool((await self._ask(question, seconds + ASK_S))["settled"])

    async def stop(self) -> None:
        """End it with its plugins and their files; running calls have `leave_seconds` to finish."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            try:
                async with asyncio.timeout(self._settings.leave_seconds + 10):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
            await self._clear()

    def last_words(self) -> str:
        """The end of its stderr, which never holds any data that passes through."""
        return " / ".join(self._stderr)[-2000:] or "it left no message"

    async def _start(self) -> None:
        environment = dict(os.environ) if self._environment is None else self._environment
        marks = [f"{DATA_MARK}={environment[DATA_MARK]}"] if DATA_MARK in environment else []
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "stacks.broker", *marks),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment,
            start_new_session=True,
        )
        self._process = process
        self._drain = asyncio.create_task(self._keep_stderr(process))
        try:
            answer = await self._exchange(process, self._settings.model_dump_json(), START_S)
            self._port = int(answer["port"])
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()  # the next caller must not find it dying
            raise

    async def _clear(self) -> None:
        """Remove what the ended process could not remove itself."""
        if self._drain is not None:
            await self._drain
            self._drain = None
        if self._process is not None:
            await self._process.wait()
            await asyncio.to_thread(shutil.rmtree, self._settings.scratch, ignore_errors=True)
            self._process = None

    async def _ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        async with self._asking:
            process = self._process
            if process is None or not runs(process):
                raise BrokerError("the plugin broker does not run")
            return await self._exchange(process, json.dumps(question), seconds)

    async def _exchange(self, process: Process, line: str, seconds: float) -> dict[str, Any]:
        """Send one line and read one. A broker that does not answer is out of step and is ended."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101
        try:
            async with asyncio.timeout(seconds):
                process.stdin.write(line.encode() + b"\n")
                await process.stdin.drain()
                answer: dict[str, Any] = json.loads(await process.stdout.readline())
                return answer
        except (TimeoutError, OSError, RuntimeError, ValueError) as error:
            with suppress(ProcessLookupError):
                process.kill()
            raise BrokerError(
                f"the plugin broker did not answer ({type(error).__name__}): {self.last_words()}"
            ) from None

    async def _keep_stderr(self, process: Process) -> None:
        assert process.stderr is not None  # noqa: S101
        while chunk := await process.stderr.read(4096):
            self._stderr.extend(line for line in chunk.decode(errors="replace").splitlines() if line.strip())
