"""What proves that a lease has ended, and what never does."""

from __future__ import annotations

import pytest
from akash.market.v1 import types_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from provider.chain.codec import lease_id_to_pb
from provider.chain.queries import lease_from_pb
from provider.lifecycle.ending.proof import AnswerJudge, Verdict
from provider.protocols.chain import LeaseAnswer, LeaseState
from tests.provider.lifecycle.world import a_lease, closed, on_chain, unknown

L = a_lease()


def said(state: LeaseState | None, height: int, chain: str = "akashnet-2") -> LeaseAnswer:
    return LeaseAnswer(None if state is None else on_chain(L, state), height, chain)


def verdicts(*answers: LeaseAnswer) -> list[Verdict]:
    judge, heights = AnswerJudge("akashnet-2"), set[int]()
    return [judge.judge(L, answer, heights).verdict for answer in answers]


@pytest.mark.parametrize("state", [LeaseState.CLOSED, LeaseState.INSUFFICIENT_FUNDS])
def test_the_same_answer_at_two_heights_is_proof(state: LeaseState) -> None:
    assert verdicts(said(state, 5), said(state, 6)) == [Verdict.LOOKS_ENDED, Verdict.ENDED]


@pytest.mark.parametrize(
    ("answers", "last"),
    [
        pytest.param([closed(L, 5), closed(L, 5)], Verdict.LOOKS_ENDED, id="one height twice"),
        pytest.param([closed(L, 5), unknown(6)], Verdict.NOTHING_PROVEN, id="not known"),
        pytest.param([closed(L, 9), closed(L, 8)], Verdict.NOTHING_PROVEN, id="an older height"),
        pytest.param([closed(L, 5), closed(L, 6, "othernet-1")], Verdict.NOTHING_PROVEN, id="another chain"),
        pytest.param([closed(L, 5), closed(L, 6, "")], Verdict.NOTHING_PROVEN, id="no chain named"),
        pytest.param([closed(L, 0), closed(L, -1)], Verdict.NOTHING_PROVEN, id="no height named"),
        pytest.param([closed(L, 5), closed(a_lease(2), 6)], Verdict.NOTHING_PROVEN, id="another lease's word"),
        pytest.param(
            [closed(L, 5), said(LeaseState.ACTIVE, 6), closed(L, 7)], Verdict.LOOKS_ENDED, id="alive in between"
        ),
    ],
)
def test_what_is_no_proof(answers: list[LeaseAnswer], last: Verdict) -> None:
    assert verdicts(*answers)[-1] is last


@pytest.mark.parametrize("state", [LeaseState.ACTIVE, LeaseState.RECLAIMING])
def test_active_and_reclaiming_are_alive(state: LeaseState) -> None:
    assert verdicts(said(state, 5)) == [Verdict.ALIVE]


@pytest.mark.parametrize("first", ["the answer", "the block"])
@pytest.mark.parametrize("state", [LeaseState.ACTIVE, LeaseState.CLOSED, None])
def test_a_height_that_one_node_makes_up_makes_no_other_node_s_answers_old(
    first: str, state: LeaseState | None
) -> None:
    judge, heights = AnswerJudge("akashnet-2"), set[int]()
    if first == "the block":
        judge.saw(100)
    judge.judge(L, said(state, 2**62), heights)
    for height in range(101, 1200):  # what a start costs at most, before the first block: a thousand blocks
        judge.saw(height)
    judged = [judge.judge(L, closed(L, height), heights).verdict for height in (1200, 1201)]
    assert judged[-1] is Verdict.ENDED


def test_an_answer_far_above_the_blocks_that_were_read_proves_nothing_yet() -> None:
    judge, heights = AnswerJudge("akashnet-2"), set[int]()
    judge.saw(100)
    assert judge.judge(L, closed(L, 1101), heights).verdict is Verdict.NOTHING_PROVEN
    assert heights == set()
    judge.saw(101)
    assert judge.judge(L, closed(L, 1101), heights).verdict is Verdict.LOOKS_ENDED


def test_the_follower_raises_the_height_below_which_nothing_counts() -> None:
    judge, heights = AnswerJudge("akashnet-2"), set[int]()
    judge.saw(100)
    assert judge.judge(L, closed(L, 99), heights).verdict is Verdict.NOTHING_PROVEN
    assert judge.judge(L, closed(L, 100), heights).verdict is Verdict.LOOKS_ENDED


def test_a_node_that_is_a_block_behind_may_say_alive_but_takes_nothing_back() -> None:
    judge, heights = AnswerJudge("akashnet-2"), set[int]()
    judge.saw(100)
    assert judge.judge(L, said(LeaseState.ACTIVE, 99), heights).verdict is Verdict.ALIVE
    assert judge.judge(L, closed(L, 100), heights).verdict is Verdict.LOOKS_ENDED
    assert judge.judge(L, said(LeaseState.ACTIVE, 99), heights).verdict is Verdict.NOTHING_PROVEN
    assert judge.judge(L, closed(L, 101), heights).verdict is Verdict.ENDED


@pytest.mark.parametrize(
    ("reason", "told"),
    [(1, "closed (owner) at"), (10003, "closed (manifest timeout) at"), (0, "closed at"), (77, "closed at")],
)
def test_the_proof_names_the_reason_why_the_chain_closed_the_lease(reason: int, told: str) -> None:
    ended = lease_from_pb(
        pb.Lease(id=lease_id_to_pb(L), state=LeaseState.CLOSED, price={"denom": "uakt"}, reason=reason)  # type: ignore[arg-type]
    )
    assert told in AnswerJudge().judge(L, LeaseAnswer(ended, 5, "akashnet-2"), set()).reason


def test_an_unset_chain_id_is_fixed_by_the_first_answer() -> None:
    judge, heights = AnswerJudge(), set[int]()
    assert judge.judge(L, said(LeaseState.ACTIVE, 5, "sandbox-2"), heights).verdict is Verdict.ALIVE
    assert judge.judge(L, closed(L, 6), heights).verdict is Verdict.NOTHING_PROVEN
    assert "sandbox-2" in judge.judge(L, closed(L, 6), heights).reason


_ANSWERS = st.builds(
    said,
    st.sampled_from([None, *LeaseState]),
    st.integers(-1, 8),
    st.sampled_from(["akashnet-2", "akashnet-2", "othernet-1", ""]),
)


@given(st.lists(_ANSWERS, max_size=12))
def test_no_sequence_of_answers_proves_an_end_without_two_valid_heights(answers: list[LeaseAnswer]) -> None:
    judge, heights, valid, highest = AnswerJudge("akashnet-2"), set[int](), set[int](), 0
    for answer in answers:
        verdict = judge.judge(L, answer, heights).verdict
        if answer.chain_id == "akashnet-2" and answer.height >= max(1, highest):
            highest = answer.height
            if answer.lease is not None:  # an unknown lease neither proves nor takes back
                valid = valid | {answer.height} if answer.lease.state.ended else set()
        assert verdict is not Verdict.ENDED or len(valid) >= 2
