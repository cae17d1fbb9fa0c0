"""Maintenance in the running provider: the state of the home's file, and what the tenant of a lease reads of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from lease.ids import LeaseId, namespace_name
from provider.inventory.watcher import InventoryWatcher
from provider.maintenance import Maintenance, watched_maintenance
from provider.protocols import Clock

__all__ = ["followed_maintenance", "maintenance_text"]

_log = structlog.get_logger("lessor")


def followed_maintenance(home: Path, clock: Clock) -> Callable[[], Maintenance]:
    """A function that returns what holds now. A file that cannot be read is an error in the log, once."""
    return watched_maintenance(home, now=clock.now, problem=_log_problem)


def maintenance_text(maintenance: Callable[[], Maintenance], inventory: InventoryWatcher) -> Callable[[LeaseId], str]:
    """What a tenant reads of maintenance that concerns the lease."""

    def text(lease: LeaseId) -> str:
        state = maintenance()
        if not state.nodes:
            return state.tenants()
        namespace = namespace_name(lease)
        return state.tenants(pod.node for pod in inventory.inventory.pods if pod.namespace == namespace)

    return text


def _log_problem(problem: str) -> None:
    _log.error("maintenance.unreadable", problem=problem, remedy="remove the file, then `lessor drain` again")
