"""A server-side dry run of a version's objects, before any of them is applied: what an admission policy, a webhook or
the API server's validation refuses is refused for all.
"""

from __future__ import annotations

import asyncio

import structlog

from components.labels import Object
from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.errors import ClusterError
from provider.lifecycle.stored_lease import NamespaceState
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, HTTP_ROUTE, INGRESS, SECRET, SERVICE, STATEFUL_SET
from stacks.common import cause_of

__all__ = ["admission_problem"]

_ASKED = frozenset(kind.kind for kind in (DEPLOYMENT, STATEFUL_SET, SERVICE, SECRET, INGRESS, HTTP_ROUTE))
"""The kinds that are made of what the tenant wrote."""
_AT_ONCE = 8
_log = structlog.get_logger(__name__)


async def admission_problem(cluster: Cluster, spec: LeaseSpec, *, namespace: NamespaceState) -> str:
    """What the API server refuses of the lease's objects, empty for nothing. Without the lease's namespace nothing can
    be asked, and what the API server refuses for a cause of the provider's is left to the engine, which tries again.

    Raises `ClusterError` when the API server does not answer.
    """
    if namespace is not NamespaceState.ACTIVE:
        return ""
    asking = asyncio.Semaphore(_AT_ONCE)

    async def refusal(obj: Object) -> str:
        async with asking:
            return await _refusal(cluster, obj)

    objects = (obj for obj in lease_objects(spec) if obj["kind"] in _ASKED)
    found = await asyncio.gather(*map(refusal, objects))
    return next(filter(None, found), "")


async def _refusal(cluster: Cluster, obj: Object) -> str:
    name = f"{obj['kind']} {obj['metadata']['name']}"
    try:
        await cluster.apply(obj, dry_run=True)
    except ClusterError as error:
        if not error.status:
            raise
        cause = cause_of(str(error))
        if cause is None or cause.provider_fault:
            _log.info("lifecycle.dry_run_unanswered", object=name, problem=str(error))
            return ""
        return f"{name}: {error.problem}"
    return ""
