"""Keeps the GPU registry: the bundled snapshot at first, the public registry as soon as it answers, and an operator's
own file on top (operators.md §2.5).
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import aiohttp
import structlog

from provider.errors import SettingsError
from provider.operators.inventory.registry import GpuRegistry, additions, bundled_registry, merged, parse_registry
from provider.protocols import Clock
from provider.repeats import Repeats
from provider.waits import GrowingPause
from provider.watched_file import file_mark

__all__ = ["Fetch", "RegistryError", "RegistrySource", "registry_over_http"]

_log = structlog.get_logger(__name__)
_TIMEOUT_S = 10.0
_MAX_BYTES = 4 * 1024 * 1024
_PAUSE = GrowingPause(first=10.0)


class RegistryError(Exception):
    """The registry did not answer with a document."""


Fetch: TypeAlias = Callable[[], Awaitable[bytes]]
"""Reads the public registry's document. Raises `RegistryError`."""


class RegistrySource:
    """`current` is the registry. `run` must run as a task; it calls `changed` when the registry has changed.

    Raises `SettingsError` if `overrides` cannot be used at the start; later its last good content stays.
    """

    def __init__(
        self, fetch: Fetch, *, period_s: float, clock: Clock, changed: Callable[[], None], overrides: Path | None = None
    ) -> None:
        self._fetch = fetch
        self._period_s = period_s
        self._clock = clock
        self._changed = changed
        self._path = overrides
        self._mark = file_mark(overrides) if overrides else ()
        self._own: GpuRegistry = _read(overrides) if overrides else {}
        self._public: GpuRegistry = bundled_registry()
        self._digest = b""
        self._repeats = Repeats(clock.monotonic)
        self.current = merged(self._public, self._own)

    async def run(self) -> None:
        """For ever: each period, and sooner after a failure."""
        failures = 0
        while True:
            failures = 0 if await self._read_public() else failures + 1
            self._read_own()
            pause = min(self._period_s, _PAUSE.after(failures)) if failures else self._period_s
            await self._clock.sleep(pause)

    async def _read_public(self) -> bool:
        """Whether the registry answered with a document that can be used. A document that cannot be used is read again
        the next time, and the last good one stays.
        """
        try:
            content = await self._fetch()
            digest = hashlib.sha256(content).digest()
            if digest != self._digest:
                self._public = merged(additions(), parse_registry(content, source="of provider-configs"))
                self._digest = digest
                self._use()
        except (RegistryError, SettingsError) as error:
            if self._repeats.is_news("registry", str(error)):
                _log.warning("inventory.registry_unreadable", problem=str(error), used="the registry known so far")
            return False
        if self._repeats.ended("registry"):
            _log.info("inventory.registry_readable")
        return True

    def _read_own(self) -> None:
        if self._path is None or (mark := file_mark(self._path)) == self._mark:
            return
        self._mark = mark
        try:
            self._own = _read(self._path)
            self._use()
        except SettingsError as error:
            _log.error("inventory.gpu_file_wrong", problem=str(error), kept="the content that was read last")

    def _use(self) -> None:
        registry = merged(self._public, self._own)
        if registry != self.current:
            self.current = registry
            self._changed()


def _read(path: Path) -> GpuRegistry:
    try:
        return parse_registry(path.read_bytes(), source=str(path))
    except OSError as error:
        raise SettingsError(f"GPU registry {path}: {error.strerror}") from error


def registry_over_http(url: str) -> Fetch:
    """Reads `<url>/devices/gpus` with a limit of time and size."""
    address = f"{url.rstrip('/')}/devices/gpus"

    async def fetch() -> bytes:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(address) as response:
                if response.status != 200:
                    raise RegistryError(f"{address}: HTTP {response.status}")
                content = await response.content.read(_MAX_BYTES + 1)
                while len(content) <= _MAX_BYTES and (more := await response.content.read(_MAX_BYTES)):
                    content += more
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise RegistryError(f"{address}: {type(error).__name__}: {error}") from error
        if len(content) > _MAX_BYTES:
            raise RegistryError(f"{address}: the document is larger than {_MAX_BYTES} bytes")
        return content

    return fetch
