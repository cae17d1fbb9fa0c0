"""Known defects, planted on purpose, to see that the rules notice them. Nothing is patched: the daemon is handed
another implementation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from lease.ids import LeaseId, OrderId
from lease.resources import Price
from lease.spec import LeaseSpec
from provider.errors import FeesHeldBack
from provider.inventory.ledger import Ledger, free_snapshot
from provider.inventory.snapshot import Inventory, Snapshot
from provider.lifecycle.spec_maker import SpecInputs, SpecMaker
from provider.protocols.chain import Bid, Lease, LeaseAnswer, LeaseState, TxResult
from provider.protocols.cluster import (
    INGRESS,
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    Kind,
)
from provider.store.tables import decisions
from stacks.common.results import Operation, StackResult
from tests.laws.simulation.daemon import SPECS, Around
from tests.provider.lifecycle.world import PROVIDER
from tests.world.specs import ScriptedMaker

__all__ = ["DEFECTS", "planted"]


class _Other:
    """Everything of another implementation but what a subclass says."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _BelievesOneNode(_Other):
    """No second node is asked, and every end is taken as signed."""

    async def end_signer(self, lease: Lease) -> str:
        return lease.id.owner


class _NotFoundIsClosed(_BelievesOneNode):
    """The evidence of an end would notice that no lease ended, so that is planted too."""

    async def lease(self, lease: LeaseId) -> LeaseAnswer:
        answer: LeaseAnswer = await self._inner.lease(lease)
        ended = Lease(lease, LeaseState.CLOSED, Price("uakt", 1), created_at=1)  # type: ignore[arg-type]
        return answer if answer.lease else replace(answer, lease=ended, height=self._inner.height + 7)


class _ForgetsItsBids(_Other):
    async def bid(self, bid: LeaseId) -> Bid | None:
        return None


class _PaysAnything(_Other):
    """The budget is asked and not obeyed."""

    async def broadcast(self, messages: Any) -> Any:
        try:
            return await self._inner.broadcast(messages)
        except FeesHeldBack:
            self._inner.fees.spend(at=self._inner.fees.now)
            return await self._inner.send(messages)


class _WaitsTooLong(_Other):
    """What the budget held back is not looked at again when it could be paid."""

    async def broadcast(self, messages: Any) -> Any:
        try:
            return await self._inner.broadcast(messages)
        except FeesHeldBack as problem:
            raise FeesHeldBack(str(problem), again_at=problem.again_at + 1e6) from problem


class _LeavesBids(_Other):
    async def broadcast(self, messages: Any) -> Any:
        kept = [message for message in messages if message.DESCRIPTOR.name != "MsgCloseBid"]
        return await self._inner.broadcast(kept) if kept else TxResult("", 0, 0, "0uakt")


class _Keeps(_Other):
    """Deleting these kinds does nothing and says that it is done."""

    kinds: tuple[Kind, ...] = ()

    async def delete(self, kind: Kind, name: str, **where: Any) -> bool:
        done: bool = kind in self.kinds or await self._inner.delete(kind, name, **where)
        return done


class _KeepsHosts(_Keeps):
    kinds = (PROVIDER_HOST,)


class _SeesNoClaims(_Other):
    """Claims of other leases are not read before new ones are written."""

    async def list(self, kind: Kind, **where: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._inner.list(kind, **where)
        return [] if kind == PROVIDER_HOST and not where.get("labels") else found


class _SeesNoRoutes(_Other):
    async def list(self, kind: Kind, **where: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self._inner.list(kind, **where)
        return [] if kind == INGRESS and None in (where.get("labels") or {}).values() else found


class _KeepsAddresses(_Keeps):
    kinds = (PROVIDER_LEASED_IP,)


class _KeepsPools(_Keeps):
    kinds = (IP_ADDRESS_POOL, L2_ADVERTISEMENT)


class _KeepsVolumes(_Keeps):
    """The namespace is believed to be gone as soon as no stack is left, so its volumes stay."""

    kinds = (NAMESPACE, PERSISTENT_VOLUME_CLAIM)

    async def get(self, kind: Kind, name: str, **where: Any) -> dict[str, Any] | None:
        if kind == NAMESPACE and name in self._inner.left:
            return None
        found: dict[str, Any] | None = await self._inner.get(kind, name, **where)
        return found


class _KeepsNoVolume(_Other):
    """No volume is ever changed."""

    async def apply(self, obj: Mapping[str, Any], **how: Any) -> Any:
        return obj if self._spared(obj) else await self._inner.apply(obj, **how)

    def _spared(self, obj: Mapping[str, Any]) -> bool:
        return bool(obj["kind"] == "PersistentVolume")


class _KeepsVolumesForGood(_KeepsNoVolume):
    def _spared(self, obj: Mapping[str, Any]) -> bool:
        return super()._spared(obj) and obj["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


class _ForgetsStacks(_Other):
    """A destroyed stack is only forgotten."""

    async def destroy(self, stack: str) -> StackResult:
        self._inner.state.pop(stack, None)
        self._inner.cluster.left.add(stack)
        return _done(stack)


class _KeepsStacks(_Other):
    async def destroy(self, stack: str) -> StackResult:
        return _done(stack)


class _SwallowsErrors(_Other):
    async def up(self, spec: LeaseSpec, **how: Any) -> StackResult:
        result: StackResult = await self._inner.up(spec, **how)
        return replace(result, ok=True, error="")


class _Hangs(_Other):
    """Every fifth update never answers."""

    async def up(self, spec: LeaseSpec, **how: Any) -> StackResult:
        result: StackResult = await self._inner.up(spec, **how)
        if len(self._inner.specs) % 5 == 0:
            await asyncio.Event().wait()
        return result


class _DropsTheUpdate(_Other):
    """A failed update takes the workload away."""

    async def up(self, spec: LeaseSpec, **how: Any) -> StackResult:
        result: StackResult = await self._inner.up(spec, **how)
        objects = self._inner.cluster.objects
        for key in [key for key in objects if key[2:] == (spec.namespace, "web") and key[0] == "apps/v1"]:
            if not result.ok:
                self._inner.cluster.remove(key)
        return result


class _NeverReleases(Ledger):
    def release(self, order: OrderId) -> bool:
        return True


class _CountsTwice(Ledger):
    """A promise stays charged beside the pod that fulfils it."""

    def free(self, inventory: Inventory) -> Snapshot:
        pods = tuple(replace(pod, namespace="") for pod in inventory.pods)
        held = [found for order in self.orders() if (found := self.reservation(order))]
        return free_snapshot(replace(inventory, pods=pods), held, provider=PROVIDER)


class _CountsNothing(Ledger):
    """What is promised and does not run yet is free."""

    def free(self, inventory: Inventory) -> Snapshot:
        return free_snapshot(inventory, (), provider=PROVIDER)


class _WritesNoDecision(_Other):
    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Any]:
        async with self._inner.writing() as connection:
            yield connection
            await connection.execute(decisions.delete())


def _done(stack: str) -> StackResult:
    return StackResult(Operation.DESTROY, stack, ok=True, seconds=0.1, changes=(), error="")


def _relabels(around: Around) -> SpecMaker:
    """Every life of the daemon labels what it makes anew, so a restart rolls the pods."""

    def build(inputs: SpecInputs) -> LeaseSpec:
        record = inputs.record
        label = f"{record.resource_version}{around.life:03}" if around.life > 1 else record.resource_version
        return SPECS.build(replace(inputs, record=replace(record, resource_version=label), previous=None))

    return ScriptedMaker(SPECS.facts, script=build)


DEFECTS = {
    "not found is closed": ("rule 1",),
    "one node is believed": ("rule 1",),
    "promises are never released": ("rule 2", "rule 4"),
    "hostnames are never given back": ("rule 2",),
    "claims are written unread": ("rule 2",),
    "the operator's routes are not seen": ("rule 2",),
    "addresses are never given back": ("rule 2",),
    "pools are left": ("rule 2",),
    "volumes are left": ("rule 2",),
    "stacks are never destroyed": ("rule 2",),
    "volumes are not kept": ("rule 2",),
    "kept volumes never go": ("rule 2",),
    "a restart rolls pods": ("rule 3",),
    "scheduled pods are counted twice": ("rule 4",),
    "promises are not counted": ("rule 4",),
    "every update is called done": ("rule 1", "rule 5", "rule 6"),
    "a failed update removes what ran": ("rule 1",),
    "an update hangs": ("rule 6",),
    "nothing is looked at again": ("rule",),
    "its own bids are forgotten": ("rule 7",),
    "a bid has no decision": ("rule 7",),
    "bids are left open": ("rule 4", "rule 7"),
    "the fee budget is not obeyed": ("rule 7",),
    "what the budget held back is forgotten": ("rule 6",),
}
"""Each with the rules one of which must notice it."""


def planted(name: str, around: Around) -> Around:
    """What the daemon gets, with the named defect; as it is for an empty name."""
    chain, engine, cluster = around.chain, around.engine, around.cluster
    changes: dict[str, dict[str, Any]] = {
        "": {},
        "not found is closed": {"chain": _NotFoundIsClosed(chain)},
        "one node is believed": {"chain": _BelievesOneNode(chain)},
        "promises are never released": {"make_ledger": _NeverReleases},
        "hostnames are never given back": {"cluster": _KeepsHosts(cluster)},
        "claims are written unread": {"cluster": _SeesNoClaims(cluster)},
        "the operator's routes are not seen": {"cluster": _SeesNoRoutes(cluster)},
        "addresses are never given back": {"cluster": _KeepsAddresses(cluster)},
        "pools are left": {"cluster": _KeepsPools(cluster)},
        "volumes are left": {"cluster": _KeepsVolumes(cluster), "engine": _ForgetsStacks(engine)},
        "stacks are never destroyed": {"engine": _KeepsStacks(engine)},
        "volumes are not kept": {"cluster": _KeepsNoVolume(cluster)},
        "kept volumes never go": {"cluster": _KeepsVolumesForGood(cluster)},
        "a restart rolls pods": {"specs": _relabels(around)},
        "scheduled pods are counted twice": {"make_ledger": _CountsTwice},
        "promises are not counted": {"make_ledger": _CountsNothing},
        "every update is called done": {"engine": _SwallowsErrors(engine)},
        "a failed update removes what ran": {"engine": _DropsTheUpdate(engine)},
        "an update hangs": {"engine": _Hangs(engine)},
        "nothing is looked at again": {"config": {"resync_s": 1e9}},
        "its own bids are forgotten": {"chain": _ForgetsItsBids(chain)},
        "a bid has no decision": {"database": _WritesNoDecision(around.database)},
        "bids are left open": {"chain": _LeavesBids(chain)},
        "the fee budget is not obeyed": {"chain": _PaysAnything(chain)},
        "what the budget held back is forgotten": {"chain": _WaitsTooLong(chain)},
    }
    return replace(around, **changes[name])
