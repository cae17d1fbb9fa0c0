"""The judgement whether the newest version may be applied, before the engine runs (docs/architecture.md §2, rule 5).

First the policies (the engine asks them again as the last guard), then what would change: a version that would delete a
tenant's data is refused while the version before goes on running.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from components.changes import compare, refusals
from components.errors import BuildError
from components.labels import Object
from components.lease import lease_objects
from lease.spec import LeaseSpec
from policies.facts import facts_of
from provider.kube.labels import MANAGED
from provider.lifecycle.serving.upgrade import outdated
from provider.lifecycle.serving.view import LeaseView
from provider.lifecycle.stored_lease import NamespaceState
from provider.protocols import Cluster
from provider.protocols.cluster import STATEFUL_SET
from provider.records.applied import size_problem

__all__ = ["objection"]


async def objection(view: LeaseView, spec: LeaseSpec) -> str:
    """Why `spec` may not be applied over what runs, in terms of the tenant's manifest; empty when it may be. Raises
    `ClusterError`.
    """
    try:
        wanted = lease_objects(spec)
    except BuildError as error:
        return str(error)
    if problem := size_problem(spec):
        return problem
    judged = view.parts.config.policies.judge(wanted, form=spec.form, lease=facts_of(spec))
    findings = [str(found) for found in judged if found.mandatory]
    if findings:
        return "refused by policy: " + "; ".join(findings)
    return "; ".join(map(str, refusals(compare(await _present(view, wanted), wanted))))


async def _present(view: LeaseView, wanted: Iterable[Object]) -> list[Object]:
    """The objects of the last complete version. Without a record, the StatefulSets are read from the cluster."""
    applied = view.applied
    if applied.spec is not None and not outdated(applied.spec):
        try:
            return list(lease_objects(applied.spec))
        except BuildError:
            pass  # settings differ: they allowed what is refused now
    elif (applied.spec is None and applied.attempt is not None) or view.namespace is not NamespaceState.ACTIVE:
        return []
    return await _holding_volumes(view.parts.cluster, view.newest.spec.namespace, wanted)


async def _holding_volumes(cluster: Cluster, namespace: str, wanted: Iterable[Object]) -> list[Object]:
    """Live StatefulSets with their own claim templates; everything else is taken as wanted."""
    made = {obj["metadata"]["name"]: obj for obj in wanted if obj["kind"] == STATEFUL_SET.kind}
    live = await cluster.list(STATEFUL_SET, namespace=namespace, labels=MANAGED)
    return [_with_claims(made.get(obj["metadata"]["name"]), obj) for obj in live]


def _with_claims(wanted: Object | None, live: dict[str, Any]) -> Object:
    if wanted is None:
        return live
    taken = copy.deepcopy(wanted)
    taken["spec"]["volumeClaimTemplates"] = live["spec"].get("volumeClaimTemplates") or []
    return taken
