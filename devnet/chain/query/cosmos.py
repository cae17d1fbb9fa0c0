"""Queries of the SDK's own modules that clients need: accounts, balances, transactions, blocks."""

from __future__ import annotations

import binascii

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
import grpc
from cosmos.auth.v1beta1 import query_pb2 as auth
from cosmos.auth.v1beta1.auth_pb2 import BaseAccount, ModuleAccount
from cosmos.bank.v1beta1 import query_pb2 as bank_pb
from cosmos.base.abci.v1beta1.abci_pb2 import TxMsgData, TxResponse
from cosmos.base.tendermint.v1beta1 import query_pb2 as tm
from cosmos.base.v1beta1.coin_pb2 import Coin
from cosmos.consensus.v1 import query_pb2 as consensus
from cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmos.tx.v1beta1 import service_pb2 as txs
from cosmos.tx.v1beta1.tx_pb2 import AuthInfo, Tx, TxBody, TxRaw
from cosmos.vesting.v1beta1 import vesting_pb2 as vesting
from google.protobuf.any_pb2 import Any as Packed
from tendermint.abci import types_pb2 as abci

from devnet.chain import bank
from devnet.chain.ante import ANTE_GAS
from devnet.chain.app import TxResult
from devnet.chain.blocks import NODE_VERSION, Block, tx_hash
from devnet.chain.errors import QueryRefused, Refused
from devnet.chain.events import Event
from devnet.chain.keys import bech32_complaint, valid_address
from devnet.chain.query.paging import sdk_page
from devnet.chain.query.view import Query
from devnet.chain.wire import Message

__all__ = [
    "account",
    "all_balances",
    "balance",
    "block_by_height",
    "broadcast",
    "consensus_params",
    "get_tx",
    "latest_block",
    "node_info",
    "simulate",
    "syncing",
]

_NOT_FOUND, _INVALID = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT
_BLOCK_NS = 10**9
_VESTING = {
    "continuous": vesting.ContinuousVestingAccount,
    "delayed": vesting.DelayedVestingAccount,
    "periodic": vesting.PeriodicVestingAccount,
    "locked": vesting.PermanentLockedAccount,
}
_MAX_BLOCK_BYTES = 22_020_096


def account(query: Query, request: Message) -> Message:
    if not request.address:
        raise QueryRefused(_INVALID, "Address cannot be empty")
    if not valid_address(request.address):
        raise QueryRefused(_INVALID, f"decoding bech32 failed: {bech32_complaint(request.address)}", plain=True)
    row = bank.account(query.state, request.address)
    if row is None:
        raise QueryRefused(_NOT_FOUND, f"account {request.address} not found")
    base = BaseAccount(address=row.address, account_number=row.number, sequence=row.sequence)
    if row.public_key:
        base.pub_key.Pack(PubKey(key=row.public_key), type_url_prefix="/")
    return auth.QueryAccountResponse(account=_pack(_of_kind(row.kind, base)))


def _of_kind(kind: str, base: BaseAccount) -> Message:
    """The account around its base account."""
    if not kind:
        return base
    if kind == "module":
        return ModuleAccount(base_account=base, name="module")
    return _VESTING[kind](base_vesting_account=vesting.BaseVestingAccount(base_account=base))


def _pack(message: Message) -> Message:
    return Packed(type_url=f"/{message.DESCRIPTOR.full_name}", value=message.SerializeToString())


def _checked(address: str) -> str:
    if not valid_address(address):
        raise QueryRefused(_INVALID, f"invalid address: decoding bech32 failed: {bech32_complaint(address)}")
    return address


def balance(query: Query, request: Message) -> Message:
    if not request.denom:
        raise QueryRefused(_INVALID, "invalid denom: ")
    amount = bank.balance(query.state, _checked(request.address), request.denom)
    return bank_pb.QueryBalanceResponse(balance=Coin(denom=request.denom, amount=str(amount)))


def all_balances(query: Query, request: Message) -> Message:
    held = bank.balances(query.state, _checked(request.address))
    coins = [Coin(denom=denom, amount=str(amount)) for denom, amount in held.items()]
    rows, pagination = sdk_page(coins, request, lambda coin: str(coin.denom).encode())
    return bank_pb.QueryAllBalancesResponse(balances=rows, pagination=pagination)


def simulate(query: Query, request: Message) -> Message:
    data = request.tx_bytes or _encoded(request.tx)
    if not data:
        raise QueryRefused(_INVALID, "empty txBytes is not allowed")
    try:
        result = query.node.simulate(data)
    except Refused as refused:
        raise QueryRefused(grpc.StatusCode.UNKNOWN, _simulation_text(refused, data)) from None
    response = txs.SimulateResponse()
    response.gas_info.gas_wanted, response.gas_info.gas_used = result.gas_wanted, result.gas_used
    response.result.data = result.data or b""
    response.result.events.extend(_event(event, index=False) for event in result.events)
    response.result.msg_responses.extend(TxMsgData.FromString(result.data or b"").msg_responses)
    return response


def _simulation_text(refused: Refused, data: bytes) -> str:
    """Errors of the ante chain and of messages name their place in the source, which the simulation does not know."""
    if refused.log.startswith("recovered:"):
        return refused.log
    place = " [<source>]" if refused.located else ""
    return f"{refused.log}{place} with gas used: '{ANTE_GAS + len(data)}'"


def _encoded(tx: Message) -> bytes:
    """The bytes of a transaction given as a message (the deprecated field that cosmpy still uses)."""
    if not tx.HasField("body"):
        return b""
    body, auth_info = tx.body.SerializeToString(), tx.auth_info.SerializeToString()
    return bytes(TxRaw(body_bytes=body, auth_info_bytes=auth_info, signatures=tx.signatures).SerializeToString())


def _event(event: Event, *, index: bool = True) -> Message:
    attributes = [abci.EventAttribute(key=key, value=value, index=index) for key, value in event.attributes]
    return abci.Event(type=event.type, attributes=attributes)


def get_tx(query: Query, request: Message) -> Message:
    if not request.hash:
        raise QueryRefused(_INVALID, "tx hash cannot be empty")
    try:
        binascii.unhexlify(request.hash)
    except ValueError:
        raise QueryRefused(_INVALID, _hex_complaint(request.hash), plain=True) from None
    found = query.node.blocks.tx(request.hash)
    if found is None:
        raise QueryRefused(_NOT_FOUND, f"tx not found: {request.hash}")
    height, _, data, result = found
    raw = TxRaw.FromString(data)
    body, auth_info = TxBody.FromString(raw.body_bytes), AuthInfo.FromString(raw.auth_info_bytes)
    tx = Tx(body=body, auth_info=auth_info, signatures=raw.signatures)
    response = _tx_response(data, result, height)
    block = query.block(height)
    response.timestamp = _seconds(block) if block else ""
    response.tx.CopyFrom(_pack(tx))
    return txs.GetTxResponse(tx=tx, tx_response=response)


def _hex_complaint(text: str) -> str:
    wrong = next((char for char in text if char not in "0123456789abcdefABCDEF"), "")
    return (
        f"encoding/hex: invalid byte: U+{ord(wrong):04X} {wrong!r}" if wrong else "encoding/hex: odd length hex string"
    )


def _seconds(block: Block) -> str:
    return str(block.header_json()["time"]).split(".", 1)[0].removesuffix("Z") + "Z"


def _tx_response(data: bytes, result: TxResult, height: int) -> Message:
    response = TxResponse(
        height=height,
        txhash=tx_hash(data),
        codespace=result.codespace,
        code=result.code,
        data=(result.data or b"").hex().upper(),
        raw_log=result.log,
        gas_wanted=result.gas_wanted,
        gas_used=result.gas_used,
    )
    response.events.extend(_event(event) for event in result.events)
    return response


def broadcast(query: Query, request: Message) -> Message:
    """Sync and async: the result of the check; a repeated transaction gives `sdk` 19 here."""
    if request.mode not in (txs.BROADCAST_MODE_SYNC, txs.BROADCAST_MODE_ASYNC):
        text = "unsupported return type unspecified; supported types: sync, async"
        raise QueryRefused(grpc.StatusCode.UNKNOWN, text)
    result = query.node.broadcast(request.tx_bytes)
    bare = TxResult(result.code, result.codespace, result.log)
    return txs.BroadcastTxResponse(tx_response=_tx_response(request.tx_bytes, bare, 0))


def latest_block(query: Query, request: Message) -> Message:
    block = query.node.blocks.last
    if block is None:
        raise QueryRefused(grpc.StatusCode.INTERNAL, "no block yet")
    return _fill_block(tm.GetLatestBlockResponse(), block)


def block_by_height(query: Query, request: Message) -> Message:
    if request.height > query.node.blocks.height:
        raise QueryRefused(_INVALID, "requested block height is bigger then the chain length")
    block = query.block(request.height)
    if block is None:
        raise QueryRefused(grpc.StatusCode.INTERNAL, f"height {request.height} is not available")
    return _fill_block(tm.GetBlockByHeightResponse(), block)


def _fill_block(response: Message, block: Block) -> Message:
    response.block_id.hash = bytes.fromhex(block.hash)
    for part in (response.block, response.sdk_block):
        part.header.chain_id, part.header.height = block.chain_id, block.height
        part.header.time.seconds, part.header.time.nanos = divmod(block.time_ns, _BLOCK_NS)
        part.header.app_hash = bytes.fromhex(block.app_hash)
        part.header.data_hash = bytes.fromhex(block.data_hash)
        part.data.txs.extend(block.txs)
    return response


def consensus_params(query: Query, request: Message) -> Message:
    """Blocks have a size limit but no gas limit, as in the node's genesis (-1)."""
    response = consensus.QueryParamsResponse()
    response.params.block.max_bytes, response.params.block.max_gas = _MAX_BLOCK_BYTES, -1
    return response


def node_info(query: Query, request: Message) -> Message:
    response = tm.GetNodeInfoResponse()
    response.default_node_info.network = query.genesis.chain_id
    response.default_node_info.moniker = "devnode"
    response.application_version.name, response.application_version.app_name = "akash", "akash"
    response.application_version.version = NODE_VERSION
    response.application_version.cosmos_sdk_version = "v0.53.7"
    return response


def syncing(query: Query, request: Message) -> Message:
    return tm.GetSyncingResponse(syncing=query.node.catching_up)
