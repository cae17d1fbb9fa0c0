"""`lessor run` as a child process, with its log lines as events."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from devnet.children import start_bound
from devnet.errors import DevnetError

__all__ = ["Event", "ProviderProcess"]

Event = Mapping[str, Any]
"""One line of the provider's JSON log: `event`, `level`, `timestamp` and the fields of the event."""


class ProviderProcess:
    """One run of `lessor run`, or of another `command` of its kind. `events` are its log lines so far; `listen` is
    called for each new one.
    """

    def __init__(self, env: Mapping[str, str], *, log: Path, command: str = "run") -> None:
        self.events: list[Event] = []
        self.listen: Callable[[Event], None] = lambda _: None
        self._log = log
        self._start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = start_bound([Path(sys.executable).with_name("lessor"), command], output=output, env=env)
        self._reader = asyncio.create_task(self._follow())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def resident_mb(self) -> float:
        """The resident memory of the daemon without its workers, in MB (10^6 bytes)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    async def wait_for(self, event: str, *, seconds: float = 60, after: int = 0, **fields: Any) -> Event:
        """The first event of that name and these fields, from position `after` on. Raises `DevnetError`."""
        deadline = time.monotonic() + seconds
        seen = after
        while True:
            for candidate in self.events[seen:]:
                if candidate.get("event") == event and all(
                    candidate.get(key) == value for key, value in fields.items()
                ):
                    return candidate
            seen = max(after, len(self.events))
            if time.monotonic() > deadline or not self.running:
                raise DevnetError(
                    f"the provider logged no {event!r} {fields or ''} within {seconds:.0f} s; its log is {self._log}"
                )
            await asyncio.sleep(0.05)

    async def stop(self, *, number: signal.Signals = signal.SIGTERM, seconds: float = 30) -> int:
        """Send the signal and wait for the end; kill it after `seconds`. The exit status, negative after a signal."""
        if self.running:
            os.kill(self.pid, number)
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if self.running:
            self._process.kill()
        status = self._process.wait()
        await asyncio.sleep(0.1)
        self._reader.cancel()
        return status

    async def _follow(self) -> None:
        with self._log.open("rb") as log:
            log.seek(self._start)
            rest = b""
            while True:
                chunk = log.read()
                if not chunk:
                    await asyncio.sleep(0.05)
                    continue
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            event = {"event": line.decode(errors="replace"), "level": "raw"}
        if isinstance(event, dict):
            self.events.append(event)
            self.listen(event)
