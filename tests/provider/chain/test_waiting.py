"""The queue of intents, the fee budget of a day, and the settings for both: laws and a table."""

from __future__ import annotations

import pytest
from akash.market.v1beta5 import msg_pb2 as market_msg
from hypothesis import given
from hypothesis import strategies as st

from provider.chain.tx.budget import DAY_S, allowance
from provider.chain.tx.intents import Intent, Rank
from provider.chain.tx.policy import policy_from
from provider.chain.tx.queue import MOST_BYTES, IntentQueue
from provider.errors import SettingsError
from provider.settings import load_settings

GRANTER = "akash1pdsv0s32065drerxxdyltpk5tq0h8d2vtzs685"
DEPLOYMENTS = st.sampled_from(["a/1", "a/2", "b/1"])
INTENTS = st.builds(
    lambda kind, rank, settles, alone: Intent((), "", kind=kind, rank=rank, settles=settles, alone=alone),
    st.sampled_from(["", "MsgCreateBid", "MsgCloseBid"]),
    st.sampled_from(Rank),
    st.frozensets(DEPLOYMENTS, max_size=2),
    st.booleans(),
)


@given(st.lists(INTENTS, max_size=12), st.sets(DEPLOYMENTS, max_size=2), st.integers(1, 5))
def test_a_batch_is_of_one_kind_settles_each_deployment_once_and_none_that_is_being_settled(
    wished: list[Intent], settling: set[str], at_most: int
) -> None:
    waiting = IntentQueue()
    for intent in wished:
        waiting.add(intent)
    seen: list[Intent] = []
    while batch := waiting.take(settling=settling, at_most=at_most):
        seen += batch
        settled = [name for intent in batch for name in intent.settles]
        assert len(set(settled)) == len(settled)
        assert not set(settled) & settling
        assert len(batch) == 1 or ({intent.kind for intent in batch} == {batch[0].kind} and batch[0].kind)
        assert len(batch) == 1 or not any(intent.alone for intent in batch)
        assert len(batch) <= at_most
        assert batch[0].rank == min(
            intent.rank for intent in wished if not intent.settles & settling and intent not in seen[: -len(batch)]
        )
    assert len(seen) + len(waiting) == len(wished)
    assert all(intent.settles & settling for intent in wished if intent in waiting)


@pytest.mark.parametrize("larger_than_all", [False, True])
def test_large_bids_of_one_tenant_share_no_transaction_that_no_node_takes(larger_than_all: bool) -> None:
    def bid(number: int, size: int) -> Intent:
        packed = market_msg.MsgCreateBid()
        packed.id.owner = "x" * size
        return Intent((packed,), str(number), kind="MsgCreateBid", rank=Rank.BID)

    waiting = IntentQueue()
    sizes = [MOST_BYTES + 1 if larger_than_all and not number else 40_000 for number in range(30)] + [200] * 10
    bids = [bid(number, size) for number, size in enumerate(sizes)]
    for intent in bids:
        waiting.add(intent)
    batches = list(iter(lambda: waiting.take(settling=(), at_most=40), ()))
    for batch in batches:
        assert len(batch) == 1 or sum(intent.messages[0].ByteSize() for intent in batch) <= MOST_BYTES
    assert set(bids[-10:]) <= {intent for batch in batches[:2] for intent in batch}, "small ones do not wait for large"
    assert sorted(int(intent.key) for batch in batches for intent in batch) == list(range(40))
    assert [batch[0] for batch in batches] == sorted((batch[0] for batch in batches), key=bids.index)


@given(
    st.lists(st.tuples(st.floats(0, 3 * DAY_S), st.integers(0, 10**9)), max_size=20),
    st.integers(1, 10**12),
    st.sampled_from(Rank),
)
def test_the_allowance_never_exceeds_a_ranks_share_and_grows_as_fees_grow_old(
    paid: list[tuple[float, int]], budget: int, rank: Rank
) -> None:
    paid.sort()
    now = 3 * DAY_S
    found = allowance(paid, budget=budget, rank=rank, now=now)
    assert 0 <= found.left <= budget
    assert found.left == 0 or found.left + found.spent <= budget
    assert allowance(paid, budget=budget, rank=Rank.CLOSE, now=now).left >= found.left
    assert allowance(paid, budget=budget, rank=rank, now=now + 1000).left >= found.left
    assert found.again_at > now


@pytest.mark.parametrize(
    ("mode", "batch", "in_flight"), [("", 40, 64), ("batch", 40, 64), ("sequences", 1, 64), ("single", 1, 1)]
)
def test_the_mode_decides_what_is_shared_and_what_is_pending_together(
    mode: str, batch: int, in_flight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TX_MODE", mode), ("FEE_BUDGET", "5000000"), ("TX_TIMEOUT_BLOCKS", "9")):
        monkeypatch.setenv(f"LESSOR_{name}", value)
    monkeypatch.setenv("AKASH_FEE_GRANTER", GRANTER)
    policy = policy_from(load_settings())
    assert (policy.batch, policy.max_pending) == (batch, in_flight)
    assert (policy.fee_budget, policy.timeout_blocks, policy.granter) == (5_000_000, 9, GRANTER)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LESSOR_TX_MODE", "fast"),
        ("LESSOR_TX_BATCH", "0"),
        ("LESSOR_TX_TIMEOUT_BLOCKS", "1"),
        ("LESSOR_FEE_BUDGET", "-1"),
        ("LESSOR_FEE_BUDGET", "10akt"),
        ("AP_FEE_GRANTER", "akash1short"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        load_settings()
