"""`lessor gateway` as a child of `lessor run`: started, started again when it ends, and never left behind.

The child has the provider's settings without those that name its key. The kernel ends it with the provider, however the
provider ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import structlog

from lease.exit_codes import SETTINGS, USAGE
from provider.errors import SettingsError
from provider.protocols import Clock
from provider.settings import key_variables
from provider.waits import GrowingPause

__all__ = ["GatewayChild", "child_environment"]

_PAUSE = GrowingPause(first=0.2, longest=10.0)
_STEADY_S = 60.0
"""A child that ran for so long begins the pauses anew."""
_END_S = 15.0
"""The child's listeners have ten seconds to end their requests."""
_log = structlog.get_logger("gateway")


class GatewayChild:
    """`run` must run as a task, and ends the child when it is cancelled."""

    def __init__(self, clock: Clock, *, environment: Mapping[str, str] | None = None) -> None:
        self._clock = clock
        self._environment = child_environment(os.environ) if environment is None else environment
        self.pid = 0
        """0 while there is no child."""
        self._ends = 0
        """Ends in a row, each before the child had run for a minute."""
        self._exit_code = 0
        self._began = 0.0

    def status(self) -> dict[str, Any]:
        """`ends`: how often the child has ended in a row, 0 once the newest one runs for a minute; `exit_code`: of the
        last end, negative for a signal.
        """
        steady = bool(self.pid) and self._clock.monotonic() - self._began > _STEADY_S
        return {"ends": 0 if steady else self._ends, "exit_code": self._exit_code, "running": bool(self.pid)}

    async def run(self) -> None:
        """Keep a child running. Raises `SettingsError` when the first one ends for the sake of a setting."""
        first = True
        while True:
            self._began = self._clock.monotonic()
            self._exit_code = code = await self._one()
            if first and code in (SETTINGS, USAGE):
                raise SettingsError("`lessor gateway` has ended for the sake of a setting; its log names the setting")
            first = False
            self._ends = 1 if self._clock.monotonic() - self._began > _STEADY_S else self._ends + 1
            pause = _PAUSE.after(self._ends)
            _log.error("gateway.process_ended", exit_code=code, next_try_s=pause)
            await self._clock.sleep(pause)

    async def _one(self) -> int:
        """The exit code of a child, which is ended when this task is cancelled."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "provider.cli", "gateway", "--parent", str(os.getpid())),
            stdin=DEVNULL,
            env=dict(self._environment),
            start_new_session=True,  # Ctrl-C is for the provider alone
        )
        self.pid = process.pid
        _log.info("gateway.process_started", pid=process.pid)
        try:
            return await process.wait()
        finally:
            self.pid = 0
            if process.returncode is None:
                await _end(process)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except (TimeoutError, asyncio.CancelledError):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without the variables that hold or name the provider's key."""
    dropped = key_variables()
    return {name: value for name, value in environment.items() if name not in dropped}
