"""A server-side dry run of a version's objects, before any of them is applied: what an admission policy, a webhook or
the API server's validation refuses is refused for all.

A pod of each workload is asked about too. A Deployment whose pods are refused is taken all the same, and ends the pods
of the version before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import structlog

from components.labels import Object
from components.lease import lease_objects
from lease.spec import LeaseSpec
from provider.errors import ClusterError
from provider.lifecycle.stored_lease import NamespaceState
from provider.protocols import Cluster
from provider.protocols.cluster import DEPLOYMENT, HTTP_ROUTE, INGRESS, POD, SECRET, SERVICE, STATEFUL_SET
from stacks.common import FailureCause, cause_of

__all__ = ["admission_problem"]

_ASKED = frozenset(kind.kind for kind in (DEPLOYMENT, STATEFUL_SET, SERVICE, SECRET, INGRESS, HTTP_ROUTE))
"""The kinds that are made of what the tenant wrote."""
_WORKLOADS = (DEPLOYMENT.kind, STATEFUL_SET.kind)
_ACCOUNT = ("serviceAccountName", "serviceAccount")
_POD_SECURITY = "violates podsecurity"
_AT_ONCE = 8
_log = structlog.get_logger(__name__)


async def admission_problem(cluster: Cluster, spec: LeaseSpec, *, namespace: NamespaceState, runs: bool) -> str:
    """What the API server refuses of the lease's objects, empty for nothing. Without the lease's namespace nothing can
    be asked, and what the API server refuses for a cause of the provider's is left to the engine, which tries again.
    `runs`: pods of another version run, so that a quota has no place for one more.

    Raises `ClusterError` when the API server does not answer, and when the cluster's pod security refuses the pods:
    nothing of that is the tenant's choice, and what runs goes on.
    """
    if namespace is not NamespaceState.ACTIVE:
        return ""
    asking = asyncio.Semaphore(_AT_ONCE)

    async def refusal(obj: Object) -> str:
        async with asking:
            return await _refusal(cluster, obj, runs=runs)

    objects = [obj for obj in lease_objects(spec) if obj["kind"] in _ASKED]
    found = await asyncio.gather(*map(refusal, (*objects, *_pods(objects))))
    return next(filter(None, found), "")


def _pods(objects: Iterable[Object]) -> Iterator[Object]:
    """One pod of each workload. The pod has no account of its own, which may be still to come, and the name of no pod
    that a controller makes.
    """
    for workload in objects:
        if workload["kind"] not in _WORKLOADS:
            continue
        meta, template = workload["metadata"], workload["spec"]["template"]
        spec = {key: value for key, value in template["spec"].items() if key not in _ACCOUNT}
        claims = [claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates") or ()]
        volumes = [
            {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{meta['name']}-0"}} for name in claims
        ]
        yield {
            "apiVersion": POD.api_version,
            "kind": POD.kind,
            "metadata": template["metadata"] | {"name": f"{meta['name']}-dry-run", "namespace": meta["namespace"]},
            "spec": spec | {"volumes": [*spec.get("volumes", ()), *volumes]},
        }


async def _refusal(cluster: Cluster, obj: Object, *, runs: bool) -> str:
    name, pod = f"{obj['kind']} {obj['metadata']['name']}", obj["kind"] == POD.kind
    try:
        await cluster.apply(obj, dry_run=True)
    except ClusterError as error:
        if not error.status or (pod and _POD_SECURITY in str(error).lower()):
            raise
        if _counts(cause_of(str(error)), pod=pod, runs=runs):
            return f"{name}: {error.problem}"
        _log.info("lifecycle.dry_run_unanswered", object=name, problem=str(error))
    return ""


def _counts(cause: FailureCause | None, *, pod: bool, runs: bool) -> bool:
    """Whether a refusal is the tenant's. A pod is made here as a controller makes it, but for small parts: only what
    policies and quotas say of it counts.
    """
    if pod and cause not in (FailureCause.DENIED, FailureCause.QUOTA):
        return False
    return cause is not None and not cause.provider_fault and not (pod and runs and cause is FailureCause.QUOTA)
