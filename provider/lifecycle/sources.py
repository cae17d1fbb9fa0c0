"""The search for all leases to check: those that the chain calls alive, and those of which the cluster or the engine
still holds something.

So objects that remain after a lost event are found, and leases that ended while the provider was down are ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field

from lease.ids import LeaseId, namespace_name
from provider.errors import ChainError, ClusterError
from provider.kube.labels import MANAGED, lease_of
from provider.lifecycle.config import LifecycleConfig
from provider.protocols import Chain, Cluster, StackEngine
from provider.protocols.chain import LeaseState
from provider.protocols.cluster import (
    MANIFEST,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PROVIDER_HOST,
    PROVIDER_LEASED_IP,
    SECRET,
    Kind,
)
from provider.records.applied import APPLIED_LABEL
from stacks.common import EngineError

__all__ = ["FoundLeases", "find_leases"]

_ALIVE = (LeaseState.ACTIVE, LeaseState.RECLAIMING)
_ENDED = (LeaseState.CLOSED, LeaseState.INSUFFICIENT_FUNDS)


@dataclass(slots=True)
class FoundLeases:
    """`problems`: sources that could not be read; the leases that only they name are found next time.

    `unknown_stacks`: stacks of no known lease of this provider. They are reported and never changed.
    """

    leases: set[LeaseId] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    unknown_stacks: tuple[str, ...] = ()
    only_volumes: int = 0
    """The number of `leases` of which only volumes in quarantine are left."""


async def find_leases(chain: Chain, cluster: Cluster, engine: StackEngine, *, config: LifecycleConfig) -> FoundLeases:
    """Ask every source. A source that fails costs only the leases that it alone knows."""
    found = FoundLeases()
    await _add(found, _on_chain(chain, config.provider, _ALIVE))
    for kind, namespace, labels in (
        (MANIFEST, config.records, None),
        (SECRET, config.records, APPLIED_LABEL),
        (PROVIDER_HOST, config.records, MANAGED),
        (PROVIDER_LEASED_IP, config.records, MANAGED),
        (NAMESPACE, None, MANAGED),
    ):
        await _add(found, _in_cluster(cluster, kind, namespace, labels))
    others = set(found.leases)
    await _add(found, _in_cluster(cluster, PERSISTENT_VOLUME, None, MANAGED))
    found.leases = {lease for lease in found.leases if lease.provider == config.provider}
    found.only_volumes = len(found.leases - others)
    await _from_stacks(found, chain, engine, config.provider)
    return found


async def _add(found: FoundLeases, source: Awaitable[Sequence[LeaseId]]) -> None:
    try:
        found.leases.update(await source)
    except (ChainError, ClusterError) as error:
        found.problems.append(str(error))


async def _on_chain(chain: Chain, provider: str, states: Sequence[LeaseState]) -> list[LeaseId]:
    return [lease.id for lease in await chain.leases(provider=provider, states=states)]


async def _in_cluster(
    cluster: Cluster, kind: Kind, namespace: str | None, labels: dict[str, str] | None
) -> list[LeaseId]:
    objects = await cluster.list(kind, namespace=namespace, labels=labels)
    return [lease for obj in objects if (lease := lease_of(obj)) is not None]


async def _from_stacks(found: FoundLeases, chain: Chain, engine: StackEngine, provider: str) -> None:
    """A stack's name is a hash: only a lease that is known from another source can be recognised in it.

    The chain's ended leases are listed only when a stack remains that no other source explains.
    """
    try:
        left = set(await engine.stacks()) - {namespace_name(lease) for lease in found.leases}
    except (OSError, EngineError) as error:
        found.problems.append(f"stacks cannot be listed: {error}")
        return
    if not left:
        return
    try:
        ended = {namespace_name(lease): lease for lease in await _on_chain(chain, provider, _ENDED)}
    except ChainError as error:
        found.problems.append(str(error))
        ended = {}
    found.leases.update(ended[name] for name in left & ended.keys())
    found.unknown_stacks = tuple(sorted(left - ended.keys()))
