"""The engine that applies lease stacks. `stacks.engine` satisfies the port without importing it: imports go one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lease.spec import LeaseSpec
from stacks.common import Priority, StackResult

__all__ = ["StackEngine"]


class StackEngine(Protocol):
    """Applies lease stacks: one operation per stack at a time, as many stacks at once as the pool has workers."""

    async def preview(self, spec: LeaseSpec) -> StackResult: ...

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        """Make the cluster match `spec` exactly. `priority`: the place in the queue for a worker."""
        ...

    async def refresh(self, stack: str) -> StackResult: ...

    async def destroy(self, stack: str) -> StackResult:
        """Delete what the stack holds, then the stack itself. A stack that does not exist is a success."""
        ...

    async def stacks(self) -> Sequence[str]:
        """Names of the lease stacks in this machine's data folder. No other backend is asked."""
        ...
