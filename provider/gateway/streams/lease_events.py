"""The Kubernetes events of a lease, in the form of the Go provider (gateway.md §3.8)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from typing import Any

from lease.go_json import go_json
from provider.protocols import Cluster
from provider.protocols.cluster import EVENT

__all__ = ["event_json", "lease_events", "service_of_object"]


async def lease_events(
    cluster: Cluster,
    namespace: str,
    *,
    follow: bool,
    services: Collection[str] | None,
    every_service: Collection[str],
    kept: Sequence[Mapping[str, Any]] = (),
) -> AsyncGenerator[bytes]:
    """The events that exist, one JSON document and a line feed each; with `follow`, also those that come, for ever.
    `services`: only events about objects of these; `every_service`: the services of the lease. `kept`: what happened
    before; of these, what the API server does not have comes first. Raises `ClusterError`.
    """

    def wanted(event: Mapping[str, Any]) -> bool:
        name = str((event.get("regarding") or {}).get("name", ""))
        return services is None or service_of_object(name, every_service) in services

    existing = await cluster.list(EVENT, namespace=namespace) if kept or not follow else []
    shown = {event_json(event) for event in existing}
    for event in kept:
        if wanted(event) and event_json(event) not in shown:
            yield event_json(event)
    if not follow:
        for event in existing:
            if wanted(event):
                yield event_json(event)
        return
    async for change in cluster.watch(EVENT, namespace=namespace):
        if change.type != "DELETED" and wanted(change.object):
            yield event_json(change.object)


def service_of_object(name: str, services: Collection[str]) -> str:
    """The service to whose name an object's name belongs, empty for none: events have no label, but the names of
    workloads, pods, claims and routes begin with the service, and of several such services the longest counts.
    """
    return max((each for each in services if name == each or name.startswith(f"{each}-")), key=len, default="")


def event_json(event: Mapping[str, Any]) -> bytes:
    """The event as a document of the stream; empty reporters are left out."""
    regarding = event.get("regarding") or {}
    reporter = {name: event.get(name) or "" for name in ("reportingController", "reportingInstance")}
    document = {
        "type": event.get("type") or "",
        **{name: value for name, value in reporter.items() if value},
        "reason": event.get("reason") or "",
        "note": event.get("note") or "",
        "object": {part: regarding.get(part) or "" for part in ("kind", "namespace", "name")},
    }
    return go_json(document).encode(errors="replace") + b"\n"
