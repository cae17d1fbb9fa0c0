"""The tenant: publishes an SDL, waits for bids, takes one, sends the manifest, updates it, closes the deployment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import akash  # noqa: F401
import grpc.aio
from akash.cert.v1.query_pb2 import QueryCertificatesRequest
from akash.cert.v1.query_pb2_grpc import QueryStub as CertificateQuery
from akash.deployment.v1.types_pb2 import DeploymentID
from akash.deployment.v1beta4.query_pb2 import QueryDeploymentRequest
from akash.deployment.v1beta4.query_pb2_grpc import QueryStub as DeploymentQuery
from akash.market.v1.query_pb2 import LeaseFilters
from akash.market.v1beta5.query_pb2 import (
    BidFilters,
    OrderFilters,
    QueryBidsRequest,
    QueryLeasesRequest,
    QueryOrdersRequest,
)
from akash.market.v1beta5.query_pb2_grpc import QueryStub as MarketQuery
from akash.provider.v1beta4.query_pb2 import QueryProviderRequest
from akash.provider.v1beta4.query_pb2_grpc import QueryStub as ProviderQuery

from devnet.errors import DevnetError
from devnet.tenant import messages
from devnet.tenant.account import Account
from devnet.tenant.gateway import GatewayAnswer, ProviderGateway
from lease.ids import DeploymentId, LeaseId, OrderId
from lease.manifest_json import manifest_json
from lease.sdl import Sdl

__all__ = ["OpenBid", "Tenant"]

_DEPOSIT = (5_000_000, "uact")
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class OpenBid:
    """An open bid; `price` is that of a block for the whole group."""

    id: LeaseId
    price: Decimal
    denom: str


class Tenant:
    """One tenant with its account. Every wait ends with a `DevnetError` that names what is missing."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._channel = grpc.aio.insecure_channel(account.grpc)
        self._last_dseq = 0

    async def close(self) -> None:
        await self._channel.close(None)

    async def publish(self, sdl: Sdl, *, deposit: tuple[int, str] = _DEPOSIT) -> DeploymentId:
        """Create a deployment from `sdl`; raises `ChainRefused`."""
        deployment = DeploymentId(self.account.address, self._next_dseq())
        message = messages.create_deployment(deployment, groups=sdl.groups, version=sdl.version, deposit=deposit)
        await self.account.send([message])
        return deployment

    async def bids(self, deployment: DeploymentId, *, state: str = "open") -> Sequence[OpenBid]:
        filters = BidFilters(owner=deployment.owner, dseq=deployment.dseq, state=state)
        answer = await MarketQuery(self._channel).Bids(QueryBidsRequest(filters=filters), timeout=10)
        return [_open_bid(item.bid) for item in answer.bids]

    async def orders(self, deployment: DeploymentId, *, state: str = "open") -> Sequence[OrderId]:
        filters = OrderFilters(owner=deployment.owner, dseq=deployment.dseq, state=state)
        answer = await MarketQuery(self._channel).Orders(QueryOrdersRequest(filters=filters), timeout=10)
        return [OrderId(o.id.owner, o.id.dseq, o.id.gseq, o.id.oseq) for o in answer.orders]

    async def leases(self, deployment: DeploymentId, *, state: str = "active") -> Sequence[LeaseId]:
        filters = LeaseFilters(owner=deployment.owner, dseq=deployment.dseq, state=state)
        answer = await MarketQuery(self._channel).Leases(QueryLeasesRequest(filters=filters), timeout=10)
        return [_lease_id(item.lease.id) for item in answer.leases]

    async def wait_for_bids(
        self, deployment: DeploymentId, *, groups: int = 1, seconds: float = 60
    ) -> Sequence[OpenBid]:
        """Wait for an open bid for each of `groups` groups."""
        deadline = time.monotonic() + seconds
        while True:
            found = {bid.id.gseq: bid for bid in await self.bids(deployment)}
            if len(found) >= groups:
                return [found[gseq] for gseq in sorted(found)]
            if time.monotonic() > deadline:
                raise DevnetError(
                    f"only {len(found)} of {groups} groups of {deployment} have a bid after {seconds:.0f} s"
                )
            await asyncio.sleep(_POLL_S)

    async def take(self, bids: Sequence[OpenBid]) -> Sequence[LeaseId]:
        """Accept `bids`, which become leases."""
        await self.account.send([messages.create_lease(bid.id) for bid in bids])
        return [bid.id for bid in bids]

    async def gateway(self, provider: str) -> ProviderGateway:
        """The gateway at the address in the provider's on-chain record."""
        answer = await ProviderQuery(self._channel).Provider(QueryProviderRequest(owner=provider), timeout=10)

        async def published(serial: int) -> bool:
            request = QueryCertificatesRequest()
            request.filter.owner, request.filter.serial, request.filter.state = provider, str(serial), "valid"
            return bool((await CertificateQuery(self._channel).Certificates(request, timeout=10)).certificates)

        return ProviderGateway(answer.provider.host_uri, provider=provider, account=self.account, published=published)

    async def send_manifest(self, lease: LeaseId, sdl: Sdl, *, seconds: float = 30) -> GatewayAnswer:
        """PUT the manifest. Repeat it while the provider has not seen the lease (404 `no lease for deployment`)."""
        gateway = await self.gateway(lease.provider)
        deadline = time.monotonic() + seconds
        while True:
            answer = await gateway.put_manifest(lease.dseq, manifest_json(sdl.manifest).encode())
            if "no lease for deployment" not in answer.body or time.monotonic() > deadline:
                return answer
            await asyncio.sleep(_POLL_S)

    async def announce_update(self, deployment: DeploymentId, sdl: Sdl) -> None:
        """Publish the manifest hash of `sdl` on the chain, unless it is there already."""
        query = QueryDeploymentRequest(id=DeploymentID(owner=deployment.owner, dseq=deployment.dseq))
        answer = await DeploymentQuery(self._channel).Deployment(query, timeout=10)
        if answer.deployment.hash != sdl.version:
            await self.account.send([messages.update_deployment(deployment, sdl.version)])

    async def close_deployment(self, deployment: DeploymentId) -> None:
        await self.account.send([messages.close_deployment(deployment)])

    async def close_lease(self, lease: LeaseId) -> None:
        await self.account.send([messages.close_lease(lease)])

    def _next_dseq(self) -> int:
        """A new, increasing number. Clients use the height, which two deployments of one block would share."""
        self._last_dseq = max(self._last_dseq + 1, int(time.time() * 1000))
        return self._last_dseq


def _lease_id(message: object) -> LeaseId:
    return LeaseId(*(getattr(message, name) for name in ("owner", "dseq", "gseq", "oseq", "provider")))


def _open_bid(bid: object) -> OpenBid:
    price = bid.price  # type: ignore[attr-defined]
    return OpenBid(_lease_id(bid.id), Decimal(price.amount).scaleb(-18), price.denom)  # type: ignore[attr-defined]
