"""The one table of query methods and the transports that serve each (recorded corrections 5 and 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Flag, auto

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
import grpc
from akash.audit.v1 import query_pb2 as apb
from akash.bme.v1 import query_pb2 as bpb
from akash.cert.v1 import query_pb2 as cpb
from akash.deployment.v1beta4 import query_pb2 as dpb
from akash.discovery.v1 import service_pb2 as discovery
from akash.escrow.v1 import query_pb2 as epb
from akash.market.v1beta5 import query_pb2 as mpb
from akash.oracle.v2 import query_pb2 as opb
from akash.provider.v1beta4 import query_pb2 as ppb
from cosmos.auth.v1beta1 import query_pb2 as auth
from cosmos.bank.v1beta1 import query_pb2 as bank
from cosmos.base.tendermint.v1beta1 import query_pb2 as tendermint
from cosmos.consensus.v1 import query_pb2 as consensus
from cosmos.tx.v1beta1 import service_pb2 as txs
from google.protobuf.message import DecodeError

from devnet.chain.errors import QueryRefused
from devnet.chain.query import akash, certificates, cosmos, market, money
from devnet.chain.query.view import Query
from devnet.chain.wire import Message, fill

__all__ = ["METHODS", "Method", "Query", "Transport", "Undecodable", "answer"]


class Transport(Flag):
    """The transports that serve a method."""

    ABCI = auto()
    GRPC = auto()
    BOTH = ABCI | GRPC


@dataclass(frozen=True, slots=True)
class Method:
    """A query method; `request` is its message class."""

    request: type[Message]
    handle: Callable[[Query, Message], Message]
    transports: Transport = Transport.BOTH


METHODS: dict[str, Method] = {
    "/akash.market.v1beta5.Query/Orders": Method(mpb.QueryOrdersRequest, market.orders),
    "/akash.market.v1beta5.Query/Order": Method(mpb.QueryOrderRequest, market.order),
    "/akash.market.v1beta5.Query/Bids": Method(mpb.QueryBidsRequest, market.bids),
    "/akash.market.v1beta5.Query/Bid": Method(mpb.QueryBidRequest, market.bid),
    "/akash.market.v1beta5.Query/Leases": Method(mpb.QueryLeasesRequest, market.leases),
    "/akash.market.v1beta5.Query/Lease": Method(mpb.QueryLeaseRequest, market.lease),
    "/akash.market.v1beta5.Query/Params": Method(mpb.QueryParamsRequest, market.params),
    "/akash.deployment.v1beta4.Query/Deployments": Method(dpb.QueryDeploymentsRequest, akash.deployments),
    "/akash.deployment.v1beta4.Query/Deployment": Method(dpb.QueryDeploymentRequest, akash.deployment),
    "/akash.deployment.v1beta4.Query/Group": Method(dpb.QueryGroupRequest, akash.group),
    "/akash.deployment.v1beta4.Query/Params": Method(dpb.QueryParamsRequest, akash.params),
    "/akash.escrow.v1.Query/Accounts": Method(epb.QueryAccountsRequest, akash.accounts),
    "/akash.escrow.v1.Query/Payments": Method(epb.QueryPaymentsRequest, akash.payments),
    "/akash.provider.v1beta4.Query/Providers": Method(ppb.QueryProvidersRequest, akash.providers),
    "/akash.provider.v1beta4.Query/Provider": Method(ppb.QueryProviderRequest, akash.provider),
    "/akash.audit.v1.Query/ProviderAttributes": Method(apb.QueryProviderAttributesRequest, akash.audited),
    "/akash.audit.v1.Query/ProviderAuditorAttributes": Method(apb.QueryProviderAuditorRequest, akash.audited_by),
    "/akash.audit.v1.Query/AuditorAttributes": Method(apb.QueryAuditorAttributesRequest, akash.all_audited),
    "/akash.audit.v1.Query/AllProvidersAttributes": Method(apb.QueryAllProvidersAttributesRequest, akash.all_audited),
    "/akash.cert.v1.Query/Certificates": Method(cpb.QueryCertificatesRequest, certificates.certificates),
    "/akash.bme.v1.Query/Params": Method(bpb.QueryParamsRequest, money.bme_params),
    "/akash.bme.v1.Query/Status": Method(bpb.QueryStatusRequest, money.mint_status),
    "/akash.bme.v1.Query/VaultState": Method(bpb.QueryVaultStateRequest, money.vault_state),
    "/akash.bme.v1.Query/LedgerRecords": Method(bpb.QueryLedgerRecordsRequest, money.ledger_records),
    "/akash.oracle.v2.Query/Params": Method(opb.QueryParamsRequest, money.oracle_params),
    "/akash.oracle.v2.Query/AggregatedPrice": Method(opb.QueryAggregatedPriceRequest, money.aggregated_price),
    "/akash.oracle.v2.Query/Prices": Method(opb.QueryPricesRequest, money.prices),
    "/akash.discovery.v1.Discovery/GetInfo": Method(discovery.GetInfoRequest, akash.discovery, Transport.GRPC),
    "/cosmos.auth.v1beta1.Query/Account": Method(auth.QueryAccountRequest, cosmos.account),
    "/cosmos.bank.v1beta1.Query/Balance": Method(bank.QueryBalanceRequest, cosmos.balance),
    "/cosmos.bank.v1beta1.Query/AllBalances": Method(bank.QueryAllBalancesRequest, cosmos.all_balances),
    "/cosmos.consensus.v1.Query/Params": Method(consensus.QueryParamsRequest, cosmos.consensus_params),
    "/cosmos.tx.v1beta1.Service/Simulate": Method(txs.SimulateRequest, cosmos.simulate),
    "/cosmos.tx.v1beta1.Service/GetTx": Method(txs.GetTxRequest, cosmos.get_tx),
    "/cosmos.tx.v1beta1.Service/BroadcastTx": Method(txs.BroadcastTxRequest, cosmos.broadcast, Transport.GRPC),
    "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock": Method(
        tendermint.GetLatestBlockRequest, cosmos.latest_block
    ),
    "/cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight": Method(
        tendermint.GetBlockByHeightRequest, cosmos.block_by_height
    ),
    "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo": Method(tendermint.GetNodeInfoRequest, cosmos.node_info),
    "/cosmos.base.tendermint.v1beta1.Service/GetSyncing": Method(tendermint.GetSyncingRequest, cosmos.syncing),
}


class Undecodable(QueryRefused):
    """The bytes are not a request of the method."""

    def __init__(self) -> None:
        super().__init__(grpc.StatusCode.INVALID_ARGUMENT, "unexpected EOF", plain=True)

    def grpc(self) -> tuple[grpc.StatusCode, str]:
        """The error of the transport itself."""
        return grpc.StatusCode.INTERNAL, f"grpc: error unmarshalling request: {self.text}"


def answer(query: Query, method: Method, request: bytes) -> bytes:
    """The bytes of the reply as Go writes them. Raises `QueryRefused`."""
    try:
        asked = method.request.FromString(request)
    except DecodeError:
        raise Undecodable from None
    return bytes(fill(method.handle(query, asked)).SerializeToString())
