"""The IP operator's process: it watches the claims on leased addresses and serves their state and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog
from aiohttp import web
from akash.lessor.v1 import operator_pb2

from lease.ids import namespace_name
from provider.claims.leased_ips import AddressClaim
from provider.claims.pools import is_lease_pool, list_pools
from provider.errors import ClusterError
from provider.inventory.address_pools import address_pool, leasable_addresses, outside_addresses
from provider.operators.ignore_list import IgnoreList
from provider.operators.ip.state import AddressState, PendingAddressError, lease_in, lease_status
from provider.operators.prepared import Barrier, PreparedBodies, json_body, operator_app
from provider.operators.process import News, OperatorOptions, Watched, listening, operator_methods, repeat, watch
from provider.protocols import Clock, Cluster
from provider.protocols.cluster import PROVIDER_LEASED_IP, SERVICE
from provider.settings import Settings

__all__ = ["IpOperator"]

_STATE, _USAGE, _IGNORED = "/state", "/usage", "/ignored-leases"
_LEASE_STATUS = "/ip-lease-status/{owner}/{dseq}/{gseq}/{oseq}"
_ON_ADDRESSES = {"akash.network": "true", "akash.network/service-target": "metal-lb"}
_USAGE_S = 60.0
_MOST = 2**63 - 1
_log = structlog.get_logger(__name__)


class IpOperator:
    """`await operator.run()` until cancelled. `provider`: the account whose leases `/ip-lease-status` is about."""

    def __init__(
        self,
        settings: Settings,
        cluster: Cluster,
        clock: Clock,
        *,
        provider: str,
        version: Mapping[str, Any],
        options: OperatorOptions,
    ) -> None:
        self._settings = settings
        self._options = options
        self._cluster = cluster
        self._clock = clock
        self._provider = provider
        self.bodies = PreparedBodies(clock)
        self.barrier = Barrier(clock)
        self.ignored: IgnoreList = IgnoreList(options.limits, clock)
        self.news = News(self.bodies, _STATE, _USAGE, _IGNORED)
        self.state = AddressState(clock, self.news)
        self.bodies.add(_STATE, lambda: json_body(self.state.document()))
        self.bodies.add(_USAGE, lambda: json_body(self.state.usage()))
        self.bodies.add(_IGNORED, lambda: json_body(self.ignored.document()))
        self.app = operator_app(self.bodies, version, barrier=self.barrier)
        self.app.router.add_get(_LEASE_STATUS, self._lease_status)
        self.ports = (0, 0)

    async def run(self) -> None:
        """Observe the cluster and serve. Raises `SettingsError` for a port that is taken."""
        watched = [Watched(PROVIDER_LEASED_IP, self._settings.manifest_namespace, self.state.take_claim)]
        methods = operator_methods(self.message, self.ignored, self.news)
        self.news()
        async with listening(self._options, self.app, methods) as self.ports, asyncio.TaskGroup() as group:
            _log.info("ip.listening", http=self.ports[0], grpc=self.ports[1])
            group.create_task(watch(self._cluster, watched, barrier=self.barrier))
            group.create_task(repeat(self._clock, _USAGE_S, self.count))
            group.create_task(repeat(self._clock, self._options.refresh_s, self.refresh))
            group.create_task(repeat(self._clock, self._options.prune_s, self.prune))

    async def refresh(self) -> None:
        self.bodies.prepare_all()

    async def prune(self) -> None:
        if self.ignored.prune():
            self.news()

    async def count(self) -> None:
        """Count the addresses that can be leased at all: those of the ranges that no pool of somebody else holds, and
        those of the pools that the settings name.
        """
        settings = self._settings
        try:
            pools = await list_pools(self._cluster, namespace=settings.metallb_namespace)
            services = await self._cluster.list(SERVICE) if settings.ip_pools else ()
        except ClusterError as error:
            _log.warning("ip.pools_unreadable", problem=str(error))
            return
        others = [address_pool(obj) for obj in pools if not is_lease_pool(obj)]
        outside = frozenset[str]().union(*(outside_addresses(service) or () for service in services))
        count, _ = leasable_addresses(others, ranges=settings.ip_ranges, names=settings.ip_pools, outside=outside)
        self.state.set_total(min(_MOST, max(0, count)))
        self.bodies.prepare_all()

    async def _lease_status(self, request: web.Request) -> web.StreamResponse:
        try:
            lease = lease_in(request.match_info, self._provider)
        except ValueError:
            return web.Response(status=404)
        try:
            found = await self._cluster.list(SERVICE, namespace=namespace_name(lease), labels=_ON_ADDRESSES)
            items = lease_status(found)
        except (ClusterError, PendingAddressError) as error:
            return web.Response(status=500, body=json_body({"Error": str(error), "Code": -1}))
        return web.Response(body=json_body(items)) if items else web.Response(status=204)

    def message(self) -> operator_pb2.State:
        """The state for gRPC."""
        claims = [self.state.claims[name][0] for name in sorted(self.state.claims)]
        return operator_pb2.State(operator="ip", claims=[_claim(claim) for claim in claims])


def _claim(claim: AddressClaim) -> operator_pb2.Claim:
    return operator_pb2.Claim(
        name=claim.name,
        lease=str(claim.lease),
        namespace=namespace_name(claim.lease),
        service=claim.service,
        external_port=claim.external_port,
        sequence=claim.move.sequence,
        migrates_from=str(claim.move.source or ""),
        address=claim.address,
        sharing_key=claim.key,
    )
