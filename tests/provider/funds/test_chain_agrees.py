"""Our arithmetic of escrow against the simulated chain's own settlement, and its lists against hostile owners."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from akash.escrow.types.v1 import types_pb2 as types
from cosmos.base.v1beta1.coin_pb2 import DecCoin
from hypothesis import given, settings
from hypothesis import strategies as st

from devnet.chain import escrow as chain_escrow
from devnet.chain.context import Context
from devnet.chain.genesis import devnet_genesis
from devnet.chain.keys import module_address
from devnet.chain.node import Node as SimulatedNode
from devnet.chain.store import Branch, Store
from lease.ids import DeploymentId, LeaseId
from lease.resources import Price
from provider.chain import money_queries
from provider.chain.codec import dec_from_wire
from provider.funds.escrow import lease_funds, runs_out_at
from provider.protocols.chain import Escrow, EscrowState, Payment
from tests.provider.chain.direct import DirectNode

pytestmark = pytest.mark.virtual_time

OWNER, US = "akash1owner", "akash1provider"
SETTLED = 100
GENESIS = devnet_genesis()
RATES = st.one_of(
    st.decimals("0.000000000001", "30", places=18),
    st.decimals("0.001", "2", places=3),
    st.integers(0, 50).map(Decimal),
    st.just(Decimal("0.000000000001")),
)


def account(ctx: Context, item: DeploymentId, funds: dict[str, int]) -> None:
    made = types.Account()
    made.id.scope, made.id.xid = chain_escrow.DEPLOYMENT, str(item)
    made.state.owner, made.state.state, made.state.settled_at = item.owner, chain_escrow.OPEN, ctx.height
    for denom, amount in funds.items():
        wire = str(amount * 10**18)
        made.state.funds.append(types.Balance(denom=denom, amount=wire))
        made.state.deposits.append(types.Depositor(owner=item.owner, balance=DecCoin(denom=denom, amount=wire)))
        ctx.put("balance", module_address("escrow"), denom, value=amount + 10**9)
    chain_escrow.put_account(ctx, made)


def pay(ctx: Context, item: LeaseId, rate: Price) -> None:
    wire = DecCoin(denom=rate.denom, amount=str(int(rate.amount * 10**18)))
    row = types.Payment()
    row.id.aid.scope, row.id.aid.xid, row.id.xid = chain_escrow.DEPLOYMENT, str(item.deployment), payment_xid(item)
    row.state.owner, row.state.state = item.provider, chain_escrow.OPEN
    row.state.rate.CopyFrom(wire)
    for part in (row.state.balance, row.state.unsettled):
        part.denom, part.amount = rate.denom, "0"
    row.state.withdrawn.denom, row.state.withdrawn.amount = rate.denom, "0"
    ctx.put("escrow_payment", str(item.deployment), payment_xid(item), value=row)


def payment_xid(item: LeaseId) -> str:
    return f"{item.gseq}/{item.oseq}/{item.provider}"


def settled(ctx: Context, item: DeploymentId, height: int) -> chain_escrow.Settled:
    """What a settlement at `height` would find; nothing is kept of it."""
    return chain_escrow.settle(Context(Branch(ctx.state), GENESIS, height, 0), str(item))


@settings(deadline=None, max_examples=60)
@given(
    funds=st.fixed_dictionaries({"uact": st.integers(0, 2000), "uakt": st.integers(0, 2000)}),
    rates=st.lists(st.tuples(st.sampled_from(["uact", "uakt"]), RATES), min_size=1, max_size=5),
    data=st.data(),
)
def test_money_ends_at_the_very_height_at_which_the_chain_finds_the_account_overdrawn(
    funds: dict[str, int], rates: list[tuple[str, Decimal]], data: st.DataObject
) -> None:
    ctx, item = Context(Branch(Store()), GENESIS, SETTLED, 0), DeploymentId(OWNER, 1)
    ctx.put("next_account", value=1)
    prices = [Price(denom, amount) for denom, amount in rates]
    account(ctx, item, funds)
    leases = [LeaseId(OWNER, 1, number, 1, US) for number in range(1, len(prices) + 1)]
    for lease, price in zip(leases, prices, strict=True):
        pay(ctx, lease, price)
    held = {denom: Decimal(amount) for denom, amount in funds.items()}
    ours = Escrow(item, EscrowState.OPEN, SETTLED, held, tuple(prices))
    ends = runs_out_at(ours)
    if ends is None:
        assert all(price.amount == 0 for price in prices)
        assert not settled(ctx, item, 10**18).overdrawn
        return
    assert settled(ctx, item, ends).overdrawn
    assert not (ends - 1 > SETTLED and settled(ctx, item, ends - 1).overdrawn)
    height = data.draw(st.integers(SETTLED, ends - 1))
    found = settled(ctx, item, height)
    balances = {row.id.xid: dec_from_wire(row.state.balance.amount) for row in found.payments}
    for lease, price in zip(leases, prices, strict=True):
        paid = Payment(lease, EscrowState.OPEN, price, Decimal(0), Decimal(0), Decimal(0))
        assert lease_funds(paid, ours, height=height).unpaid == balances.get(payment_xid(lease), 0)


@pytest.fixture
def node() -> DirectNode:
    return DirectNode(SimulatedNode(GENESIS))


def escrow_state(node: DirectNode, deployments: list[DeploymentId], *, groups: int = 1) -> None:
    store = node.chain.app.store
    ctx = Context(Branch(store), GENESIS, 0, 0)
    for item in deployments:
        account(ctx, item, {"uact": item.dseq})
        for gseq in range(1, groups + 1):
            pay(ctx, LeaseId(item.owner, item.dseq, gseq, 1, US), Price("uact", Decimal(gseq)))
    ctx.state.commit()


async def test_an_owner_with_thousands_of_deployments_makes_us_read_those_of_ours_alone(node: DirectNode) -> None:
    theirs = [DeploymentId(OWNER, number) for number in (1, *range(1000, 1600))]
    escrow_state(node, theirs, groups=1)
    for wanted in ([DeploymentId(OWNER, 1)], [DeploymentId(OWNER, number) for number in (1, 1001, 1002, 1003, 1004)]):
        node.asked.clear()
        found = await money_queries.escrows(node, wanted)
        assert {item: escrow.funds["uact"] for item, escrow in found.items()} == {item: item.dseq for item in wanted}
        assert [[price.amount for price in escrow.rates] for escrow in found.values()] == [[1]] * len(wanted)
        assert len(node.asked) <= 2 * len(wanted) + 1


async def test_many_deployments_of_one_owner_are_read_in_two_lists_over_all_pages(node: DirectNode) -> None:
    ours = [DeploymentId(OWNER, number) for number in range(1, 602)]
    escrow_state(node, [*ours, DeploymentId(f"{OWNER}2", 5)], groups=2)
    found = await money_queries.escrows(node, ours)
    assert set(found) == set(ours)
    assert all(sum(price.amount for price in escrow.rates) == 3 for escrow in found.values())
    assert Counter(node.asked) == {
        "/akash.escrow.v1.Query/Accounts": 2,
        "/akash.escrow.v1.Query/Payments": 3,
    }


async def test_an_account_that_is_not_open_is_not_mistaken_for_one_whose_number_begins_alike(node: DirectNode) -> None:
    escrow_state(node, [DeploymentId(OWNER, 12), DeploymentId(OWNER, 120)], groups=2)
    assert await money_queries.escrows(node, [DeploymentId(OWNER, 1)]) == {}
    found = await money_queries.escrows(node, [DeploymentId(OWNER, 12), DeploymentId("akash1nobody", 3)])
    assert {item: len(escrow.rates) for item, escrow in found.items()} == {DeploymentId(OWNER, 12): 2}
