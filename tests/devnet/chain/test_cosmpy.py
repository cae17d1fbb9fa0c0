"""cosmpy's unmodified client, over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cosmpy.aerial.client import LedgerClient, NetworkConfig
from cosmpy.aerial.client.utils import prepare_and_broadcast_basic_transaction
from cosmpy.aerial.exceptions import BroadcastError, NotFoundError
from cosmpy.aerial.tx import Transaction

from devnet.chain import ACCOUNT_FUNDS, SimulatedChain, derive_key
from tests.devnet.chain import signing


def _client(chain: SimulatedChain) -> LedgerClient:
    return LedgerClient(
        NetworkConfig(
            chain_id=chain.chain_id,
            url=f"grpc+http://{chain.grpc_address}",
            fee_minimum_gas_price=0.025,
            fee_denomination="uakt",
            staking_denomination="uakt",
        )
    )


async def test_it_reads_accounts_and_balances() -> None:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        client = _client(chain)
        account = await asyncio.to_thread(client.query_account, signing.TENANT.wallet.address())
        held = await asyncio.to_thread(client.query_bank_all_balances, signing.TENANT.wallet.address())
        info = await asyncio.to_thread(client.query_node_info)
    assert (account.number, account.sequence) == (1, 0)
    assert {coin.denom: int(coin.amount) for coin in held} == ACCOUNT_FUNDS
    assert info.app_name == "akash"


async def test_it_simulates_signs_sends_and_waits() -> None:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        events = await asyncio.to_thread(_deploy_and_send, _client(chain))
        held = chain.node.query().state.get("balance", (derive_key("broke").address, "uakt"))
    assert "akash.market.v1.EventOrderCreated" in events
    assert held == ACCOUNT_FUNDS["uakt"] + 77


def _deploy_and_send(client: LedgerClient) -> Any:
    wallet = signing.TENANT.wallet
    tx = Transaction()
    tx.add_message(signing.create_deployment(1))
    sent = prepare_and_broadcast_basic_transaction(client, tx, wallet)
    sent.wait_to_complete(timeout=10)
    client.send_tokens(derive_key("broke").wallet.address(), 77, "uakt", wallet).wait_to_complete(timeout=10)
    return sent.response.events


async def test_what_the_chain_refuses_reaches_the_caller() -> None:
    async with SimulatedChain.start(block_seconds=0.1) as chain:
        client = _client(chain)
        with pytest.raises(Exception, match="Deployment not found"):  # simulation tells, nothing is sent
            await asyncio.to_thread(_send_bare, client, signing.close_deployment(99), None)
        with pytest.raises(BroadcastError, match="Insufficient Fees"):
            await asyncio.to_thread(_send_bare, client, signing.send(1), 90_000, fee="1uakt")
        with pytest.raises(NotFoundError):
            await asyncio.to_thread(client.query_tx, "AB" * 32)
        assert chain.node.pending == ()


def _send_bare(client: LedgerClient, message: Any, gas: int | None, *, fee: str | None = None) -> None:
    from cosmpy.aerial.tx import SigningCfg, TxFee

    wallet = signing.TENANT.wallet
    tx = Transaction()
    tx.add_message(message)
    if gas is None:
        prepare_and_broadcast_basic_transaction(client, tx, wallet)
        return
    account = client.query_account(wallet.address())
    tx.seal(SigningCfg.direct(wallet.public_key(), account.sequence), fee=TxFee(fee, gas))
    tx.sign(wallet.signer(), client.network_config.chain_id, account.number)
    client.broadcast_tx(tx.complete())
