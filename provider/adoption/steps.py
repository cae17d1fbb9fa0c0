"""The adoption itself: read and plan all leases, then take one lease after the other.

The record of a lease is written last. A run that was killed has left a lease either adopted or as it was, with a stack
that the next run writes anew. Nothing that the other provider made is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lease.ids import LeaseId, namespace_name
from lease.spec import LeaseSpec
from provider.adoption.plan import LeasePlan, Premises, State, plan_lease
from provider.adoption.survey import Survey, other_providers, survey
from provider.claims.leased_ips import address_claims, leased_ip_object
from provider.errors import ProviderError
from provider.lifecycle.spec_maker import SpecMaker
from provider.protocols import Chain, Cluster
from provider.protocols.chain import LeaseState
from provider.records.applied import applied_object
from provider.records.manifests import BadRecordError, read_manifest

__all__ = ["AdoptionPlan", "adopt_lease", "plan_adoption"]

_ALIVE = (LeaseState.ACTIVE, LeaseState.RECLAIMING)


class _NoStatus(ProviderError):
    """The definitions of the cluster are older than Lessor."""


@dataclass(frozen=True, slots=True)
class AdoptionPlan:
    """`leases` in the order of their ids. `running`: pods of the other provider. `unreadable`: claims that name no
    lease.
    """

    leases: tuple[LeasePlan, ...]
    running: tuple[str, ...]
    unreadable: tuple[str, ...]


async def plan_adoption(
    cluster: Cluster, chain: Chain, specs: SpecMaker, *, provider: str, records: str, metallb: str
) -> AdoptionPlan:
    """The plan for the cluster. Raises `ClusterError` and `ChainError`; what is wrong with one lease is in its plan."""
    running = await other_providers(cluster)
    seen = await survey(cluster, records=records, metallb=metallb)
    states = await _states(chain, seen, provider)
    noted = {claim.key: claim.address for claim in address_claims(seen.ips).values() if claim.address}
    premises = Premises(provider, specs, states, noted, seen.pools)
    plans = [plan_lease(traces, premises) for traces in seen.leases.values()]
    missing = [lease for lease in states if states[lease] in _ALIVE and namespace_name(lease) not in seen.leases]
    reason = "the cluster holds no manifest of it: the tenant has to send one"
    plans += [LeasePlan(namespace_name(lease), State.MISSING, lease, reason) for lease in missing]
    return AdoptionPlan(tuple(sorted(plans, key=_order)), running, seen.unreadable)


async def adopt_lease(
    plan: LeasePlan, cluster: Cluster, *, records: str, import_stack: Callable[[LeaseSpec], bool]
) -> None:
    """Adopt one lease whose plan has a record. May be repeated at any point. Raises `ClusterError`, `ProviderError` and
    `OSError`; then the lease is not adopted, and runs as before.
    """
    if plan.record is None or plan.record.spec is None or plan.lease is None:
        raise ValueError(f"{plan.name} has nothing to adopt")
    for claim in plan.addresses:
        stored = await cluster.apply(leased_ip_object(claim, namespace=records, status=True), status=True)
        if (stored.get("status") or {}).get("address") != claim.address:
            raise _NoStatus(
                f"ProviderLeasedIP {claim.name} keeps no status: apply the cluster stack first (`pulumi up`), which "
                "brings the newer definitions"
            )
    import_stack(plan.record.spec)
    await cluster.apply(applied_object(plan.lease, plan.record, namespace=records))


async def _states(chain: Chain, seen: Survey, provider: str) -> Mapping[LeaseId, LeaseState]:
    """The state of each living lease of the provider, and of each lease of which the cluster holds a manifest."""
    states = {lease.id: lease.state for lease in await chain.leases(provider=provider, states=_ALIVE)}
    for traces in seen.leases.values():
        try:
            lease = read_manifest(traces.manifest).lease if traces.manifest is not None else traces.lease
        except BadRecordError:
            continue
        if lease is not None and lease.provider == provider and lease not in states:
            answer = await chain.lease(lease)
            states |= {lease: answer.lease.state} if answer.lease is not None else {}
    return states


def _order(plan: LeasePlan) -> tuple[str, int, int, int, str]:
    lease = plan.lease
    return (lease.owner, lease.dseq, lease.gseq, lease.oseq, plan.name) if lease else ("", 0, 0, 0, plan.name)
