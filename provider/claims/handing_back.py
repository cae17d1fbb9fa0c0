"""A hostname that its new holder gives up before the lease that had it does: it goes back to that lease.

Without the claim the hostname would be free while that lease still publishes it, and another owner would get it.
"""

from __future__ import annotations

from components.labels import Object
from lease.hostnames import route_name
from lease.ids import LeaseId, namespace_name
from provider.claims.hostnames import host_claims, host_object
from provider.claims.moves import Move
from provider.errors import Conflict
from provider.protocols import Cluster
from provider.protocols.cluster import PROVIDER_HOST, Kind

__all__ = ["handed_back"]


async def handed_back(cluster: Cluster, hostname: str, lease: LeaseId, *, namespace: str, route: Kind) -> bool:
    """Give the claim of `lease` back to the lease from which it is migrating, if that lease still has its `route`.
    Returns whether it did. Raises `ClusterError`.
    """
    obj = await cluster.get(PROVIDER_HOST, route_name(hostname), namespace=namespace)
    claim = host_claims([obj]).get(hostname) if obj is not None else None
    if obj is None or claim is None or claim.holder != lease.group or not claim.move.arrives_at(lease):
        return False
    source = claim.move.source
    if source is None or await cluster.get(route, route_name(hostname), namespace=namespace_name(source)) is None:
        return False
    back: Object = host_object(source, claim, namespace=namespace, move=Move(claim.move.sequence + 1))
    back["metadata"]["resourceVersion"] = obj["metadata"]["resourceVersion"]
    try:
        await cluster.apply(back)
    except Conflict:
        return await handed_back(cluster, hostname, lease, namespace=namespace, route=route)
    return True
