"""The engine that applies lease stacks. `stacks.engine` satisfies the port without importing it: imports go one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lease.spec import LeaseSpec
from stacks.common import Priority, StackResult

__all__ = ["StackEngine"]


class StackEngine(Protocol):
    """What applies lease stacks: one operation a stack at a time, stacks side by side up to the pool's size."""

    async def preview(self, spec: LeaseSpec) -> StackResult: ...

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        """Make the cluster hold exactly what `spec` says. `priority` is its place in the queue for a worker."""
        ...

    async def open(self, opening: LeaseSpec) -> bool:
        """A hint that `up` of this lease comes soon: `opening` is its spec without services, all that is known before
        a manifest. The engine may begin with it; an `up` that does not fit goes the ordinary way. False: not taken.
        """
        ...

    async def give_up(self, stack: str) -> None:
        """Take the hint back: nothing that was opened for the stack goes on."""
        ...

    async def refresh(self, stack: str) -> StackResult: ...

    async def destroy(self, stack: str) -> StackResult:
        """Delete what the stack holds, then the stack itself. A stack that does not exist is a success."""
        ...

    async def stacks(self) -> Sequence[str]:
        """Names of the lease stacks the backend holds."""
        ...
