"""A stack engine in memory over `FakeCluster`, with the real one's traps (toolchain.md §3, killed runs).

`up` compares with its *state*, not with the cluster: what was deleted behind its back stays gone until `refresh`. An
`up` into a terminating namespace succeeds and everything vanishes. A killed run leaves part of its work. A stack's
pools are only forgotten (`retain_on_delete`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.lease import lease_objects
from lease.spec import LeaseSpec
from stacks.common.priority import Priority
from stacks.common.results import Operation, ResourceChange, StackResult
from tests.world.cluster import FakeCluster, Key

__all__ = ["FakeEngine", "Fault", "Killed", "object_key", "retained"]


class Killed(BaseException):
    """The process dies here: nothing after this line runs, nothing in memory survives."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the next operation after `objects` of its steps: an error text, a hang, or death (all empty)."""

    error: str = ""
    objects: int = 0
    hang: bool = False
    kill: bool = False


class FakeEngine:
    """`protocols.StackEngine`. `faults` are used up one an operation (None: this one succeeds)."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.state: dict[str, dict[Key, dict[str, Any]]] = {}
        self.calls: list[tuple[Operation, str]] = []
        self.specs: list[LeaseSpec] = []
        self.priorities: list[Priority] = []
        self.faults: deque[Fault | None] = deque()
        self.refused: dict[str, str] = {}
        """Image → error: a version with this image is refused by the cluster."""

    async def preview(self, spec: LeaseSpec) -> StackResult:
        self.calls.append((Operation.PREVIEW, spec.namespace))
        return self._result(Operation.PREVIEW, spec.namespace)

    async def up(self, spec: LeaseSpec, *, priority: Priority = Priority.UPDATE) -> StackResult:
        self.calls.append((Operation.UP, spec.namespace))
        self.priorities.append(priority)
        self.specs.append(spec)
        state = self.state.setdefault(spec.namespace, {})
        wanted = {object_key(obj): obj for obj in lease_objects(spec)}
        refused = next((self.refused[s.image] for s in spec.services if s.image in self.refused), "")
        fault = Fault(error=refused, objects=2) if refused else self._fault()
        steps = [key for key in wanted if state.get(key) != wanted[key]] + [key for key in state if key not in wanted]
        changes = []
        for number, key in enumerate(steps):
            if fault and number >= fault.objects:
                break
            changes.append(self.step(state, key, wanted.get(key)))
        return await self._end(Operation.UP, spec.namespace, fault, tuple(changes))

    async def refresh(self, stack: str) -> StackResult:
        self.calls.append((Operation.REFRESH, stack))
        fault = self._fault() or (None if stack in self.state else Fault(error=f"there is no stack {stack}"))
        if fault is None:
            state = self.state[stack]
            for key in [key for key in state if key not in self.cluster.objects]:
                del state[key]
        return await self._end(Operation.REFRESH, stack, fault, ())

    async def destroy(self, stack: str) -> StackResult:
        self.calls.append((Operation.DESTROY, stack))
        fault = self._fault()
        state = self.state.get(stack, {})
        for number, key in enumerate(reversed(list(state))):
            if fault and number >= fault.objects:
                return await self._end(Operation.DESTROY, stack, fault, ())
            if key in self.cluster.objects and not retained(key):
                self.cluster.remove(key)
            del state[key]
        if fault is None:
            self.state.pop(stack, None)
        return await self._end(Operation.DESTROY, stack, fault, ())

    async def stacks(self) -> Sequence[str]:
        return sorted(self.state)

    def lose_state(self) -> None:
        """The local disk is gone."""
        self.state.clear()

    def _fault(self) -> Fault | None:
        return self.faults.popleft() if self.faults else None

    def step(self, state: dict[Key, dict[str, Any]], key: Key, wanted: dict[str, Any] | None) -> ResourceChange:
        """One object: put or, without `wanted`, removed."""
        if wanted is None:
            if key in self.cluster.objects and not retained(key):
                self.cluster.remove(key)
            del state[key]
            return ResourceChange("delete", key[1], key[3])
        if not (key[2] and self.cluster.terminating(key[2])):
            self.cluster.put(wanted)
        op = "update" if key in state else "create"
        state[key] = wanted
        return ResourceChange(op, key[1], key[3])

    async def _end(
        self, operation: Operation, stack: str, fault: Fault | None, changes: tuple[ResourceChange, ...]
    ) -> StackResult:
        if fault is None:
            return self._result(operation, stack, changes)
        if fault.kill:
            raise Killed
        if fault.hang:
            await asyncio.Event().wait()
        return StackResult(operation, stack, ok=False, seconds=0.1, changes=changes, error=fault.error)

    @staticmethod
    def _result(operation: Operation, stack: str, changes: tuple[ResourceChange, ...] = ()) -> StackResult:
        return StackResult(operation, stack, ok=True, seconds=0.1, changes=changes)


def object_key(obj: Mapping[str, Any]) -> Key:
    """apiVersion, kind, namespace, name."""
    meta = obj["metadata"]
    return obj["apiVersion"], obj["kind"], meta.get("namespace", ""), meta["name"]


def retained(key: Key) -> bool:
    """Whether a stack only forgets it (docs/architecture.md §5)."""
    return key[1] in ("IPAddressPool", "L2Advertisement")
