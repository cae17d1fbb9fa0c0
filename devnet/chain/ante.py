"""The ante chain, which checks a transaction before its messages: limits, memo, fee, signatures, sequence (chain.md
§10).
"""

from __future__ import annotations

import base64
import codecs
from dataclasses import replace
from enum import Enum

import cosmpy.protos  # noqa: F401 - puts the folder of the cosmos packages on sys.path
from cosmos.crypto.secp256k1.keys_pb2 import PubKey
from cosmos.tx.signing.v1beta1.signing_pb2 import SIGN_MODE_DIRECT
from cosmos.tx.v1beta1.tx_pb2 import SignDoc
from google.protobuf.message import DecodeError

from devnet.chain import bank, feegrants
from devnet.chain.context import Context
from devnet.chain.errors import Kind, Refused
from devnet.chain.events import plain
from devnet.chain.keys import address_of, raw_address, verify
from devnet.chain.tx import Tx
from devnet.chain.wire import Message

__all__ = ["ANTE_GAS", "OUT_OF_GAS", "Mode", "ante_gas", "run"]

_UNAUTHORIZED = Kind("sdk", 4, "unauthorized")
_INVALID_PUBKEY = Kind("sdk", 8, "invalid pubkey")
_UNKNOWN_ADDRESS = Kind("sdk", 9, "unknown address")
OUT_OF_GAS = Kind("sdk", 11, "out of gas")
_MEMO = Kind("sdk", 12, "memo too large")
_FEE = Kind("sdk", 13, "insufficient fee")
_NO_SIGNATURES = Kind("sdk", 15, "no signatures supplied")
_INVALID = Kind("sdk", 18, "invalid request")
_TIMEOUT = Kind("sdk", 30, "tx timeout height")
_SEQUENCE = Kind("sdk", 32, "incorrect account sequence")

_MAX_MEMO = 256
_MAX_GAS = (1 << 63) - 1
_FIRST_READ = 1000
ANTE_GAS = 42_000
_GAS_PER_BYTE = 10
_SECP256K1 = "/cosmos.crypto.secp256k1.PubKey"


class Mode(Enum):
    """CHECK applies the node's minimum fee, DELIVER does not; SIMULATE also ignores the gas limit and signatures."""

    CHECK = "check"
    DELIVER = "deliver"
    SIMULATE = "simulate"


def ante_gas(tx: Tx) -> int:
    """The gas of the ante chain, approximately that of a real node."""
    return ANTE_GAS + _GAS_PER_BYTE * tx.size


def run(ctx: Context, tx: Tx, mode: Mode) -> None:
    """Take the fee and increment the sequence. Raises `Refused`; the caller then discards the branch."""
    if mode is not Mode.SIMULATE:
        _check_limits(tx)
    _check_timeout(ctx, tx)
    if len(tx.body.memo) > _MAX_MEMO:
        raise _MEMO(f"maximum number of characters is {_MAX_MEMO} but received {len(tx.body.memo)} characters")
    _take_fee(ctx, tx, mode)
    if mode is not Mode.SIMULATE:
        _check_gas(tx)
    for index, signer in enumerate(tx.signers):
        _check_signer(ctx, tx, index, signer, mode)


def _check_limits(tx: Tx) -> None:
    gas = tx.auth.fee.gas_limit
    if gas > _MAX_GAS:
        raise _INVALID(f"invalid gas supplied; {gas} > {_MAX_GAS}")
    if not tx.raw.signatures:
        raise _NO_SIGNATURES()
    if len(tx.raw.signatures) != len(tx.signers) or len(tx.auth.signer_infos) != len(tx.signers):
        counts = f"expected {len(tx.signers)}, got {len(tx.raw.signatures)}"
        raise _UNAUTHORIZED(f"wrong number of signers; {counts}")
    if gas < _FIRST_READ:
        raise OUT_OF_GAS(f"out of gas in location: ReadFlat; gasWanted: {gas}, gasUsed: {_FIRST_READ}")


def _check_timeout(ctx: Context, tx: Tx) -> None:
    limit = tx.body.timeout_height
    if limit and ctx.height > limit:
        raise _TIMEOUT(f"block height: {ctx.height}, timeout height: {limit}")


def _take_fee(ctx: Context, tx: Tx, mode: Mode) -> None:
    fee = {coin.denom: int(coin.amount) for coin in tx.auth.fee.amount if coin.amount.isdigit()}
    if mode is Mode.CHECK:
        _check_minimum(ctx, fee, tx.auth.fee.gas_limit)
    payer = tx.auth.fee.payer or tx.signers[0]
    granter = tx.auth.fee.granter
    if granter and granter != payer:
        prefix = f"{_bytes_text(granter)} does not allow to pay fees for {_bytes_text(payer)}"
        feegrants.use(ctx, granter, payer, fee, prefix=prefix)
        payer = granter
    if bank.account(ctx.state, payer) is None:
        raise _UNKNOWN_ADDRESS(f"fee payer address: {_bytes_text(payer)} does not exist")
    if fee:
        _deduct(ctx, payer, fee)
    ctx.events.append(plain("tx", fee=bank.coins_text(fee), fee_payer=payer))


def _check_minimum(ctx: Context, fee: dict[str, int], gas: int) -> None:
    required = -(-gas * ctx.genesis.gas_price_milli_uakt // 1000)
    if fee.get("uakt", 0) < required:
        raise _FEE(f"insufficient fees; got: {bank.coins_text(fee)} required: {required}uakt")


def _deduct(ctx: Context, payer: str, fee: dict[str, int]) -> None:
    try:
        bank.send(ctx, payer, bank.FEE_COLLECTOR, fee)
    except Refused as refused:
        raise bank.INSUFFICIENT(refused.log) from None


def _bytes_text(address: str) -> str:
    """The raw bytes of an address decoded as text, as the node prints them."""
    return (raw_address(address) or b"").decode("utf-8", "replace-each-byte")


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    """Decode as Go does, which replaces every byte of an invalid sequence; Python replaces the sequence."""
    return "\ufffd", getattr(error, "start", 0) + 1


codecs.register_error("replace-each-byte", _replace_byte)


def _check_gas(tx: Tx) -> None:
    wanted, used = tx.auth.fee.gas_limit, ante_gas(tx)
    if wanted < used:
        raise OUT_OF_GAS(f"out of gas in location: WriteFlat; gasWanted: {wanted}, gasUsed: {used}")


def _check_signer(ctx: Context, tx: Tx, index: int, signer: str, mode: Mode) -> None:
    account = bank.account(ctx.state, signer)
    if account is None:
        raise _UNKNOWN_ADDRESS(f"account {signer} does not exist")
    info = tx.auth.signer_infos[index] if index < len(tx.auth.signer_infos) else None
    public_key = account.public_key or (_public_key(info) if info is not None else b"")
    if mode is not Mode.SIMULATE:
        offered = _public_key(info) or account.public_key
        if not offered or address_of(offered) != signer:
            raise _INVALID_PUBKEY(f"pubKey does not match signer address {signer} with signer index: {index}")
    if info is not None:
        _check_sequence(account.sequence, info.sequence)
        if mode is not Mode.SIMULATE:
            _check_signature(ctx, tx, index, replace(account, public_key=public_key))
    _emit_signature(ctx, tx, index, account)
    bank.save_account(ctx, replace(account, public_key=public_key, sequence=account.sequence + 1))


def _public_key(info: Message) -> bytes:
    if info.public_key.type_url != _SECP256K1:
        return b""
    try:
        return bytes(PubKey.FromString(info.public_key.value).key)
    except DecodeError:
        return b""


def _check_sequence(expected: int, got: int) -> None:
    if expected != got:
        raise _SEQUENCE(f"account sequence mismatch, expected {expected}, got {got}")


def _check_signature(ctx: Context, tx: Tx, index: int, account: bank.Account) -> None:
    chain, number = ctx.genesis.chain_id, account.number
    if tx.auth.signer_infos[index].mode_info.single.mode != SIGN_MODE_DIRECT:
        where = f"account number ({number}), sequence ({account.sequence}) and chain-id ({chain})"
        raise _UNAUTHORIZED(f"signature verification failed; please verify {where}")
    document = SignDoc(
        body_bytes=tx.raw.body_bytes, auth_info_bytes=tx.raw.auth_info_bytes, chain_id=chain, account_number=number
    )
    if not verify(account.public_key, document.SerializeToString(), tx.raw.signatures[index]):
        where = f"account number ({number}) and chain-id ({chain}): (unable to verify single signer signature)"
        raise _UNAUTHORIZED(f"signature verification failed; please verify {where}")


def _emit_signature(ctx: Context, tx: Tx, index: int, account: bank.Account) -> None:
    ctx.events.append(plain("tx", acc_seq=f"{account.address}/{account.sequence}"))
    signature = tx.raw.signatures[index] if index < len(tx.raw.signatures) else b""
    ctx.events.append(plain("tx", signature=base64.b64encode(signature).decode()))
