"""Laws of money and state for any sequence of transactions, and invalid bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devnet.chain import devnet_genesis
from devnet.chain.escrow import ESCROW
from devnet.chain.keys import TEST_MNEMONIC, derive_key, verify
from devnet.chain.node import Node
from devnet.chain.query import METHODS, Transport
from devnet.chain.rpc_methods import abci_query
from devnet.chain.wire import PRECISION, dec_text, whole
from tests.devnet.chain import signing

GENESIS = devnet_genesis()
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])

Step = tuple[str, Callable[[], Any]]
STEPS: list[Step] = [
    ("tenant", lambda: signing.create_deployment(1, price=200_000, deposit=500_000)),
    ("provider", lambda: signing.create_bid(1, price=150_000)),
    ("tenant", lambda: signing.create_lease(1)),
    ("provider", lambda: signing.withdraw(1)),
    ("tenant", lambda: signing.close_lease(1)),
    ("provider", lambda: signing.close_bid(1)),
    ("provider", lambda: signing.create_bid(1, price=7, oseq=2)),
    ("tenant", lambda: signing.create_lease(1, oseq=2)),
    ("tenant", lambda: signing.close_deployment(1)),
    ("tenant", lambda: signing.create_deployment(2)),
]


class _Chain:
    """Blocks made by hand, one step or several in each."""

    def __init__(self) -> None:
        self.node = Node(GENESIS)
        self.block([])
        self.block([("provider", signing.create_provider)])

    def block(self, steps: list[Step]) -> None:
        waiting: dict[str, int] = {}
        txs = []
        for role, make in steps:
            txs.append(signing.signed(self.node, [make()], role=role, ahead=waiting.get(role, 0)))
            waiting[role] = waiting.get(role, 0) + 1
        self.node.replay(self.node.height + 1, (self.node.height + 1) * 10**9, txs)

    def total(self, denom: str) -> int:
        return sum(amount for key, amount in self.node.query().state.items("balance") if key[1] == denom)

    def escrowed(self) -> dict[str, int]:
        """What accounts and payments say lies in escrow."""
        state, held = self.node.query().state, {"uact": 0, "uakt": 0}
        for _, account in state.items("escrow_account"):
            for deposit in account.state.deposits:
                held[deposit.balance.denom] += int(deposit.balance.amount)
        for _, payment in state.items("escrow_payment"):
            held[payment.state.balance.denom] += int(payment.state.balance.amount)
        return {denom: amount // PRECISION for denom, amount in held.items()}


@QUICK
@given(st.lists(st.lists(st.sampled_from(range(len(STEPS))), max_size=3), max_size=14))
def test_no_coin_appears_or_vanishes_and_escrow_holds_what_its_books_say(blocks: list[list[int]]) -> None:
    chain = _Chain()
    before = {denom: chain.total(denom) for denom in ("uact", "uakt")}
    for block in blocks:
        chain.block([STEPS[index] for index in block])
        assert {denom: chain.total(denom) for denom in before} == before
        state = chain.node.query().state
        lying = {denom: state.get("balance", (ESCROW, denom)) or 0 for denom in before}
        assert lying == chain.escrowed()
        assert all(amount >= 0 for _, amount in state.items("balance"))


@QUICK
@given(st.lists(st.sampled_from(range(len(STEPS))), max_size=14))
def test_a_closed_deployment_has_no_open_order_bid_or_lease(steps: list[int]) -> None:
    chain = _Chain()
    for index in [0, 1, 2, *steps, 8]:
        chain.block([STEPS[index]])
    state = chain.node.query().state
    assert state.get("deployment", (signing.TENANT.address, 1)).state == 2
    assert {order.state for _, order in state.items("order", (signing.TENANT.address, 1))} == {3}
    assert {bid.state for _, bid in state.items("bid", (signing.TENANT.address, 1))} <= {3, 4}
    assert {lease.state for _, lease in state.items("lease", (signing.TENANT.address, 1))} <= {2, 3}


def test_a_failed_message_takes_the_whole_transaction_back_but_not_its_fee() -> None:
    chain = _Chain()
    held = chain.node.query().state.get("balance", (signing.TENANT.address, "uakt"))
    tx = signing.signed(chain.node, [signing.create_deployment(5), signing.close_deployment(6)], role="tenant")
    chain.node.replay(chain.node.height + 1, 10**10, [tx])
    state, result = chain.node.query().state, chain.node.blocks.tx(_hash(tx))
    assert result is not None and result[3].code == 4
    assert state.get("deployment", (signing.TENANT.address, 5)) is None
    assert state.get("balance", (signing.TENANT.address, "uakt")) == held - 50_000


def _hash(tx: bytes) -> str:
    from devnet.chain.blocks import tx_hash

    return tx_hash(tx)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_invalid_bytes_are_refused_with_a_code(data: bytes) -> None:
    node = Node(GENESIS)
    assert node.app.check(data).code != 0
    assert node.app.commit_block(1, 1, [data])[0][0].code != 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_transaction_changed_in_one_byte_never_passes(data: st.DataObject) -> None:
    node = _Chain().node
    tx = bytearray(signing.signed(node, [signing.send(5)], role="tenant"))
    position = data.draw(st.integers(0, len(tx) - 1))
    tx[position] ^= data.draw(st.integers(1, 255))
    assert node.app.check(bytes(tx)).code != 0


@pytest.mark.parametrize("path", sorted(name for name, row in METHODS.items() if Transport.ABCI in row.transports))
@pytest.mark.parametrize(
    "data", [b"", b"\xff" * 40, b"\x0a\xff", b"\x0a\x02\xc3\x28", b"\x12\x07\x0a\x05" + b"\xff" * 5]
)
def test_a_hostile_query_is_answered(path: str, data: bytes) -> None:
    node = _Chain().node
    reply = abci_query(node, path, data, 0)
    assert reply.code in (0, 6, 18, 22)
    assert reply.code == 0 or reply.log


@given(st.integers(-(10**30), 10**30))
def test_decimals_read_as_written(value: int) -> None:
    text = dec_text(str(value))
    assert int(text.replace(".", "")) == value
    assert whole(str(value)) == (abs(value) // PRECISION) * (1 if value >= 0 else -1)


def test_the_test_keys_are_those_of_the_recording() -> None:
    assert len(TEST_MNEMONIC.split()) == 24
    assert derive_key("tenant").address == "akash1vtad8680vhdfqvxx0f2yaxa6agdylelm443h3v"
    assert derive_key(2).address == "akash1pdsv0s32065drerxxdyltpk5tq0h8d2vtzs685"


def test_a_signature_with_a_high_s_is_invalid() -> None:
    key = derive_key("tenant")
    signature = key.private.sign(b"words", deterministic=True)
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    twin = signature[:32] + (order - int.from_bytes(signature[32:], "big")).to_bytes(32, "big")
    assert verify(key.public, b"words", signature)
    assert not verify(key.public, b"words", twin)
    assert not verify(key.public, b"other", signature)
    assert not verify(b"", b"words", signature)
