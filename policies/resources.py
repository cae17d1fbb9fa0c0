"""Resources: every container has limits, and a lease takes no more than it rents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from policies.facts import ServiceFacts
from policies.pods import LONG_RUNNING, all_containers, at, items, named, pod_of
from policies.quantities import positive, quantity
from policies.rules import BOTH, Manifest, ObjectProblem, Objects, RuleScope, Severity, fence, of_each

__all__ = ["RULES"]

_WORKLOADS = ("Deployment", "StatefulSet")
_QUOTA = {"limits.cpu": "cpu", "limits.memory": "memory", "limits.ephemeral-storage": "ephemeral-storage"}


def _without(*resources: str) -> Callable[[Manifest], Iterator[str]]:
    """A check that names each container without a limit of one of `resources`."""

    def check(manifest: Manifest) -> Iterator[str]:
        for container in all_containers(manifest, LONG_RUNNING):
            limits = at(container, "resources", "limits")
            missing = [name for name in resources if not positive(limits.get(name))]
            if missing:
                yield f"{named(container)} has no limit of {' and '.join(missing)}"

    return check


def _within_reservation(objects: Objects) -> Iterator[ObjectProblem]:
    lease = objects.lease
    if lease is None:
        return
    for workload in objects.of_kinds(*_WORKLOADS):
        rented = lease.services.get(str(at(workload, "metadata").get("name")))
        if rented is None:
            yield ObjectProblem(workload, "the lease rents no such service")
        elif not rented.kept:
            yield from (ObjectProblem(workload, text) for text in _above(workload, rented))


def _above(workload: Manifest, rented: ServiceFacts) -> Iterator[str]:
    replicas = at(workload, "spec").get("replicas", 1)
    if not isinstance(replicas, int) or replicas > rented.count:
        yield f"it has {replicas} replicas and rents {rented.count}"
    bounds = {
        "cpu": Decimal(rented.cpu_milli) / 1000,
        "memory": Decimal(rented.memory_bytes),
        "ephemeral-storage": Decimal(rented.ephemeral_bytes),
    }
    for name, bound in bounds.items():
        taken = _sum(workload, name)
        if taken is None or taken > bound:
            yield f"it takes {'an unknown amount' if taken is None else f'{taken:f}'} of {name} and rents {bound:f}"


def _sum(workload: Manifest, resource: str) -> Decimal | None:
    """The limits of all containers of one replica; None when one is no quantity."""
    total = Decimal(0)
    for container in all_containers(workload, LONG_RUNNING):
        amount = quantity(at(container, "resources", "limits").get(resource, 0))
        if amount is None:
            return None
        total += amount
    return total


def _within_quota(objects: Objects) -> Iterator[ObjectProblem]:
    """Without facts of the lease, the quota of the same stack is the bound."""
    for quota in objects.of_kinds("ResourceQuota") if objects.lease_namespaces else ():
        hard = at(quota, "spec", "hard")
        if "scopes" in at(quota, "spec") or "scopeSelector" in at(quota, "spec"):
            yield ObjectProblem(quota, "it bounds only some of the pods")
        for name, resource in _QUOTA.items():
            bound = quantity(hard.get(name))
            if bound is None:
                yield ObjectProblem(quota, f"it has no bound of {name}")
            elif _all_replicas(objects, resource) > bound:
                yield ObjectProblem(quota, f"the workloads take more than its {name} of {hard.get(name)}")


def _all_replicas(objects: Objects, resource: str) -> Decimal:
    total = Decimal(0)
    for workload in objects.of_kinds(*_WORKLOADS):
        replicas = at(workload, "spec").get("replicas", 1)
        amount = _sum(workload, resource)
        total += (amount or 0) * (replicas if isinstance(replicas, int) and replicas > 0 else 1)
    return total


def _quota(objects: Objects) -> Iterator[ObjectProblem]:
    """A lease with workloads has a quota, the fence behind the limits of its containers."""
    spaces = {str(at(quota, "metadata").get("namespace")) for quota in objects.of_kinds("ResourceQuota")}
    for workload in objects.of_kinds(*_WORKLOADS):
        space = str(at(workload, "metadata").get("namespace"))
        if space in objects.lease_namespaces and space not in spaces:
            yield ObjectProblem(workload, "its namespace has no ResourceQuota")


def _requests(manifest: Manifest) -> Iterator[str]:
    for container in all_containers(manifest, LONG_RUNNING):
        yield from _above_limit(container)
    if pod_of(manifest).get("overhead") or pod_of(manifest).get("resources"):
        yield "the pod has amounts beside those of its containers"


def _above_limit(container: Mapping[str, Any]) -> Iterator[str]:
    limits = at(container, "resources", "limits")
    for name, value in at(container, "resources", "requests").items():
        wanted, bound = quantity(value), quantity(limits.get(name, value))
        if wanted is None or bound is None or wanted > bound:
            yield f"{named(container)} requests {value} of {name} with a limit of {limits.get(name)}"


def _limit_range(manifest: Manifest) -> Iterator[str]:
    for bound in items(at(manifest, "spec"), "limits"):
        for resource in ("cpu", "memory", "ephemeral-storage"):
            if not positive(at(bound, "default").get(resource)):
                yield f"it gives no limit of {resource} to a container without one"


RULES = (
    fence(
        "cpu-and-memory-limits",
        of_each(_without("cpu", "memory")),
        reason="A container without limits can use resources that other tenants pay for.",
        remedy="Set resources.limits.cpu and resources.limits.memory to the rented amounts.",
        severity=Severity.HIGH,
        domains=BOTH,
    ),
    fence(
        "ephemeral-storage-limit",
        of_each(_without("ephemeral-storage")),
        reason="A container without this limit can fill its node's disk.",
        remedy="Set resources.limits.ephemeral-storage.",
        severity=Severity.HIGH,
        form=2,
        domains=BOTH,
    ),
    fence(
        "within-reservation",
        _within_reservation,
        reason="What a lease takes beyond its reservation is sold to others.",
        remedy="Take the rented amounts.",
        scope=RuleScope.STACK,
        severity=Severity.HIGH,
    ),
    fence(
        "within-quota",
        _within_quota,
        reason="A quota below what its workloads take, or of a part of them, bounds nothing.",
        remedy="Bound limits.cpu, limits.memory and limits.ephemeral-storage of all pods by what is rented.",
        scope=RuleScope.STACK,
        severity=Severity.HIGH,
        form=2,
    ),
    fence(
        "quota",
        _quota,
        reason="The quota is the second fence: it holds when a workload asks for more than was sold.",
        remedy="Make a ResourceQuota of what the lease rents.",
        scope=RuleScope.STACK,
        severity=Severity.HIGH,
        form=2,
    ),
    fence(
        "requests-within-limits",
        of_each(_requests),
        reason="A request above its limit reserves what the container may not use.",
        remedy="Set requests to at most the limits.",
        severity=Severity.MEDIUM,
        domains=BOTH,
    ),
    fence(
        "default-limits",
        of_each(_limit_range, "LimitRange"),
        reason="A pod that a controller makes in the namespace has limits only by the LimitRange.",
        remedy="Give defaults of cpu, memory and ephemeral-storage.",
        severity=Severity.MEDIUM,
        form=2,
    ),
)
