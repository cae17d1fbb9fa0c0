"""Leases from their first `up` to the last trace, through the real engine, with the API server's word at each step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from components.labels import Object
from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.kube.client import KubeCluster
from provider.protocols.cluster import IP_ADDRESS_POOL, L2_ADVERTISEMENT, NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, Kind
from provider.units import parse_quantity
from stacks.common.results import StackResult
from stacks.engine import PulumiEngine
from tests.world.patience import PATIENCE_S

__all__ = ["Failed", "Timings", "differences", "live_and_die"]

_READY_S = PATIENCE_S
_GONE_S = 2 * PATIENCE_S
_PERSISTENT_VOLUME = Kind("v1", "PersistentVolume", "persistentvolumes", namespaced=False)

Timings = dict[str, float]
"""Seconds by step."""


class Failed(AssertionError):
    """A step did not come out as it should; the text names lease, step and what was seen."""


async def live_and_die(
    specs: Sequence[LeaseSpec], *, engine: PulumiEngine, cluster: KubeCluster, timings: Timings, read_back: bool
) -> AsyncIterator[None]:
    """All leases of one deployment, side by side: apply, wait for every pod, compare, apply again, destroy; then wait
    for the last trace. `read_back`: before the destroy, also refresh and apply once more, as a repair does.

    Yields once, when the engine is no longer needed. Raises `Failed`.
    """
    lives = [asyncio.create_task(_live(spec, engine, cluster, timings, read_back=read_back)) for spec in specs]
    ends = await asyncio.gather(*lives, return_exceptions=True)
    for spec in specs:
        await _release_addresses(cluster, spec)
    yield
    for spec in specs:
        await _step(timings, "gone", lambda spec=spec: _until(lambda: _left(cluster, spec), seconds=_GONE_S))  # type: ignore[misc]
        if spec.namespace in await engine.stacks():
            raise Failed("the stack is still listed after its destroy")
    for end in ends:
        if isinstance(end, BaseException):
            raise end


async def _live(
    spec: LeaseSpec, engine: PulumiEngine, cluster: KubeCluster, timings: Timings, *, read_back: bool
) -> None:
    try:
        await _step(timings, "up", lambda: _up(engine, spec))
        await _step(timings, "ready", lambda: _until(lambda: _unready(cluster, spec), seconds=_READY_S))
        await _nothing_differs(cluster, spec, "after the first up")
        await _step(timings, "again", lambda: _unchanged(engine, spec, "a second up"))
        if read_back:
            await _step(timings, "refresh", lambda: _refreshed(engine, spec))
            await _step(timings, "again", lambda: _unchanged(engine, spec, "an up after a refresh"))
        await _nothing_differs(cluster, spec, "after the last up")
    finally:
        await _step(timings, "destroy", lambda: _destroyed(engine, spec))


def differences(wanted: Any, stored: Any, path: str = "") -> list[str]:
    """Where `stored` does not say what `wanted` says; fields only the server has set are no difference.

    Quantities are equal when they mean the same number; a null or empty value that is not stored is none either.
    """
    if isinstance(wanted, Mapping):
        if not isinstance(stored, Mapping):
            return [] if not wanted and stored is None else [f"{path}: {stored!r} instead of an object"]
        return [line for key in wanted for line in differences(wanted[key], stored.get(key), f"{path}.{key}")]
    if isinstance(wanted, list | tuple):
        if len(wanted) != len(stored or ()):
            return [f"{path}: {len(stored or ())} entries instead of {len(wanted)}"]
        return [
            line
            for index, pair in enumerate(zip(wanted, stored or (), strict=True))
            for line in differences(*pair, f"{path}[{index}]")
        ]
    same = wanted == stored or ((".resources." in path or path.endswith("sizeLimit")) and _same_amount(wanted, stored))
    return [] if same or (wanted in ("", False) and stored is None) else [f"{path}: {stored!r} instead of {wanted!r}"]


def _same_amount(one: Any, other: Any) -> bool:
    return one is not None and other is not None and parse_quantity(str(one)) == parse_quantity(str(other))


async def _step(timings: Timings, name: str, step: Callable[[], Awaitable[None]]) -> None:
    started = time.monotonic()
    try:
        await step()
    finally:
        timings[name] = timings.get(name, 0.0) + time.monotonic() - started


async def _up(engine: PulumiEngine, spec: LeaseSpec) -> None:
    result = await engine.up(spec)
    made = {key for key in result.summary if key != "create"}
    if not result.ok or made:
        raise Failed(f"the first up: {result.error or dict(result.summary)}")


async def _unchanged(engine: PulumiEngine, spec: LeaseSpec, what: str) -> None:
    result = await engine.up(spec)
    if not result.ok or result.changes or set(result.summary) != {"same"}:
        raise Failed(f"{what} is not empty: {result.error or _told(result)}")


async def _refreshed(engine: PulumiEngine, spec: LeaseSpec) -> None:
    result = await engine.refresh(spec.namespace)
    gone = [change for change in result.changes if change.op == "delete"]
    if not result.ok or gone:
        raise Failed(f"the refresh: {result.error or _told(result)}")


async def _destroyed(engine: PulumiEngine, spec: LeaseSpec) -> None:
    result = await engine.destroy(spec.namespace)
    if not result.ok:
        raise Failed(f"the destroy: {result.error}")


def _told(result: StackResult) -> str:
    changes = [f"{change.op} {change.type} {change.name} {', '.join(change.diff)}" for change in result.changes]
    return "; ".join([str(dict(result.summary)), *changes])


async def _until(problem: Callable[[], Awaitable[str]], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while said := await problem():
        if time.monotonic() > deadline:
            raise Failed(f"not within {seconds:g} s: {said}")
        await asyncio.sleep(0.3)


async def _unready(cluster: KubeCluster, spec: LeaseSpec) -> str:
    """What is not yet as it should be: pods placed and ready, claims bound, addresses served."""
    pods = await cluster.list(POD, namespace=spec.namespace)
    wanted = sum(service.count for service in spec.services)
    waiting = [_pod_problem(pod) for pod in pods if _pod_problem(pod)]
    if len(pods) != wanted or waiting:
        return f"{len(pods)} of {wanted} pods; {'; '.join(waiting[:3])}"
    claims = await cluster.list(PERSISTENT_VOLUME_CLAIM, namespace=spec.namespace)
    unbound = [claim["metadata"]["name"] for claim in claims if claim["status"].get("phase") != "Bound"]
    return f"unbound claims {unbound}" if unbound else await _unserved(cluster, spec)


def _pod_problem(pod: Mapping[str, Any]) -> str:
    """Empty for a pod that has a node and is ready."""
    conditions = {item["type"]: item for item in pod["status"].get("conditions") or ()}
    if pod["spec"].get("nodeName") and conditions.get("Ready", {}).get("status") == "True":
        return ""
    return f"{pod['metadata']['name']}: {conditions.get('PodScheduled', {}).get('message', 'not ready')}"


async def _unserved(cluster: KubeCluster, spec: LeaseSpec) -> str:
    """Leased addresses that MetalLB has not given to their Services."""
    if not spec.leased_ips:
        return ""
    services = await cluster.list(_kind("v1", "Service"), namespace=spec.namespace)
    given = [
        item.get("ip")
        for service in services
        if service["spec"]["type"] == "LoadBalancer"
        for item in (service["status"].get("loadBalancer") or {}).get("ingress") or ()
    ]
    wanted = [leased.address for leased in spec.leased_ips]
    return "" if sorted(given) == sorted(wanted) else f"addresses served {sorted(given)} of {sorted(wanted)}"


async def _nothing_differs(cluster: KubeCluster, spec: LeaseSpec, when: str) -> None:
    found = [line for wanted in lease_objects(spec) for line in await _object_differences(cluster, wanted)]
    if found:
        raise Failed(f"{when} the API server holds something else: {'; '.join(found[:20])}")


async def _object_differences(cluster: KubeCluster, wanted: Object) -> list[str]:
    metadata = wanted["metadata"]
    kind = _kind(wanted["apiVersion"], wanted["kind"])
    name = f"{wanted['kind']} {metadata['name']}"
    stored = await cluster.get(kind, metadata["name"], namespace=metadata.get("namespace"))
    return [f"{name}{line}" for line in differences(wanted, stored)] if stored else [f"{name} does not exist"]


def _kind(api_version: str, kind: str) -> Kind:
    plural = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}.get(kind, f"{kind.lower()}s")
    return Kind(api_version, kind, plural, namespaced=kind != "Namespace")


async def _release_addresses(cluster: KubeCluster, spec: LeaseSpec) -> None:
    """Pools outlive stacks, since leases share them; what the lease loop does with the last claim is done here."""
    shared = {IP_ADDRESS_POOL.kind: IP_ADDRESS_POOL, L2_ADVERTISEMENT.kind: L2_ADVERTISEMENT}
    for item in reversed(lease_objects(spec)):
        if item["kind"] in shared:
            await cluster.delete(
                shared[item["kind"]], item["metadata"]["name"], namespace=item["metadata"]["namespace"]
            )


async def _left(cluster: KubeCluster, spec: LeaseSpec) -> str:
    """What still reminds of the lease in the cluster."""
    if await cluster.get(NAMESPACE, spec.namespace) is not None:
        return f"namespace {spec.namespace} is still there"
    volumes = [
        item["metadata"]["name"]
        for item in await cluster.list(_PERSISTENT_VOLUME)
        if (item["spec"].get("claimRef") or {}).get("namespace") == spec.namespace
    ]
    outside = [item for item in lease_objects(spec) if item["metadata"].get("namespace") != spec.namespace]
    objects = [
        f"{item['kind']} {item['metadata']['name']}"
        for item in outside
        if await cluster.get(
            _kind(item["apiVersion"], item["kind"]),
            item["metadata"]["name"],
            namespace=item["metadata"].get("namespace"),
        )
    ]
    return ", ".join([*volumes, *objects])
