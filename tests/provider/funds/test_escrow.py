"""Escrow arithmetic, the plan of withdrawals, days of earnings, the wallet: all pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lease.ids import DeploymentId, LeaseId
from lease.resources import Price
from provider.errors import CannotPay, CatchingUp, ChainError, FeesHeldBack, NotSent, TxRefused
from provider.funds.earnings import by_day, first_days
from provider.funds.escrow import lease_funds, runs_out_at
from provider.funds.plan import FundsRules, Why, WithdrawalMemory, next_check, withdrawals
from provider.funds.wallet import WalletLevel, WalletRules, judge_wallet
from provider.protocols.chain import Escrow, EscrowState, Payment
from provider.units import Coin

NOW = 1_700_000_000.0
DAY = 86400.0
ACT = "uact"


def lease(dseq: int, gseq: int = 1) -> LeaseId:
    return LeaseId("akash1owner", dseq, gseq, 1, "akash1provider")


def payment(item: LeaseId, *, rate: str = "10", balance: str = "0", withdrawn: str = "0", denom: str = ACT) -> Payment:
    price = Price(denom, Decimal(rate))
    return Payment(item, EscrowState.OPEN, price, Decimal(balance), Decimal(0), Decimal(withdrawn))


def escrow(dseq: int, funds: Mapping[str, str], *rates: str, settled: int = 100, denom: str = ACT) -> Escrow:
    held = {name: Decimal(amount) for name, amount in funds.items()}
    prices = tuple(Price(denom, Decimal(rate)) for rate in rates)
    return Escrow(DeploymentId("akash1owner", dseq), EscrowState.OPEN, settled, held, prices)


@pytest.mark.parametrize(
    ("account", "height"),
    [
        (escrow(1, {ACT: "1000"}, "10"), 201),
        (escrow(1, {ACT: "1009.9"}, "10"), 201),
        (escrow(1, {ACT: "1000"}, "10", "15"), 141),
        (escrow(1, {ACT: "0"}, "10"), 101),
        (escrow(1, {ACT: "-5"}, "10"), 101),
        (escrow(1, {}, "10"), 101),
        (escrow(1, {}, "0.01"), 200),
        (escrow(1, {"uakt": "1000"}, "10"), 101),
        (escrow(1, {"ibc/12C6": "1000"}, "0.5", denom="ibc/12C6"), 2102),
        (escrow(1, {ACT: "10"}, "0.000000000000000001"), 100 + 11 * 10**18),
        (escrow(1, {ACT: "1000"}), None),
        (escrow(1, {ACT: "1000"}, "0"), None),
    ],
)
def test_the_height_at_which_money_ends_counts_every_rate_of_the_deployment_in_any_denom(
    account: Escrow, height: int | None
) -> None:
    assert runs_out_at(account) == height


def test_a_lease_earns_until_the_money_ends_and_not_beyond() -> None:
    account, paid = escrow(1, {ACT: "1000"}, "10"), payment(lease(1), balance="3.5", withdrawn="70")
    assert lease_funds(paid, account, height=150).unpaid == Decimal("503.5")
    late = lease_funds(paid, account, height=9999)
    assert (late.unpaid, late.earned, late.out) == (Decimal("1003.5"), Decimal("1073.5"), True)
    assert not lease_funds(paid, account, height=200).out
    assert lease_funds(paid, account, height=201).out


def test_a_fraction_of_a_coin_is_not_earned_before_it_is_whole_as_the_chain_truncates() -> None:
    account = escrow(1, {ACT: "1000"}, "0.3")
    assert [lease_funds(payment(lease(1), rate="0.3"), account, height=h).unpaid for h in (103, 104, 107)] == [0, 1, 2]


@pytest.mark.parametrize("state", [EscrowState.CLOSED, EscrowState.OVERDRAWN])
def test_a_payment_that_is_not_open_is_never_withdrawn_whatever_its_account(state: EscrowState) -> None:
    paid = replace(payment(lease(1), balance="500"), state=state)
    for account in (escrow(1, {ACT: "0"}, "10"), escrow(1, {ACT: "99999"}, "10"), None):
        seen = [lease_funds(paid, account, height=150)]
        assert not withdrawals(seen, {lease(1): WithdrawalMemory(0)}, now=NOW, rules=FundsRules(600, DAY, Decimal(1)))
        assert next_check(seen, {lease(1): WithdrawalMemory(NOW)}, now=NOW, rules=RULES).height is None


def test_a_node_that_is_behind_takes_nothing_back() -> None:
    assert lease_funds(payment(lease(1), balance="2"), escrow(1, {ACT: "9"}, "1"), height=50).unpaid == 2


def test_without_an_open_account_only_what_was_settled_counts() -> None:
    found = lease_funds(payment(lease(1), balance="7", withdrawn="5"), None, height=10**6)
    assert (found.unpaid, found.earned, found.out) == (7, 12, False)


RULES = FundsRules(interval_s=600, period_s=DAY, threshold=Decimal(0))


def test_an_empty_deployment_is_settled_once_however_many_leases_it_has() -> None:
    account = escrow(1, {ACT: "100"}, "10", "10")
    seen = [lease_funds(payment(lease(1, gseq)), account, height=106) for gseq in (1, 2)]
    known = {item.payment.lease: WithdrawalMemory(NOW) for item in seen}
    found = withdrawals(seen, known, now=NOW, rules=RULES)
    assert [(item.lease, item.why) for item in found] == [(lease(1, 1), Why.OUT_OF_FUNDS)]


def test_what_is_empty_is_settled_before_what_is_only_due() -> None:
    rich, poor = escrow(1, {ACT: "10000"}, "10"), escrow(2, {ACT: "10"}, "10")
    seen = [
        lease_funds(payment(lease(1)), rich, height=150),
        lease_funds(payment(lease(2)), poor, height=150),
    ]
    known = {item.payment.lease: WithdrawalMemory(NOW - DAY) for item in seen}
    found = withdrawals(seen, known, now=NOW, rules=RULES)
    assert [item.why for item in found] == [Why.OUT_OF_FUNDS, Why.PERIOD]


@pytest.mark.parametrize(
    ("unpaid", "threshold", "since", "why"),
    [
        ("500", "500", 0.0, Why.THRESHOLD),
        ("499", "500", 0.0, None),
        ("499", "500", DAY, Why.PERIOD),
        ("499", "0", DAY - 1, None),
        ("0.9", "0", 3 * DAY, None),
        ("0.9", "0.5", 3 * DAY, None),
    ],
)
def test_a_lease_is_collected_at_its_threshold_or_its_period_but_never_for_less_than_one_coin(
    unpaid: str, threshold: str, since: float, why: Why | None
) -> None:
    seen = [lease_funds(payment(lease(1), balance=unpaid), escrow(1, {ACT: "9999"}, "1"), height=100)]
    rules = FundsRules(600, DAY, Decimal(threshold))
    found = withdrawals(seen, {lease(1): WithdrawalMemory(NOW - since)}, now=NOW, rules=rules)
    assert [item.why for item in found] == ([why] if why else [])


def test_period_zero_never_collects_by_time() -> None:
    seen = [lease_funds(payment(lease(1), balance="900"), escrow(1, {ACT: "9999"}, "1"), height=100)]
    assert not withdrawals(seen, {lease(1): WithdrawalMemory(0)}, now=NOW, rules=FundsRules(600, 0, Decimal(0)))


def test_a_refused_withdrawal_rests_longer_each_time_up_to_an_hour() -> None:
    refusal = TxRefused("node", codespace="escrow", code=7, log="payment closed")
    memory, rests = WithdrawalMemory(NOW), []
    for _ in range(20):
        memory = memory.failed(refusal, NOW)
        rests.append(memory.paused_until - NOW)
    assert rests == [60, 120, 240, 480, 960, 1920, *[3600] * 14]
    seen = [lease_funds(payment(lease(1)), escrow(1, {ACT: "0"}, "1"), height=101)]
    known = {lease(1): WithdrawalMemory(NOW, NOW + 240, 3)}
    assert not withdrawals(seen, known, now=NOW + 239, rules=RULES)
    assert withdrawals(seen, known, now=NOW + 240, rules=RULES)
    assert next_check(seen, known, now=NOW + 1, rules=RULES).at == NOW + 240


@pytest.mark.parametrize(
    ("problem", "rest"),
    [
        (ChainError("node", "connection refused"), 60),
        (NotSent("node", "mempool is full"), 60),
        (CatchingUp("node", "at height 5"), 60),
        (FeesHeldBack("budget", again_at=NOW + 900), 900),
        (FeesHeldBack("budget", again_at=NOW + 80_000), 3600),
        (FeesHeldBack("budget", again_at=NOW - 5), 60),
        (CannotPay(TxRefused("node", codespace="sdk", code=5, log="insufficient funds"), "send it uakt"), 300),
    ],
)
def test_what_is_wrong_with_node_budget_or_wallet_is_not_counted_against_the_lease(
    problem: ChainError, rest: float
) -> None:
    memory = WithdrawalMemory(NOW - 5)
    for _ in range(10):
        memory = memory.failed(problem, NOW)
    assert memory == WithdrawalMemory(NOW - 5, NOW + rest, unpaid=isinstance(problem, CannotPay))


def test_an_empty_account_that_stays_open_is_settled_ever_more_rarely() -> None:
    memory, now = WithdrawalMemory(NOW), NOW
    for _ in range(30):
        memory = memory.settled(now)
        now = memory.paused_until
    assert now - NOW > 24 * 3600
    assert memory.since == now - 3600


def test_a_clock_that_was_set_back_keeps_no_lease_from_being_collected() -> None:
    ahead = WithdrawalMemory(NOW + 365 * DAY, NOW + 365 * DAY, 2).no_later_than(NOW)
    assert ahead == WithdrawalMemory(NOW, NOW + 3600, 2)


def test_the_next_look_is_at_the_first_empty_account_or_the_first_period() -> None:
    seen = [
        lease_funds(payment(lease(1)), escrow(1, {ACT: "1000"}, "10"), height=150),
        lease_funds(payment(lease(2)), escrow(2, {ACT: "700"}, "10"), height=150),
    ]
    known = {lease(1): WithdrawalMemory(NOW - DAY + 5), lease(2): WithdrawalMemory(NOW)}
    found = next_check(seen, known, now=NOW, rules=RULES)
    assert (found.height, found.at) == (171, NOW + 5)
    assert next_check([], {}, now=NOW, rules=RULES).height is None


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_earnings_of_days_we_were_down_are_theirs() -> None:
    shares = by_day(Decimal(48), since=at("2026-03-01T18:00"), until=at("2026-03-03T06:00"))
    assert shares == {
        date(2026, 3, 1): Decimal(8),
        date(2026, 3, 2): Decimal(32),
        date(2026, 3, 3): Decimal(8),
    }


def test_a_clock_that_went_back_gives_all_to_the_day_it_says() -> None:
    assert by_day(Decimal(5), since=at("2026-03-02T00:00"), until=at("2026-03-01T00:00")) == {date(2026, 3, 1): 5}
    assert len(by_day(Decimal(5), since=0.0, until=NOW)) == 1


@given(
    amount=st.decimals(-(10**9), 10**15, places=18),
    since=st.floats(NOW, NOW + 40 * DAY),
    length=st.floats(-DAY, 40 * DAY),
)
def test_shares_of_days_add_up_to_exactly_what_was_earned(amount: Decimal, since: float, length: float) -> None:
    shares = by_day(amount, since=since, until=since + length)
    assert abs(sum(shares.values()) - amount) <= Decimal("1e-9")


@given(amount=st.decimals(0, 10**15, places=18), length=st.floats(0, 4000 * DAY))
def test_what_was_earned_before_a_lease_was_ever_seen_is_a_month_of_days_at_most(
    amount: Decimal, length: float
) -> None:
    shares = first_days(amount, since=NOW - length, until=NOW)
    assert len(shares) <= 32
    assert abs(sum(shares.values()) - amount) <= Decimal("1e-9")
    assert max(shares) == datetime.fromtimestamp(NOW, UTC).date()
    assert min(shares.values()) >= Decimal("-1e-9")


WALLET = WalletRules(Coin("uakt", Decimal("0.025")), 1.5, Coin("uakt", Decimal(500_000)), minimum=1_000_000)


@pytest.mark.parametrize(
    ("balance", "engaged", "level"),
    [
        (2_000_000, 0, WalletLevel.ENOUGH),
        (1_000_000, 0, WalletLevel.ENOUGH),
        (999_999, 0, WalletLevel.LOW),
        (650_000, 0, WalletLevel.LOW),
        (649_999, 0, WalletLevel.STOP),
        (2_000_000, 100, WalletLevel.STOP),
        (0, 0, WalletLevel.STOP),
    ],
)
def test_bidding_stops_before_the_fees_of_what_we_have_could_not_be_paid(
    balance: int, engaged: int, level: WalletLevel
) -> None:
    found = judge_wallet({"uakt": balance} if balance else {}, engaged=engaged, rules=WALLET)
    assert found.level is level
    assert (f"{balance}uakt" in found.problem) == (level is not WalletLevel.ENOUGH)


def test_a_deposit_of_another_denom_is_looked_for_in_that_denom() -> None:
    rules = WalletRules(WALLET.gas_price, 1.5, Coin("uact", Decimal(500_000)), minimum=0)
    assert judge_wallet({"uakt": 10**7}, engaged=0, rules=rules).level is WalletLevel.STOP
    assert judge_wallet({"uakt": 10**7, "uact": 500_000}, engaged=0, rules=rules).level is WalletLevel.ENOUGH


@pytest.mark.parametrize(
    ("own", "granted", "level"),
    [
        (500_000, 2_000_000, WalletLevel.ENOUGH),
        (499_999, 2_000_000, WalletLevel.STOP),
        (500_000, 999_999, WalletLevel.LOW),
        (10**9, 149_999, WalletLevel.STOP),
    ],
)
def test_where_a_granter_pays_the_fees_it_is_the_granter_who_must_have_them(
    own: int, granted: int, level: WalletLevel
) -> None:
    rules = replace(WALLET, granter="akash1granter")
    found = judge_wallet({"uakt": own}, engaged=0, rules=rules, granted={"uakt": granted})
    assert found.level is level
    assert ("akash1granter" in found.problem) == (level is not WalletLevel.ENOUGH and own >= 500_000)
