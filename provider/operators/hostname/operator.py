"""The hostname operator's process: it watches claims and manifests, checks hostnames, and serves what it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from akash.lessor.v1 import operator_pb2

from lease.ids import namespace_name
from provider.claims.edge import asking
from provider.claims.hostnames import HostnameClaim
from provider.errors import ClusterError
from provider.operators.hostname.health import EdgeChecks, check_health, health_status
from provider.operators.hostname.resolver import SystemResolver
from provider.operators.hostname.state import HostnameState
from provider.operators.ignore_list import IgnoreList
from provider.operators.prepared import PreparedBodies, json_body, operator_app
from provider.operators.process import News, OperatorOptions, Watched, listening, operator_methods, repeat, watch
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import MANIFEST, PROVIDER_HOST
from provider.settings import Settings

__all__ = ["HostnameOperator", "edge_checks"]

_MANAGED, _IGNORED = "/managed-hostnames", "/ignore-list"
_CHECKS_AT_ONCE = 8
_log = structlog.get_logger(__name__)


def edge_checks(settings: Settings) -> EdgeChecks:
    """What the settings allow a check to ask."""
    return EdgeChecks(
        SystemResolver(),
        settings.edge_addresses,
        asking(settings.edge_endpoint),
        asking(settings.edge_tls_endpoint, tls=True),
    )


class HostnameOperator:
    """`await operator.run()` until cancelled. `check_s`: seconds between two checks of each hostname, 0 for none."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        clock: Clock,
        *,
        version: Mapping[str, Any],
        checks: EdgeChecks,
        options: OperatorOptions,
        check_s: float = 300.0,
    ) -> None:
        self._settings = settings
        self._options = options
        self._cluster = cluster
        self._clock = clock
        self._checks = checks
        self._check_s = check_s
        self._health: dict[str, tuple[HostnameClaim, Mapping[str, Any]]] = {}
        self.bodies = PreparedBodies(clock)
        self.ignored: IgnoreList = IgnoreList(options.limits, clock)
        self.news = News(self.bodies, _MANAGED, _IGNORED)
        self.state = HostnameState(clock, self.ignored, self.news)
        self.bodies.add(_MANAGED, lambda: json_body(self.state.document()))
        self.bodies.add(_IGNORED, lambda: json_body(self.ignored.document()))
        self.app = operator_app(self.bodies, version)
        self.ports = (0, 0)

    async def run(self) -> None:
        """Observe the cluster and serve. Raises `SettingsError` for a port that is taken."""
        records = self._settings.manifest_namespace
        methods = operator_methods(self.message, self.ignored, self.news)
        watched = [
            Watched(MANIFEST, records, self.state.take_manifest),
            Watched(PROVIDER_HOST, records, self.state.take_claim),
        ]
        async with listening(self._options, self.app, methods) as self.ports, asyncio.TaskGroup() as group:
            _log.info("hostname.listening", http=self.ports[0], grpc=self.ports[1])
            group.create_task(watch(self._cluster, watched))
            group.create_task(repeat(self._clock, self._options.refresh_s, self.refresh))
            group.create_task(repeat(self._clock, self._options.prune_s, self.prune))
            if self._check_s:
                group.create_task(repeat(self._clock, self._check_s, self.check_all))

    async def refresh(self) -> None:
        self.bodies.prepare_all()

    async def prune(self) -> None:
        if self.ignored.prune():
            self.news()

    async def check_all(self) -> None:
        """Check every hostname once, and write what is new into the status of its claim."""
        turn = asyncio.Semaphore(_CHECKS_AT_ONCE)

        async def check(claim: HostnameClaim) -> None:
            async with turn:
                await self._check(claim)

        for name in self._health.keys() - self.state.claims.keys():
            del self._health[name]
        await asyncio.gather(*(check(claim) for claim in list(self.state.claims.values())))

    async def _check(self, claim: HostnameClaim) -> None:
        health = await check_health(claim.hostname, self._checks)
        namespace, sequence = self._settings.manifest_namespace, claim.move.sequence
        wanted = health_status(claim.hostname, health, namespace=namespace, sequence=sequence)
        if self._health.get(claim.hostname) == (claim, wanted):
            return  # a write wakes everybody who watches the claim
        try:
            await self._cluster.apply(wanted, status=True)
        except ClusterError as error:
            if error.status != 404:
                _log.warning("hostname.status_not_written", hostname=claim.hostname, problem=str(error))
            return
        if health.message and self._health.get(claim.hostname, (None, {}))[1] != wanted:
            _log.warning("hostname.unhealthy", hostname=claim.hostname, problem=health.message)
        self._health[claim.hostname] = (claim, wanted)
        self.news()

    def message(self) -> operator_pb2.State:
        """The state for gRPC: every claim, also one whose manifest is missing."""
        return operator_pb2.State(operator="hostname", claims=[self._claim(one) for one in self._sorted()])

    def _sorted(self) -> list[HostnameClaim]:
        return [self.state.claims[name] for name in sorted(self.state.claims)]

    def _claim(self, claim: HostnameClaim) -> operator_pb2.Claim:
        status = self._health.get(claim.hostname, (None, {}))[1].get("status") or {}
        return operator_pb2.Claim(
            name=claim.hostname,
            lease=str(claim.lease),
            namespace=namespace_name(claim.lease),
            service=claim.service,
            external_port=claim.external_port,
            sequence=claim.move.sequence,
            migrates_from=str(claim.move.source or ""),
            health=str(status.get("state") or ""),
            message=str(status.get("message") or ""),
        )
