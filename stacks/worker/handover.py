"""How the spec comes to a program that waits for it: an update that was opened before there was a manifest.

The worker's reading thread gives it, the program awaits it in a loop of its own (toolchain.md §3, an update opened
before the manifest exists). Without a spec the program raises, it never returns: what it has not registered would be
deleted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from components.errors import BuildError
from components.lease import lease_objects
from lease.spec import LeaseSpec
from stacks.common.config import EngineConfig
from stacks.common.errors import NoManifest, OperationRefused
from stacks.worker.notes import begin
from stacks.worker.program import check

__all__ = ["Handover"]


class Handover:
    """One for each opened update. `told` is called, in the program's thread, once all that can be made is made."""

    def __init__(self, config: EngineConfig, told: Callable[[], None]) -> None:
        self._config = config
        self._told = told
        self._lock = threading.Lock()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[LeaseSpec]] | None = None
        self._given: LeaseSpec | None = None
        self._taken = False
        self._problem: Exception | None = None
        self.given_at = 0.0
        """`time.monotonic()`; 0 while nothing was given."""

    @property
    def spec(self) -> LeaseSpec | None:
        """What the program has taken, or was not allowed to take; None while it has neither."""
        return self._given if self._taken or self.refusal is not None else None

    @property
    def refusal(self) -> BuildError | OperationRefused | None:
        """Why the spec must not be applied; None while none was given, too."""
        return self._problem if isinstance(self._problem, BuildError | OperationRefused) else None

    def give(self, spec: LeaseSpec) -> None:
        """Let the program go on with `spec`; one that may not be applied ends it. Too late changes nothing."""
        with self._lock:
            if self._given is not None or self._problem is not None:
                return
            self._given, self.given_at = spec, time.monotonic()
            try:
                self._examine(spec)
            except (BuildError, OperationRefused) as problem:
                self._problem = problem
            self._settle()

    def close(self) -> None:
        """The command line has ended: a program that waits still, raises `NoManifest`."""
        with self._lock:
            if self._given is None and self._problem is None:
                self._problem = NoManifest("the update was ended before a manifest came")
                self._settle()

    async def wanted(self) -> LeaseSpec:
        """The spec, when it is there. Raises what stands in its way."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LeaseSpec] = loop.create_future()
        with self._lock:
            self._waiting = (loop, future)
            self._settle()
        spec = await future
        self._taken = True
        if self._config.skip_checkpoints:
            self._note(spec)
        return spec

    def made(self) -> None:
        """What needs no manifest is made."""
        if self._given is None:
            self._told()

    def _examine(self, spec: LeaseSpec) -> None:
        if self._config.policies:
            check(spec)
        else:
            lease_objects(spec)

    def _note(self, spec: LeaseSpec) -> None:
        try:
            begin(self._config, spec)
        except OSError as problem:
            self._problem = OperationRefused(f"what is begun cannot be noted: {problem}")
            raise self._problem from None

    def _settle(self) -> None:
        """With the lock held: tell the program, if it waits and there is something to tell."""
        if self._waiting is None or (self._given is None and self._problem is None):
            return
        loop, future = self._waiting
        self._waiting = None
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._tell, future)

    def _tell(self, future: asyncio.Future[LeaseSpec]) -> None:
        if future.done():
            return
        if self._problem is not None:
            future.set_exception(self._problem)
        elif self._given is not None:
            future.set_result(self._given)
