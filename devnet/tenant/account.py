"""An account of the chain with its key, which signs and sends transactions through unmodified cosmpy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
from cosmpy.aerial.client import LedgerClient, NetworkConfig
from cosmpy.aerial.client.utils import prepare_and_broadcast_basic_transaction
from cosmpy.aerial.exceptions import BroadcastError
from cosmpy.aerial.tx import Transaction
from cosmpy.aerial.wallet import LocalWallet
from cosmpy.crypto.keypairs import PrivateKey
from cosmpy.mnemonic import derive_child_key_from_mnemonic
from google.protobuf.message import Message

from devnet.tenant.errors import ChainRefused

__all__ = ["Account"]


class Account:
    """`grpc` is host:port of a node. Sends one transaction at a time, in a thread, because cosmpy blocks."""

    def __init__(self, key: PrivateKey, *, grpc: str, chain_id: str) -> None:
        self.key = key
        self._wallet = LocalWallet(key, prefix="akash")
        self.address = str(self._wallet.address())
        self.grpc = grpc
        self._ledger = LedgerClient(
            NetworkConfig(
                chain_id=chain_id,
                url=f"grpc+http://{grpc}",
                fee_minimum_gas_price=0.025,
                fee_denomination="uakt",
                staking_denomination="uakt",
            )
        )
        self._serial = asyncio.Lock()

    @classmethod
    def from_mnemonic(cls, mnemonic: str, *, index: int, grpc: str, chain_id: str) -> Account:
        """The key at m/44'/118'/0'/0/`index` (chain.md §2)."""
        secret = derive_child_key_from_mnemonic(mnemonic, path=f"m/44'/118'/0'/0/{index}")
        return cls(PrivateKey(secret), grpc=grpc, chain_id=chain_id)

    async def send(self, messages: Sequence[Message]) -> int:
        """Sign and send a transaction and wait for its block; the block's height. Raises `ChainRefused`."""
        async with self._serial:
            return await asyncio.to_thread(self._send, messages)

    def _send(self, messages: Sequence[Message]) -> int:
        transaction = Transaction()
        for message in messages:
            transaction.add_message(message)
        try:
            sent = prepare_and_broadcast_basic_transaction(self._ledger, transaction, self._wallet)
            done = sent.wait_to_complete(timeout=30, poll_period=0.1)
        except (BroadcastError, RuntimeError) as refused:
            raise ChainRefused(str(refused)) from refused
        except grpc.RpcError as refused:  # an error of the transaction's simulation
            raise ChainRefused(_details(refused)) from refused
        return int(done.response.height) if done.response else 0

    async def balance(self, denom: str) -> int:
        """The spendable amount of `denom`."""
        return int(await asyncio.to_thread(self._ledger.query_bank_balance, self._wallet.address(), denom))


def _details(error: grpc.RpcError) -> str:
    return str(error.details()) if isinstance(error, grpc.Call) else str(error)
