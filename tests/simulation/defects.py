"""Known defects, planted on purpose, to see that the rules notice them. Nothing is patched: the daemon is handed
another implementation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lease.ids import LeaseId
from lease.resources import Price
from provider.chain.model import Bid, Lease, LeaseAnswer, LeaseState
from provider.operators.objects import PROVIDER_HOST, PROVIDER_LEASED_IP, Kind
from stacks.results import Operation, StackResult

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["DEFECTS", "planted"]


class _Other:
    """Everything of another implementation but what a subclass says."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _NotFoundIsClosed(_Other):
    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        answer: LeaseAnswer = await self._inner.lease(lease)
        ended = Lease(lease, LeaseState.CLOSED, Price("uakt", 1), created_at=1)  # type: ignore[arg-type]
        return answer if answer.lease else replace(answer, lease=ended, height=self._inner.height + 7)


class _ForgetsItsBids(_Other):
    async def bid(self, bid: LeaseId) -> Bid | None:
        return None


class _KeepsClaims(_Other):
    async def delete(self, kind: Kind, name: str, **where: Any) -> bool:
        if kind in (PROVIDER_HOST, PROVIDER_LEASED_IP):
            return True
        done: bool = await self._inner.delete(kind, name, **where)
        return done


class _KeepsStacks(_Other):
    async def destroy(self, stack: str) -> StackResult:
        return StackResult(Operation.DESTROY, stack, ok=True, seconds=0.1, changes=(), error="")


class _SwallowsErrors(_Other):
    async def up(self, spec: Any, **how: Any) -> StackResult:
        result: StackResult = await self._inner.up(spec, **how)
        return replace(result, ok=True, error="")


class _DropsTheUpdate(_Other):
    """A failed update takes the workload away."""

    async def up(self, spec: Any, **how: Any) -> StackResult:
        result: StackResult = await self._inner.up(spec, **how)
        key = ("apps/v1", "Deployment", spec.namespace, "web")
        if not result.ok and key in self._inner.cluster.objects:
            self._inner.cluster.remove(key)
        return result


DEFECTS = {
    "not found is closed": ("rule 1",),
    "promises are never released": ("rule 2", "rule 4"),
    "claims are never given back": ("rule 2",),
    "stacks are never destroyed": ("rule 2",),
    "every update is called done": ("rule 1", "rule 5", "rule 6"),
    "a failed update removes what ran": ("rule 1",),
    "its own bids are forgotten": ("rule 7",),
}
"""Each with the rules one of which must notice it."""


def planted(name: str, world: World) -> tuple[Any, Any, Any, Mapping[str, object]]:
    """Chain, engine, cluster and options with the named defect; none for an empty name."""
    chain, engine, cluster = world.chain, world.engine, world.cluster
    match name:
        case "not found is closed":
            return _NotFoundIsClosed(chain), engine, cluster, {}
        case "promises are never released":
            return chain, engine, cluster, {"keep_promises": True}
        case "claims are never given back":
            return chain, engine, _KeepsClaims(cluster), {}
        case "stacks are never destroyed":
            return chain, _KeepsStacks(engine), cluster, {}
        case "every update is called done":
            return chain, _SwallowsErrors(engine), cluster, {}
        case "a failed update removes what ran":
            return chain, _DropsTheUpdate(engine), cluster, {}
        case "its own bids are forgotten":
            return _ForgetsItsBids(chain), engine, cluster, {}
    return chain, engine, cluster, {}
