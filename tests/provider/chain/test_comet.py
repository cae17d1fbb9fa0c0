"""`CometChain` against a running simulated chain: queries, transactions, refusals, sequences."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal

import pytest

from devnet.chain import SimulatedChain
from devnet.tenant import messages as tenant_messages
from lease.resources import Price
from provider.chain import messages
from provider.chain.comet import CometChain
from provider.errors import CatchingUp, ChainError, TxRefused, WrongChain
from provider.protocols.chain import BidState, DeploymentState, LeaseState, OrderState
from provider.units import Coin
from tests.provider.chain.direct import direct, sender, ticking
from tests.provider.chain.world import (
    ATTRIBUTES,
    BROKE,
    PROVIDER,
    TENANT,
    client,
    deployment,
    order,
    scripted_node,
    signing_key,
    spec,
    status,
)

DEPOSIT = Coin("uakt", Decimal(500000))
US = signing_key(PROVIDER).address


async def register(chain: CometChain) -> None:
    await chain.broadcast([messages.create_provider(US, host_uri="https://p.example.com:8443", attributes=ATTRIBUTES)])


async def publish(tenant: CometChain, *dseqs: int) -> None:
    """Deployments of one group each, in one transaction."""
    await tenant.broadcast(
        [
            tenant_messages.create_deployment(
                deployment(dseq), groups=(spec(),), version=bytes(32), deposit=(5_000_000, "uact")
            )
            for dseq in dseqs
        ]
    )


def bid_on(dseq: int, price: str = "50"):
    item = order(dseq).bid_by(US)
    return messages.create_bid(item, price=Price("uact", Decimal(price)), deposit=DEPOSIT, offer=spec().units)


async def test_a_bid_becomes_a_lease_and_the_lease_ends_as_the_chain_says(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        assert await us.provider(US) is None
        await register(us)
        record = await us.provider(US)
        assert record is not None
        assert (record.owner, record.host_uri, record.attributes) == (US, "https://p.example.com:8443", ATTRIBUTES)

        await publish(tenant, 7)
        (found,) = await us.open_orders()
        assert (found.id, found.state, found.spec) == (order(7), OrderState.OPEN, spec())
        assert await us.order(order(7)) == found
        assert await us.group(order(7).group) == spec()
        assert await us.bid(order(7).bid_by(US)) is None

        sent = await us.broadcast([bid_on(7, "12.5")])
        assert sent.height <= node.height
        assert sent.fee.endswith("uakt")
        (bid,) = await us.bids(US, BidState.OPEN)
        assert (bid.id, bid.price) == (order(7).bid_by(US), Price("uact", Decimal("12.5")))
        assert bid.deposit == (Price("uakt", Decimal(500000)),)

        unknown = await us.lease(bid.id)
        assert (unknown.lease, unknown.chain_id) == (None, node.chain_id)
        assert unknown.height > 0
        await tenant.broadcast([tenant_messages.create_lease(bid.id)])
        (lease,) = await us.leases(provider=US, states=(LeaseState.ACTIVE, LeaseState.RECLAIMING))
        assert (lease.id, lease.state) == (bid.id, LeaseState.ACTIVE)
        assert await us.leases(provider=US, states=(LeaseState.ACTIVE,), deployment=deployment(8)) == []

        await node.wait_blocks(2)  # a second settlement at one height is refused (recordings/chain README §2)
        await us.broadcast([messages.withdraw_lease(bid.id)])
        await node.wait_blocks(2)
        await tenant.broadcast([tenant_messages.close_deployment(deployment(7))])
        closed = await us.lease(bid.id)
        assert closed.lease is not None
        assert closed.lease.state is LeaseState.CLOSED
        assert closed.lease.state.ended
        assert closed.height >= closed.lease.closed_on
        ended = await us.deployment(deployment(7))
        assert ended is not None
        assert (ended.state, ended.groups) == (DeploymentState.CLOSED, (spec(),))


async def test_twenty_bids_at_once_share_a_few_blocks(node: SimulatedChain) -> None:
    """Transactions with consecutive sequences are pending together: none waits for the block of another."""
    dseqs = range(1, 21)
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        await register(us)
        await publish(tenant, *dseqs)
        assert len(await us.open_orders()) == 20
        results = await asyncio.gather(*(us.broadcast([bid_on(dseq)]) for dseq in dseqs))
        assert len(await us.bids(US, BidState.OPEN)) == 20
        assert len({result.height for result in results}) < 10


async def test_a_refusal_in_simulation_costs_nothing_and_carries_the_chains_text(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us:
        with pytest.raises(TxRefused, match="order not found") as refusal:
            await us.broadcast([bid_on(99)])
        assert node.rpc_address in str(refusal.value)
        await register(us)
        with pytest.raises(TxRefused, match="already exists"):
            await register(us)


async def test_one_bid_an_order_the_second_is_refused(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us, client(node.rpc_address, index=TENANT) as tenant:
        await register(us)
        await publish(tenant, 7)
        await us.broadcast([bid_on(7)])
        await us.broadcast([messages.close_bid(order(7).bid_by(US))])
        with pytest.raises(TxRefused, match="bid exists"):
            await us.broadcast([bid_on(7)])


@pytest.mark.virtual_time
async def test_a_sequence_that_another_used_is_repaired_once() -> None:
    """Two senders with one key: each believes the sequence is its own, and asks for it once when it is not."""
    async with direct() as world, ticking(world.chain):
        other = sender(world.node)
        for index in range(3):
            for ours in (other, world.us):
                world.node.asked.clear()
                uri = f"https://p{index}.example.com:8443"
                found = await ours.broadcast([messages.update_provider(US, host_uri=uri, attributes=ATTRIBUTES)])
                asked = Counter(world.node.asked)
                fresh = (index, ours) == (0, other)  # it has never sent: there is nothing to repair
                assert asked["/cosmos.auth.v1beta1.Query/Account"] == 1
                assert asked["/cosmos.tx.v1beta1.Service/Simulate"] == (1 if fresh else 2)
                assert asked["broadcast_tx_sync"] == 1
                assert world.count("MsgUpdateProvider") == 2 * index + (1 if ours is other else 2)
                assert world.chain.blocks.get(found.height) is not None
        assert (other.shared_key, world.us.shared_key) == (2, 3)
        await other.close()


async def test_the_error_for_a_missing_account_names_what_it_lacks(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=400) as nobody:
        with pytest.raises(ChainError, match="does not exist; send it some uakt"):
            await nobody.broadcast([bid_on(7)])
        assert await nobody.account_public_key(signing_key(400).address) is None


async def test_the_public_key_is_known_after_the_first_signature(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us:
        assert await us.account_public_key(US) is None
        await register(us)
        assert await us.account_public_key(US) == signing_key(PROVIDER).public_bytes
        assert (await us.market_params()).bid_min_deposits["uakt"] == 500000
        assert BROKE


async def test_nothing_is_sent_through_a_node_that_is_catching_up(node: SimulatedChain) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us:
        node.faults.catching_up = True
        assert (await us.head()).catching_up
        with pytest.raises(CatchingUp, match="catching up"):
            await register(us)


async def test_another_chain_is_refused_also_when_it_changes_later(node: SimulatedChain) -> None:
    async with client(node.rpc_address, chain_id="akashnet-2") as us:
        with pytest.raises(WrongChain, match="AP_CHAIN_ID"):
            await us.head()
    names = iter(["local", "other", "other"])
    async with scripted_node(lambda method, params: status(network=next(names))) as address, client(address) as us:
        assert (await us.head()).chain_id == "local"
        with pytest.raises(WrongChain, match="'other', expected 'local'"):
            await us.lease(order(7).bid_by(US))


async def test_lists_go_through_all_pages(node: SimulatedChain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provider.chain.queries._PAGE", 3)
    async with client(node.rpc_address, index=TENANT) as tenant:
        await publish(tenant, *range(1, 11))
        assert {found.id.dseq for found in await tenant.open_orders()} == set(range(1, 11))


async def test_without_a_key_nothing_can_be_signed(node: SimulatedChain) -> None:
    async with client(node.rpc_address) as us:
        with pytest.raises(ChainError, match="without a key"):
            await us.broadcast([])


@pytest.mark.parametrize("auditor", ["3", "", "akash1auditor", "../../etc", "é" * 200])
async def test_a_text_that_is_not_an_address_has_audited_nothing(node: SimulatedChain, auditor: str) -> None:
    async with client(node.rpc_address, index=PROVIDER) as us:
        await register(us)
        assert await us.audited_attributes(provider=US, auditor=auditor) == ()
