"""The fake engine in time: every object takes a moment, so a kill, a timeout or a partition falls between any two."""

from __future__ import annotations

import asyncio
from typing import Any

from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.errors import ClusterError
from provider.lifecycle.drift import differences
from stacks.common.priority import Priority
from stacks.common.results import Operation, ResourceChange, StackResult
from tests.laws.simulation.cluster import SimulatedCluster
from tests.world.cluster import Key
from tests.world.engine import FakeEngine, object_key, retained
from tests.world.faults import Faults

__all__ = ["SimulatedEngine"]

_ERRORS = {
    "engine errors": "connection refused",
    "engine killed": "signal: killed",
    "engine locked": "the stack is currently locked",
    "engine too slow": "the operation did not end within 60 s",
}


class SimulatedEngine(FakeEngine):
    """`protocols.StackEngine`. A cancelled operation leaves what it did so far, as a kill of the daemon does."""

    def __init__(self, cluster: SimulatedCluster, faults: Faults) -> None:
        super().__init__(cluster)
        self._faults = faults

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        self.specs.append(spec)
        self.priorities.append(priority)
        state = self.state.setdefault(spec.namespace, {})
        wanted = {object_key(obj): obj for obj in lease_objects(spec)}
        refused = next((self.refused[s.image] for s in spec.services if s.image in self.refused), "")
        steps = [key for key in wanted if state.get(key) != wanted[key]] + [key for key in state if key not in wanted]
        changes: list[ResourceChange] = []
        error, after = (refused, 2) if refused else self._trouble(len(steps))
        for number, key in enumerate(steps):
            if error and number >= after:
                break
            await self._moment()
            if self._away():
                error = "connection refused"
                break
            try:
                changes.append(self.step(state, key, wanted.get(key)))
            except ClusterError as problem:
                error = str(problem)
                break
        return await self._over(Operation.UP, spec.namespace, error, tuple(changes))

    async def refresh(self, stack: str) -> StackResult:
        """What is gone is forgotten; what was changed is known as it is."""
        await self._moment()
        error, _ = self._trouble(1)
        error = error or ("connection refused" if self._away() else "")
        if not error:
            state = self.state.get(stack, {})
            for key in [key for key, said in state.items() if self._differs(key, said)]:
                del state[key]
        return await self._over(Operation.REFRESH, stack, error, ())

    async def destroy(self, stack: str) -> StackResult:
        state = self.state.get(stack, {})
        error, after = self._trouble(len(state))
        for number, key in enumerate(reversed(list(state))):
            await self._moment()
            if self._away():
                error = "connection refused"
            if error and (number >= after or self._away()):
                return await self._over(Operation.DESTROY, stack, error, ())
            if key in self.cluster.objects and not retained(key):
                self.cluster.remove(key)
            state.pop(key, None)
        if not error:
            self.state.pop(stack, None)
        return await self._over(Operation.DESTROY, stack, error, ())

    def _differs(self, key: Key, said: dict[str, Any]) -> bool:
        live = self.cluster.objects.get(key)
        return live is None or any(True for _ in differences(said, live))

    def _trouble(self, steps: int) -> tuple[str, int]:
        kind = self._faults.pick(_ERRORS)
        return _ERRORS.get(kind, ""), self._faults.random.randint(0, max(1, steps))

    def _away(self) -> bool:
        return self._faults.on("cluster away")

    async def _moment(self) -> None:
        await self._faults.latency("slow engine")

    async def _over(
        self, operation: Operation, stack: str, error: str, changes: tuple[ResourceChange, ...]
    ) -> StackResult:
        if self._faults.hit("late answers"):
            await asyncio.sleep(self._faults.random.uniform(5, 60))
        return StackResult(operation, stack, ok=not error, seconds=0.1, changes=changes, error=error)
