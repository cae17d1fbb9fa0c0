"""The backends of the API server, followed while the provider runs: the network policies of services that may ask it
name each of them, and a control plane gets other machines without a restart of the provider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from lease.spec import ClusterFacts
from provider.daemon.lease_specs import api_server_endpoints, outside_closed_ranges
from provider.errors import ClusterError, SettingsError
from provider.protocols import Clock, Cluster
from provider.settings import Settings

__all__ = ["Backends", "follow_backends"]

_EVERY_S = 30.0
_FORGET_S = 600.0
"""A backend that restarts is away for a moment: its policies stay for that time."""
_log = structlog.get_logger(__name__)


class Backends:
    """The endpoints that count now: those of the last answer, and those that were in one ten minutes ago or later."""

    def __init__(self, endpoints: Iterable[str], *, now: float) -> None:
        self._seen = dict.fromkeys(endpoints, now)

    def saw(self, endpoints: Iterable[str], *, now: float) -> tuple[str, ...]:
        """Note an answer. Returns the endpoints that count, in the order in which they were first seen."""
        self._seen |= dict.fromkeys(endpoints, now)
        self._seen = {endpoint: at for endpoint, at in self._seen.items() if now - at < _FORGET_S}
        return tuple(self._seen)


async def follow_backends(
    settings: Settings, cluster: Cluster, facts: ClusterFacts, *, clock: Clock, changed: Callable[[ClusterFacts], None]
) -> None:
    """Call `changed` with new facts whenever other backends count. Runs until cancelled; returns at once where the
    settings name the endpoints, or no network policies are made.
    """
    if settings.api_server_endpoints or not settings.network_policies:
        return
    backends = Backends(facts.api_server_endpoints, now=clock.monotonic())
    while True:
        await clock.sleep(_EVERY_S)
        try:
            found = backends.saw(await api_server_endpoints(cluster), now=clock.monotonic())
        except (ClusterError, SettingsError):
            continue  # none at all is no answer: tenants keep the way that they have
        if set(found) != set(facts.api_server_endpoints):
            _log.info("daemon.api_server_backends", backends=found, before=facts.api_server_endpoints)
            facts = _with_backends(facts, found, closed=settings.closed_ranges)
            changed(facts)


def _with_backends(facts: ClusterFacts, endpoints: tuple[str, ...], *, closed: Iterable[str]) -> ClusterFacts:
    """The addresses of the backends are closed to all other tenants, as the provider's own."""
    addresses = [endpoint.rpartition(":")[0].strip("[]") for endpoint in endpoints]
    own = outside_closed_ranges((*facts.own_addresses, *addresses), closed)
    return facts.model_copy(update={"api_server_endpoints": endpoints, "own_addresses": own})
