"""Queries of `bme` and `oracle` (chain.md §5). Filters of their lists and the keys of further pages were not recorded:
those are not heeded, these our own.
"""

from __future__ import annotations

import grpc
from akash.bme.v1 import query_pb2 as bpb
from akash.bme.v1.types_pb2 import MintStatus
from akash.bme.v1.types_pb2 import Params as BmeParams
from akash.bme.v1.types_pb2 import State as Vault
from akash.oracle.v2 import query_pb2 as opb
from akash.oracle.v2.types_pb2 import Params as OracleParams
from cosmos.base.v1beta1.coin_pb2 import Coin
from google.protobuf.duration_pb2 import Duration

from devnet.chain import bme
from devnet.chain.bank import balance
from devnet.chain.errors import QueryRefused
from devnet.chain.keys import module_address
from devnet.chain.query.paging import sdk_page
from devnet.chain.query.view import Query
from devnet.chain.wire import PRECISION, Message

__all__ = [
    "aggregated_price",
    "bme_params",
    "ledger_records",
    "mint_status",
    "oracle_params",
    "prices",
    "vault_state",
]

_INVALID, _UNKNOWN = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNKNOWN
_WARN_BPS, _HALT_BPS = 9500, 9000
_BASIS_POINT = PRECISION // 10_000
_MISSING = "collections: not found: key '{denom}/usd' of type <module>/akash.oracle.v2.{kind}"
_BEFORE_1970 = 1 << 40
_DENOMS = ("uact", "uakt")


def bme_params(query: Query, request: Message) -> Message:
    params = BmeParams(
        circuit_breaker_warn_threshold=_WARN_BPS,
        circuit_breaker_halt_threshold=_HALT_BPS,
        min_epoch_blocks=bme.EPOCH_BLOCKS,
        epoch_blocks_backoff_percent=10,
        mint_spread_bps=25,
        max_endblocker_records=50,
        min_mint=[Coin(denom="uact", amount=str(bme.MIN_MINT))],
        max_pending_attempts=3,
    )
    return bpb.QueryParamsResponse(params=params)


def mint_status(query: Query, request: Message) -> Message:
    """Refuse the query before the first price."""
    if query.state.get("oracle_health", ("akt",)) is None:
        text = f"{_MISSING.format(denom='akt', kind='PriceHealth')}: price stalled"
        raise QueryRefused(_UNKNOWN, text, plain=True)
    status = bme.status_of(query.state)
    return bpb.QueryStatusResponse(
        status=MintStatus.Name(status),
        collateral_ratio="0",
        warn_threshold=str(_WARN_BPS * _BASIS_POINT),
        halt_threshold=str(_HALT_BPS * _BASIS_POINT),
        refunds_allowed=status == MintStatus.mint_status_halt_cr,
    )


def vault_state(query: Query, request: Message) -> Message:
    """The balances: in uact the whole supply, in uakt that of the vault."""
    supply = sum(amount for key, amount in query.state.items("balance") if key[1] == "uact")
    held = {"uact": supply, "uakt": balance(query.state, module_address("bme"), "uakt")}
    totals = {
        f"total_{what}": _coins({denom: bme.total(query.state, what, denom) for denom in _DENOMS})
        for what in ("burned", "minted")
    }
    vault = Vault(
        balances=_coins({denom: amount for denom, amount in held.items() if amount}),
        remint_credits=_coins({"uakt": 0}),
        **totals,
    )
    return bpb.QueryVaultStateResponse(vault_state=vault)


def _coins(amounts: dict[str, int]) -> list[Message]:
    return [Coin(denom=denom, amount=str(amount)) for denom, amount in amounts.items()]


def ledger_records(query: Query, request: Message) -> Message:
    rows = [row for _, row in query.state.items("bme_record")]
    shown, pagination = sdk_page(rows, request, lambda row: _key(row.id.height, row.id.sequence))
    return bpb.QueryLedgerRecordsResponse(records=shown, pagination=pagination)


def _key(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(8, "big") for number in numbers)


def oracle_params(query: Query, request: Message) -> Message:
    params = OracleParams(
        sources=query.genesis.oracle_sources,
        min_price_sources=1,
        max_price_staleness_period=Duration(seconds=query.genesis.price_staleness_seconds),
        twap_window=Duration(seconds=5),
        max_price_deviation_bps=150,
        price_retention=Duration(seconds=86_400),
        prune_epoch="hour",
        max_prune_per_epoch=1000,
        max_future_time_drift=Duration(seconds=10),
    )
    return opb.QueryParamsResponse(params=params)


def aggregated_price(query: Query, request: Message) -> Message:
    found = query.state.get("oracle_aggregate", (request.denom,))
    if found is None:
        text = _MISSING.format(denom=request.denom, kind="AggregatedPrice")
        raise QueryRefused(_INVALID, text, plain=True)
    health = query.state.get("oracle_health", (request.denom,))
    return opb.QueryAggregatedPriceResponse(aggregated_price=found, price_health=health)


def prices(query: Query, request: Message) -> Message:
    rows = [row for _, row in query.state.items("oracle_price")]
    shown, pagination = sdk_page(rows, request, _price_key)
    return opb.QueryPricesResponse(prices=shown, pagination=pagination)


def _price_key(row: Message) -> bytes:
    return _key(row.id.timestamp.seconds + _BEFORE_1970, row.id.timestamp.nanos, row.id.source)
