"""The price of AKT, and ACT burned for AKT: the recorded behaviour, and other requests of clients."""

from __future__ import annotations

from typing import Any

import pytest
from akash.bme.v1 import msg_pb2 as bme
from akash.escrow.v1 import msg_pb2 as escrow
from akash.oracle.v2 import msg_pb2 as oracle
from cosmos.base.v1beta1.coin_pb2 import Coin

from devnet.chain import derive_key, devnet_genesis
from devnet.chain.app import TxResult
from devnet.chain.bank import balance
from devnet.chain.bme import status_of, total
from devnet.chain.node import Node
from tests.devnet.chain import signing

GENESIS = devnet_genesis()
TENANT, ORACLE = derive_key("tenant").address, derive_key("oracle").address
NS = 10**9
HALT_CR, HALT_ORACLE = 3, 4


class Chain:
    """A block a second, made by hand."""

    def __init__(self) -> None:
        self.node = Node(GENESIS)
        self.block()

    def block(self, *messages: Any, role: str = "tenant") -> list[TxResult]:
        """The next block, with each message in a transaction of its own."""
        txs = [signing.signed(self.node, [one], role=role, ahead=index) for index, one in enumerate(messages)]
        height = self.node.height + 1
        return list(self.node.replay(height, height * NS, txs).results)

    def until(self, height: int) -> None:
        while self.node.height < height:
            self.block()

    def happened(self) -> list[str]:
        """The last block's own events."""
        last = self.node.blocks.last
        assert last is not None
        return [event.type.rpartition(".")[2] for event in last.events]

    def held(self, denom: str, address: str = TENANT) -> int:
        return balance(self.node.query().state, address, denom)

    def everything(self, denom: str) -> int:
        return sum(amount for key, amount in self.node.query().state.items("balance") if key[1] == denom)


def price(amount: str = "1250000000000000000", *, at: int, denom: str = "akt") -> Any:
    msg = oracle.MsgAddPriceEntry(signer=ORACLE, price=amount)
    msg.id.denom, msg.id.base_denom, msg.timestamp.seconds = denom, "usd", at
    return msg


def burn(amount: str = "20000000", *, denom: str = "uact", to: str = TENANT) -> Any:
    return bme.MsgBurnACT(owner=TENANT, to=to, coins_to_burn=Coin(denom=denom, amount=amount))


def priced() -> Chain:
    chain = Chain()
    chain.block(price(at=2), role="oracle")
    chain.block()
    return chain


@pytest.mark.parametrize("amount", ["", "0", "-1", "1.25", "1e3", "²", "9" * 100, "9" * 5000])
def test_a_price_that_is_no_positive_number_is_refused(amount: str) -> None:
    chain = Chain()
    (result,) = chain.block(price(amount, at=2), role="oracle")
    assert (result.codespace, result.code) == ("sdk", 18)
    assert chain.happened() == []


def test_a_price_of_another_coin_is_refused() -> None:
    (result,) = Chain().block(price(at=2, denom="btc"), role="oracle")
    assert (result.codespace, result.code) == ("sdk", 18)


def test_epochs_begin_with_the_chain_and_each_minute() -> None:
    chain = Chain()
    assert chain.happened() == ["EventEpochStart"] * 4 + ["EventMintStatusChange"]
    told = {}
    while chain.node.height < 125:
        chain.block()
        if chain.happened():
            told[chain.node.height] = chain.happened()
    assert told == {62: ["EventEpochEnd", "EventEpochStart"], 122: ["EventEpochEnd", "EventEpochStart"]}


def test_without_a_price_no_act_is_burned() -> None:
    chain = Chain()
    before = chain.held("uact")
    (result,) = chain.block(burn())
    assert (result.codespace, result.code) == ("bme", 6)
    assert chain.held("uact") == before


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (burn("0"), 10),
        (burn("-5"), 10),
        (burn("x"), 10),
        (burn("9" * 5000), 10),
        (burn(denom="uakt"), 10),
        (burn(to="akash1nobody"), 7),
        (burn("9" * 30), 5),
    ],
    ids=["nothing", "less than nothing", "no number", "huge", "akt", "to nobody", "more than there is"],
)
def test_coins_that_cannot_be_burned_stay_where_they_are(wish: Any, code: int) -> None:
    chain = priced()
    before = chain.held("uact")
    (result,) = chain.block(wish)
    assert (result.codespace, result.code) == ("sdk", code)
    assert chain.held("uact") == before


def test_act_is_burned_at_once_and_akt_comes_with_the_tenth_block() -> None:
    chain = priced()
    act, all_act, all_akt = chain.held("uact"), chain.everything("uact"), chain.everything("uakt")
    first, second = chain.block(burn(), burn("1"))
    assert (first.code, second.code) == (0, 0)
    assert chain.held("uact") == act - 20_000_001
    akt = chain.held("uakt")
    chain.until(9)
    assert chain.held("uakt") == akt
    chain.until(10)
    assert chain.happened() == ["EventLedgerRecordExecuted"] * 2 + ["EventAggregatedPrice"]
    assert chain.held("uakt") == akt + 16_000_000
    assert chain.everything("uact") == all_act - 20_000_001
    assert chain.everything("uakt") == all_akt + 16_000_000
    assert total(chain.node.query().state, "burned", "uact") == 20_000_001
    chain.until(20)
    assert chain.held("uakt") == akt + 16_000_000


def test_an_old_price_halts_burns_and_pending_ones_wait_for_a_new_price() -> None:
    chain = priced()
    assert status_of(chain.node.query().state) == HALT_CR
    chain.until(31)
    assert chain.block(burn())[0].code == 0
    akt = chain.held("uakt")
    chain.block()
    assert "EventAggregatedPrice" not in chain.happened()
    chain.block()
    assert status_of(chain.node.query().state) == HALT_ORACLE
    assert chain.block(burn())[0].code == 6
    chain.until(44)
    chain.block(price("2000000000000000000", at=45), role="oracle")
    assert chain.happened() == ["EventPriceRecovered", "EventAggregatedPrice"]
    paid = akt - chain.held("uakt")
    chain.until(50)
    assert chain.held("uakt") == akt - paid + 10_000_000


def test_a_debt_in_act_is_paid_from_akt_and_no_coin_is_lost() -> None:
    chain = priced()
    chain.block(signing.create_provider(), role="provider")
    chain.block(signing.create_deployment(1, price=200_000, deposit=500_000))
    chain.block(signing.create_bid(1, price=100_000), role="provider")
    chain.block(signing.create_lease(1))
    top_up = escrow.MsgAccountDeposit(signer=TENANT)
    top_up.id.scope, top_up.id.xid = 1, f"{TENANT}/1"  # type: ignore[assignment]
    top_up.deposit.amount.denom, top_up.deposit.amount.amount = "uakt", "600000"
    top_up.deposit.sources.append(1)  # type: ignore[arg-type]
    assert chain.block(top_up)[0].code == 0
    act, akt = chain.everything("uact"), chain.everything("uakt")
    provider, tenant = chain.held("uakt", signing.PROVIDER.address), chain.held("uakt")
    chain.until(14)
    (result,) = chain.block(signing.withdraw(1), role="provider")
    assert result.code == 0
    owed = 100_000 * (15 - 7) - 500_000
    fee, deposit = 50_000, 500_000
    assert chain.held("uakt", signing.PROVIDER.address) - provider == owed * 100 // 125 + deposit - fee
    assert chain.held("uakt") - tenant == 600_000 - owed * 100 // 125
    assert (chain.everything("uact"), chain.everything("uakt")) == (act, akt)
