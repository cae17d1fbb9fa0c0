"""The handover of the spec to a program that waits for it, in an update that was opened before there was a manifest.

The worker's reading thread gives the spec, and the program awaits it in a loop of its own (toolchain.md §3, an update
opened before the manifest exists). Without a spec the program raises and never returns, since Pulumi would delete every
resource that it has not registered.
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
from stacks.worker.begun_objects import begin
from stacks.worker.program import check

__all__ = ["Handover"]


class Handover:
    """One for each opened update. `on_made` is called in the program's thread once everything that needs no manifest is
    made.
    """

    def __init__(self, config: EngineConfig, on_made: Callable[[], None]) -> None:
        self._config = config
        self._on_made = on_made
        self._lock = threading.Lock()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[LeaseSpec]] | None = None
        self._given: LeaseSpec | None = None
        self._taken = False
        self._problem: Exception | None = None
        self.given_at = 0.0
        """`time.monotonic()` when the spec was given; 0 before."""

    @property
    def spec(self) -> LeaseSpec | None:
        """The spec that the program took, or was not allowed to take; None before."""
        return self._given if self._taken or self.refusal is not None else None

    @property
    def refusal(self) -> BuildError | OperationRefused | None:
        """The reason why the spec must not be applied; None also before one was given."""
        return self._problem if isinstance(self._problem, BuildError | OperationRefused) else None

    def give(self, spec: LeaseSpec) -> None:
        """Let the program continue with `spec`. A spec that must not be applied ends the program. A late call changes
        nothing.
        """
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
        """The command line has ended: a program that still waits raises `NoManifest`."""
        with self._lock:
            if self._given is None and self._problem is None:
                self._problem = NoManifest("the update was ended before a manifest came")
                self._settle()

    async def wanted(self) -> LeaseSpec:
        """Wait for the spec. Raises the reason against it."""
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
        """Report that everything that needs no manifest is made."""
        if self._given is None:
            self._on_made()

    def _examine(self, spec: LeaseSpec) -> None:
        if self._config.policies:
            check(spec, self._config.choices)
        else:
            lease_objects(spec)

    def _note(self, spec: LeaseSpec) -> None:
        try:
            begin(self._config, spec)
        except OSError as problem:
            self._problem = OperationRefused(f"the objects that the update begins cannot be noted: {problem}")
            raise self._problem from None

    def _settle(self) -> None:
        """With the lock held: pass the spec or the refusal to the program if it waits."""
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
